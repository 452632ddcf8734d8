//go:build unix

package store_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/podfall/podfall/services/apiserver/store"
)

const fullEnv = "STORE_TEST_FULL" // path and limit of the child of TestDiskFull

// The disk takes no more bytes: in a child process, whose files may only grow so far.
// What it acknowledged is there afterwards; the commit that failed ended it.
func TestDiskFull(t *testing.T) {
	if child := os.Getenv(fullEnv); child != "" {
		fillDisk(t, child)
		return
	}
	for name, limit := range map[string]uint64{
		"writing a page":   8 << 20,  // within the 16 MiB that a new file has
		"growing the file": 20 << 20, // behind it
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "store.db")
			child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestDiskFull$", "-test.v")
			child.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s", fullEnv, limit, path))
			out, err := child.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			s := open(t, store.Config{Path: path})
			acknowledged := 0
			for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
				name, ok := strings.CutPrefix(lines.Text(), "acknowledged ")
				if !ok {
					continue
				}
				acknowledged++
				if s.Snapshot().Get(store.Key{Resource: "pods", Namespace: "default", Name: name}) == nil {
					t.Errorf("%s was acknowledged and is lost", name)
				}
			}
			if acknowledged < 5 || !bytes.Contains(out, []byte("the store stopped")) {
				t.Errorf("%d acknowledged, then\n%s", acknowledged, out)
			}
			put(t, s, write(small("after", ""), store.Absent))
		})
	}
}

func fillDisk(t *testing.T, child string) {
	var limit uint64
	var path string
	if _, err := fmt.Sscan(child, &limit, &path); err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(t.Context(), store.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	signal.Ignore(syscall.SIGXFSZ) // so that the write fails instead
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: limit, Max: limit}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	var group sync.WaitGroup
	group.Go(func() { ended <- s.Run(ctx) })
	var mu sync.Mutex
	last := int64(1)
	for w := range 8 {
		group.Go(func() {
			for i := 0; ; i++ {
				p := small(fmt.Sprintf("web-%d-%d", w, i), "")
				p.Annotations = map[string]string{"large": strings.Repeat("x", 100_000)}
				events, err := s.Commit(ctx, store.Commit{Writes: []store.Write{write(p, store.Absent)}})
				if err != nil {
					if !errors.Is(err, store.ErrStopped) && !errors.As(err, new(*store.CommitError)) {
						t.Errorf("commit: %v", err)
					}
					return
				}
				mu.Lock()
				fmt.Println("acknowledged", p.Name)
				last = max(last, events[0].Revision)
				mu.Unlock()
			}
		})
	}
	group.Wait()
	var failed *store.CommitError
	if err := <-ended; !errors.As(err, &failed) || failed.Revision != last || !strings.Contains(err.Error(), "file too large") {
		t.Errorf("run ended with %v after revision %d", err, last)
	}
	if shown := s.Snapshot().Revision(); shown != last {
		t.Errorf("revision %d is shown, %d was acknowledged", shown, last)
	}
	if _, err := s.Commit(ctx, store.Commit{}); !errors.Is(err, store.ErrStopped) {
		t.Errorf("commit after the failure: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	fmt.Println("the store stopped")
}
