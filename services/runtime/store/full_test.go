//go:build unix

package store_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/runtime/store"
	"github.com/podfall/podfall/services/runtime/store/storetest"
)

// TestFullDisk: a full disk fails the waiting commits with its reason, and keeps nothing of them.
// Later's changes are kept, and so are commits once there is space.
func TestFullDisk(t *testing.T) {
	if !storetest.InOwnProcess(t) {
		return
	}
	for name, limit := range map[string]uint64{"not a page": 0, "no data": 2 * 4096, "no growth": 32 << 10} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "runtime.db")
				s, _, end := openSynced(t, store.Config{Path: path})
				want := fill(t, s)
				before := historyText(t, s)
				free := storetest.FullDisk(t, limit)
				s.Later(note("exit", "later"))
				var failed *store.CommitError
				for i := range 5 {
					box := &proto.Sandbox{Id: "refused", PodUid: strings.Repeat("x", 40<<10)}
					err := s.Commit(must[store.Op](t)(store.PutSandbox(box)), note("create", fmt.Sprint("refused", i)))
					if !errors.As(err, &failed) || !errors.Is(err, syscall.EFBIG) && !strings.Contains(err.Error(), "file too large") {
						t.Errorf("commit: %v, want a CommitError with the disk's reason", err)
					}
				}
				time.Sleep(3 * time.Second)
				synctest.Wait()
				free()
				time.Sleep(time.Second)
				synctest.Wait()
				commit(t, s, note("create", "after"))
				if got := strings.TrimPrefix(historyText(t, s), before); got != ", 7 exit later, 8 create after" {
					t.Errorf("it has also %q", got)
				}
				end()
				_, contents, end := openStore(t, store.Config{Path: path})
				wantContents(t, want, contents)
				end()
			})
		})
	}
}

// TestBrokenFile: if the file's content cannot be determined, Run returns, and no more changes are
// accepted.
func TestBrokenFile(t *testing.T) {
	s, _, err := store.Open(store.Config{Path: filepath.Join(t.TempDir(), "runtime.db"), NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Break(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Run(t.Context()) }()
	var failed *store.CommitError
	if err := s.Commit(note("create", "c")); !errors.As(err, &failed) {
		t.Errorf("commit: %v, want a CommitError", err)
	}
	if err := <-ended; !errors.As(err, &failed) {
		t.Errorf("run: %v, want a CommitError", err)
	}
	if err := s.Commit(note("create", "c")); !errors.As(err, &failed) {
		t.Errorf("the next commit: %v, want a CommitError", err)
	}
}
