package powercut

import (
	"bytes"
	"fmt"
	"slices"
)

// Damage returns a damaged copy of a file and a description of the damage: flipped bits, sectors of
// zeros, of noise, of another place or of the earlier file, a missing end, or another file
// altogether. It may combine several kinds, and the copy may still equal the file. The file must
// have at least one sector.
func Damage(file, earlier []byte, draw func(n int) int) (what string, damaged []byte) {
	damaged = bytes.Clone(file)
	if draw(40) == 0 {
		return foreignFile(len(file), draw)
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

// foreignFile returns a file that the program never wrote.
func foreignFile(size int, draw func(n int) int) (what string, file []byte) {
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
