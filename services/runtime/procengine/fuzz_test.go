package procengine

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// FuzzListening: a listening socket is found among any other lines of a table, and only for its
// port and state.
func FuzzListening(f *testing.F) {
	f.Fuzz(func(t *testing.T, other string, state uint8, port uint16, inode uint64) {
		before := parseListeners([]byte(other+"\n"), int32(port))
		line := fmt.Sprintf("   0: 0100007F:%04X 00000000:0000 %02X 00000000:00000000 00:00000000 00000000  1000        0 %d 1 0\n", port, state, inode)
		got := parseListeners([]byte(other+"\n"+line), int32(port))
		if state == 0x0A {
			before = append(before, fmt.Sprintf("socket:[%d]", inode))
		}
		if !slices.Equal(got, before) {
			t.Errorf("port %d of %q: %q, want %q", port, other+"\n"+line, got, before)
		}
		if lines := strings.Count(other, "0A"); len(got) > lines+1 {
			t.Errorf("%d sockets of %d lines that could be", len(got), lines+1)
		}
	})
}
