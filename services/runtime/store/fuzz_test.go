package store_test

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/podfall/podfall/services/runtime/store"
)

// FuzzOpen changes a store's file. It is refused with the damage named, or its content is
// unchanged.
func FuzzOpen(f *testing.F) {
	path := filepath.Join(f.TempDir(), "runtime.db")
	s, _, end := openStore(f, store.Config{Path: path})
	want, history := fill(f, s), historyText(f, s)
	end()
	sound := must[[]byte](f)(os.ReadFile(path))
	pages := uint64(0)
	for _, meta := range [][]byte{sound[16:], sound[os.Getpagesize()+16:]} {
		pages = max(pages, binary.NativeEndian.Uint64(meta[40:]))
	}
	sound = sound[:int(pages)*os.Getpagesize()]
	f.Add(uint32(4*os.Getpagesize()+8), []byte{2, 0, 1, 0})
	f.Add(uint32(5*os.Getpagesize()+12), []byte{0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, at uint32, change []byte) {
		path := filepath.Join(t.TempDir(), "runtime.db")
		file := append([]byte(nil), sound...)
		copy(file[int(at)%len(file):], change)
		if err := os.WriteFile(path, file, 0o600); err != nil {
			t.Fatal(err)
		}
		s, contents, err := store.Open(store.Config{Path: path, NoSync: true})
		if err != nil {
			if !errors.As(err, new(*store.DamageError)) && !errors.As(err, new(*store.FormatError)) {
				t.Errorf("refused without naming the damage: %v", err)
			}
			return
		}
		wantStore(t, s, contents, want, history)
	})
}
