package store_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/podfall/podfall/services/apiserver/store"
)

// A copy of the file at each crash-critical line opens, with the commit or without.
func TestCrashImages(t *testing.T) {
	cfg := config(t)
	images := map[string][][]byte{}
	cfg.Failpoint = func(name string) {
		images[name] = append(images[name], readFile(t, cfg.Path)[:1<<20])
	}
	var after []string
	s, stop := start(t, cfg)
	for i := range 12 {
		put(t, s, write(small(fmt.Sprintf("web-%d", i%5), fmt.Sprint(i)), store.Any), write(podNamed("large"), store.Any))
		want, err := contents(s)
		if err != nil {
			t.Fatal(err)
		}
		after = append(after, want)
	}
	stop()
	cfg.Failpoint = nil
	cfg.Path = filepath.Join(t.TempDir(), "crashed.db")
	for i, want := range after {
		if i > 0 {
			openImage(t, cfg, images["store.beforeCommit"][i], after[i-1])
			tornImages(t, cfg, images["store.beforeCommit"][i], images["store.afterCommit"][i], after[i-1])
		}
		openImage(t, cfg, images["store.afterCommit"][i], want)
	}
}

func openImage(t *testing.T, cfg store.Config, image []byte, want string) {
	t.Helper()
	if err := os.WriteFile(cfg.Path, image, 0o600); err != nil {
		t.Fatal(err)
	}
	if found := openDamaged(t, cfg, want); found != "" {
		t.Errorf("a crash damaged the file: %s", found)
	}
}

// tornImages are what a power cut may leave before the meta page is on its way: any of
// the sectors that the commit wrote. Nothing of the commit may show.
func tornImages(t *testing.T, cfg store.Config, before, after []byte, want string) {
	t.Helper()
	rng := rand.New(rand.NewPCG(5, uint64(len(want))))
	for range 10 {
		image := bytes.Clone(before)
		for at := 2 * os.Getpagesize(); at < len(image); at += sector {
			if rng.IntN(2) == 0 {
				copy(image[at:at+sector], after[at:])
			}
		}
		openImage(t, cfg, image, want)
	}
}

// A store is there whole or not at all, also when its creation was cut short: whatever a
// power cut has left of the draft.
func TestCreationCutShort(t *testing.T) {
	whole := config(t)
	_, stop := start(t, whole)
	stop()
	made := readFile(t, whole.Path)
	lost := bytes.Clone(made)
	clear(lost[2*os.Getpagesize():])
	for name, draft := range map[string][]byte{
		"nothing": nil, "zeros": make([]byte, 4*os.Getpagesize()), "a page": made[:os.Getpagesize()],
		"no pages behind the first two": lost, "all of it": made,
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config(t)
			if err := os.WriteFile(cfg.Path+".new", draft, 0o600); err != nil {
				t.Fatal(err)
			}
			s := open(t, cfg)
			if s.Snapshot().Revision() != 1 || s.Oldest() != 2 {
				t.Errorf("a new store is at %d, oldest %d", s.Snapshot().Revision(), s.Oldest())
			}
			if _, err := os.Stat(cfg.Path + ".new"); err == nil {
				t.Error("the draft is still there")
			}
		})
	}
}

func TestTwoProcessesCreateOne(t *testing.T) {
	cfg := config(t)
	cfg.LockTimeout = 2 * time.Minute
	uids := map[string]int{}
	var mu sync.Mutex
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			s, err := store.Open(t.Context(), cfg)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			uids[string(s.ClusterUID())]++
			mu.Unlock()
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if len(uids) != 1 {
		t.Errorf("several clusters: %v", slices.Collect(maps.Keys(uids)))
	}
}
