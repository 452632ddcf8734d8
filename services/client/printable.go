package client

import "io"

// printable is a writer that drops the bytes by which text can command a terminal: the
// C0 controls but tab and newline, DEL, and the C1 controls in UTF-8.
func printable(w io.Writer) io.Writer { return &printableWriter{out: w} }

type printableWriter struct {
	out io.Writer
	// lead says that the last byte may open a C1 control, and is still to be written.
	lead bool
}

// c1Lead is the first byte of U+0080 to U+00BF in UTF-8; the first half of them are
// controls.
const c1Lead = 0xC2

// Write implements io.Writer.
func (w *printableWriter) Write(text []byte) (int, error) {
	clean := make([]byte, 0, len(text)+1)
	for _, b := range text {
		if w.lead {
			w.lead = false
			if b >= 0x80 && b <= 0x9F {
				continue
			}
			clean = append(clean, c1Lead)
		}
		switch {
		case b == c1Lead:
			w.lead = true
		case b == '\t' || b == '\n' || (b >= ' ' && b != 0x7F):
			clean = append(clean, b)
		}
	}
	if _, err := w.out.Write(clean); err != nil {
		return 0, err
	}
	return len(text), nil
}
