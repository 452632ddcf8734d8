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

// FuzzPrivatePages: private pages are the difference of two numbers of a statm file, or none, and
// their bytes fit an int64. Invalid files give none.
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

// FuzzCatches: the handled signals are the bits of the SigCgt mask, on whichever line it is.
func FuzzCatches(f *testing.F) {
	f.Fuzz(func(t *testing.T, before string, mask uint64) {
		if strings.Contains(before, "SigCgt:") {
			return
		}
		status := fmt.Appendf(nil, "%s\nSigCgt:\t%016x\nCapInh:\t0000000000000000\n", before, mask)
		caught := 0
		for number := syscall.Signal(1); number <= 64; number++ {
			if catchesSignal(status, number) {
				caught++
			}
			if catchesSignal(status, number) != (mask>>(number-1)&1 == 1) {
				t.Errorf("%q: signal %d: %v", status, number, catchesSignal(status, number))
			}
		}
		if caught != bits.OnesCount64(mask) {
			t.Errorf("%d signals of %x", caught, mask)
		}
	})
}

// FuzzMessage: messages and files round-trip. The error of an unreadable file names the file.
func FuzzMessage(f *testing.F) {
	root, err := os.OpenRoot(f.TempDir())
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { root.Close() })
	f.Fuzz(func(t *testing.T, text []byte) {
		checkRoundTrip[message](t, text)
		checkRoundTrip[Spec](t, text)
		checkRoundTrip[Process](t, text)
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
		checkRoundTrip[Status](t, text)
	})
}

// checkRoundTrip decodes text as a T, encodes the T, and compares.
func checkRoundTrip[T any](t *testing.T, text []byte) {
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
