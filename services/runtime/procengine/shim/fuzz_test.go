package shim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/bits"
	"os"
	"strings"
	"syscall"
	"testing"
)

// FuzzPrivatePages: a program's own pages are the difference of two numbers of its statm, or none,
// and so many bytes still fit an int64; what is no statm is of no pages.
func FuzzPrivatePages(f *testing.F) {
	f.Fuzz(func(t *testing.T, all, shared uint32, other []byte) {
		text := fmt.Appendf(nil, "4294967295 %d %d 12 0 34 0\n", all, shared)
		if pages := privatePages(text); pages != max(int64(all)-int64(shared), 0) {
			t.Errorf("%q: %d pages", text, pages)
		}
		if pages := privatePages(other); pages < 0 || pages > 0 && pages*int64(os.Getpagesize()) < pages {
			t.Errorf("%q: %d pages", other, pages)
		}
	})
}

// FuzzCatches: the signals that a process has handlers for are the bits of its mask, in
// whichever line that is.
func FuzzCatches(f *testing.F) {
	f.Fuzz(func(t *testing.T, before string, mask uint64) {
		if strings.Contains(before, "SigCgt:") {
			return
		}
		status := fmt.Appendf(nil, "%s\nSigCgt:\t%016x\nCapInh:\t0000000000000000\n", before, mask)
		caught := 0
		for number := syscall.Signal(1); number <= 64; number++ {
			if catches(status, number) {
				caught++
			}
			if catches(status, number) != (mask>>(number-1)&1 == 1) {
				t.Errorf("%q: signal %d: %v", status, number, catches(status, number))
			}
		}
		if caught != bits.OnesCount64(mask) {
			t.Errorf("%d signals of %x", caught, mask)
		}
	})
}

// FuzzMessage: what is said on a control socket, and what is in a container's files, is read
// as the same when it is written again; a file that cannot be read is named.
func FuzzMessage(f *testing.F) {
	root, err := os.OpenRoot(f.TempDir())
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { root.Close() })
	f.Fuzz(func(t *testing.T, text []byte) {
		same[message](t, text)
		same[Spec](t, text)
		same[Process](t, text)
		if err := root.WriteFile(fileExit, text, 0o600); err != nil {
			t.Fatal(err)
		}
		status, err := readJSON[Status](root, fileExit)
		if err != nil {
			if !strings.HasPrefix(err.Error(), fileExit+": ") {
				t.Errorf("%q: %v, want the file's name", text, err)
			}
			return
		}
		if data, err := json.Marshal(status); err != nil {
			t.Errorf("%q: %v", data, err)
		}
		same[Status](t, text)
	})
}

// same reads text as a T, and the T that it writes.
func same[T any](t *testing.T, text []byte) {
	t.Helper()
	var value, again T
	if json.Unmarshal(text, &value) != nil {
		return
	}
	first, err := json.Marshal(value)
	if err != nil {
		t.Fatalf("read %q as %+v, which cannot be written: %v", text, value, err)
	}
	if err := json.Unmarshal(first, &again); err != nil {
		t.Fatalf("wrote %s, which cannot be read: %v", first, err)
	}
	if second, err := json.Marshal(again); err != nil || !bytes.Equal(first, second) {
		t.Errorf("wrote %s, read, and wrote %s (%v)", first, second, err)
	}
}
