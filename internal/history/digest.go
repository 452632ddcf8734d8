package history

import (
	"hash/crc32"
	"strconv"
)

// Digest returns a short checksum: equal bytes have equal digests. It does not protect against
// deliberate collisions.
func Digest(data []byte) string {
	return strconv.FormatUint(uint64(crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))), 36)
}
