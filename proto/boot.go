package proto

import (
	"encoding/hex"
	"fmt"
	"strings"
	"time"
)

// Boot names one incarnation of a process. Boots of one identity sort by start time, so that the
// newer of two is known without asking.
type Boot string

// NewBoot returns the boot of a process that starts now. The entropy distinguishes processes that
// start at the same instant.
func NewBoot(now time.Time, entropy [4]byte) Boot {
	return Boot(fmt.Sprintf("%016x-%s", uint64(now.UnixNano()), hex.EncodeToString(entropy[:])))
}

// IsValid reports whether b has the format of [NewBoot].
func (b Boot) IsValid() bool {
	began, entropy, found := strings.Cut(string(b), "-")
	return found && isHex(began, 16) && isHex(entropy, 8)
}

func isHex(text string, digits int) bool {
	return len(text) == digits && strings.Trim(text, "0123456789abcdef") == ""
}

// OlderThan reports whether b began before other.
func (b Boot) OlderThan(other Boot) bool { return b < other }
