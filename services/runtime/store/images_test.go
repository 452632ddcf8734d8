//go:build linux

package store_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/podfall/podfall/internal/powercut"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/runtime/store"
)

var imageCount = flag.Int("images", 1000, "different power-cut images that TestPowerCuts opens")

const cutEnv = "RUNTIME_STORE_TEST_CUT" // path of the child of TestPowerCuts

// TestPowerCuts cuts the power at any moment of a store's use, including its creation. Committed
// changes exist, the current step's changes exist or not, and nothing else does.
func TestPowerCuts(t *testing.T) {
	if path := os.Getenv(cutEnv); path != "" {
		runUntilCut(t, path)
		return
	}
	dir, drawn, different := t.TempDir(), 0, 0
	each := max(min(*imageCount/2, 10000), 1)
	bound := 2 + 8**imageCount/each
	for recording := 0; different < *imageCount; recording++ { // each begins on a disk that the one before was cut from
		if recording == bound {
			t.Fatalf("%d recordings, %d images drawn: only %d of the %d asked for differ", bound, drawn, different, *imageCount)
		}
		log, err := powercut.Record(powercut.Command{
			Args: []string{os.Args[0], "-test.run=^TestPowerCuts$"}, Dir: dir,
			Env: append(os.Environ(), cutEnv+"="+filepath.Join(dir, "runtime.db")),
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("recording %d: %d system calls, %d writes, %d syncs", recording, log.Len(), log.Writes(), log.Syncs())
		said := log.Output()
		said = said[:len(said)-1] // which is what package testing says
		seed, seen := maphash.MakeSeed(), map[image]bool{}
		for i := 0; i < each && different < *imageCount; i++ {
			rng := rand.New(rand.NewPCG(uint64(recording), uint64(i)))
			moment := rng.IntN(log.Len() + 1)
			if i%20 == 0 {
				moment = rng.IntN(min(25, log.Len())) // while it is opened, or made
			}
			disk := log.Cut(moment, rng.IntN)
			it := image{disk.Hash(seed), min(log.OutputBefore(moment), len(said))}
			drawn++
			if seen[it] {
				continue
			}
			seen[it] = true
			different++
			if err := disk.Restore(dir); err != nil {
				t.Fatal(err)
			}
			checkCut(t, dir, said, it.past)
			if t.Failed() {
				t.Fatalf("recording %d, image %d, cut after %d of %d system calls", recording, i, moment, log.Len())
			}
		}
	}
	t.Logf("figures: %d different images, of %d drawn", different, drawn)
}

// image is the hash of a disk and the number of steps announced before it. Repeated images are
// checked once.
type image struct {
	disk uint64
	past int
}

// checkCut opens a store after a power cut with `past` steps announced. It must hold the state
// after the last announced step or the one after.
func checkCut(t *testing.T, dir string, said []string, past int) {
	t.Helper()
	s, contents, err := store.Open(store.Config{Path: filepath.Join(dir, "runtime.db"), NoSync: true})
	if err != nil {
		t.Errorf("a power cut damaged the file: %v", err)
		return
	}
	before, after := said[max(past-1, 0)], said[min(past, len(said)-1)]
	if got := storeState(t, s, contents); got != before && got != after {
		t.Errorf("%swas committed, then\n%swas under way; there is\n%s", before, after, got)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// storeState returns a store's content as a line.
func storeState(t *testing.T, s *store.Store, contents *store.Contents) string {
	t.Helper()
	text, err := json.Marshal(contents)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s %s\n", text, historyText(t, s))
}

// runUntilCut runs thirty steps and prints after each what a restart would find, read from a copy.
func runUntilCut(t *testing.T, path string) {
	s, _, end := openSynced(t, store.Config{Path: path})
	say := func() {
		copied := filepath.Join(t.TempDir(), "copy.db")
		if err := os.WriteFile(copied, must[[]byte](t)(os.ReadFile(path)), 0o600); err != nil {
			t.Fatal(err)
		}
		other, contents, err := store.Open(store.Config{Path: copied, NoSync: true})
		if err != nil {
			t.Fatal(err)
		}
		line := storeState(t, other, contents)
		if err := other.Close(); err != nil {
			t.Fatal(err)
		}
		fmt.Print(line)
	}
	say()
	box := &proto.Sandbox{Id: "box", PodUid: "uid", Ip: "10.0.0.1"}
	commit(t, s, must[store.Op](t)(store.PutSandbox(box)))
	say()
	for i := range 10 {
		id := fmt.Sprint("c", i%3)
		c := store.Container{
			ID: id, Created: at(int64(i)),
			Request: &proto.CreateContainerRequest{SandboxId: "box", Name: "app", Script: fmt.Sprint("exits with ", i)},
		}
		commit(t, s, must[store.Op](t)(store.PutContainer(c)), note("create", id))
		say()
		commit(t, s, store.PutStart(id, at(int64(10+i))), note("start", id))
		say()
		commit(t, s, append(store.RemoveContainer(id), note("remove", id))...)
		say()
	}
	end()
}
