package store_test

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/podfall/podfall/services/apiserver/store"
)

// FuzzOpen changes a store's file at a place, to anything: it is refused and the damage
// named, or all that it serves is as it was.
func FuzzOpen(f *testing.F) {
	cfg := config(f)
	s, stop := start(f, cfg)
	for _, name := range []string{"a", "b", "a"} {
		put(f, s, write(small(name, "node-1"), store.Any))
	}
	want, err := contents(s)
	if err != nil {
		f.Fatal(err)
	}
	stop()
	sound, err := os.ReadFile(cfg.Path)
	if err != nil {
		f.Fatal(err)
	}
	sound = sound[:used(sound)]
	f.Add(uint32(4*os.Getpagesize()+8), []byte{2, 0, 1, 0})
	f.Add(uint32(5*os.Getpagesize()+12), []byte{0xff, 0xff, 0xff, 0xff})
	cfg.LockTimeout = time.Second
	f.Fuzz(func(t *testing.T, at uint32, change []byte) {
		cfg := cfg
		cfg.Path = config(t).Path
		file := append([]byte(nil), sound...)
		copy(file[int(at)%len(file):], change)
		if err := os.WriteFile(cfg.Path, file, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := store.Open(t.Context(), cfg)
		if err != nil {
			if !errors.As(err, new(*store.DamageError)) && !errors.As(err, new(*store.FormatError)) {
				t.Errorf("refused without naming the damage: %v", err)
			}
			return
		}
		defer closeIt(t, s)
		if got, err := contents(s); err != nil || got != want {
			t.Errorf("opened with wrong contents (%v)", err)
		}
	})
}
