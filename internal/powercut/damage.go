package powercut

import (
	"bytes"
	"fmt"
	"slices"
)

// Damage is a copy of a file with something wrong with it, and what that is: bits that
// have flipped, sectors of zeros, of noise, of another place or of the file as it was
// earlier, an end that is missing, or another file altogether. It may be one or several
// of them, and the copy may still equal the file. The file has a sector at least.
func Damage(file, earlier []byte, draw func(n int) int) (what string, damaged []byte) {
	damaged = bytes.Clone(file)
	if draw(40) == 0 {
		return foreign(len(file), draw)
	}
	for range 1 + draw(3) {
		if len(damaged) < Sector {
			break
		}
		at := draw(len(damaged)/Sector) * Sector
		sector := damaged[at : at+Sector]
		switch draw(6) {
		case 0, 1:
			bit := draw(8 * Sector)
			sector[bit/8] ^= 1 << (bit % 8)
			what += fmt.Sprintf("bit %d of byte %d flipped; ", bit%8, at+bit/8)
		case 2:
			clear(sector)
			what += fmt.Sprintf("sector at %d zeroed; ", at)
		case 3:
			from := draw(len(file)/Sector) * Sector
			copy(sector, file[from:])
			what += fmt.Sprintf("sector at %d as that at %d; ", at, from)
		case 4:
			if at+Sector <= len(earlier) {
				copy(sector, earlier[at:])
				what += fmt.Sprintf("sector at %d as it was; ", at)
			}
		case 5:
			end := draw(len(damaged))
			damaged = damaged[:end]
			what += fmt.Sprintf("cut to %d bytes; ", end)
		}
	}
	return what, damaged
}

// foreign is a file that never was one of ours.
func foreign(size int, draw func(n int) int) (what string, file []byte) {
	file = make([]byte, draw(size))
	switch draw(3) {
	case 0:
		for i := range file {
			file[i] = byte(draw(256))
		}
		return "noise", file
	case 1:
		return "text", slices.Repeat([]byte("kind: Pod\n"), 1+len(file)/10)
	default:
		return "zeros", file
	}
}
