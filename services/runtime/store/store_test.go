package store_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.etcd.io/bbolt"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/runtime/engine"
	"github.com/podfall/podfall/services/runtime/store"
)

// openStore opens the store at path without fsync, and runs it until the returned function is
// called.
func openStore(t testing.TB, cfg store.Config) (*store.Store, *store.Contents, func()) {
	t.Helper()
	cfg.NoSync = true
	return openSynced(t, cfg)
}

// openSynced opens the store exactly as cfg says.
func openSynced(t testing.TB, cfg store.Config) (*store.Store, *store.Contents, func()) {
	t.Helper()
	s, contents, err := store.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	return s, contents, func() {
		t.Helper()
		cancel()
		if err := errors.Join(<-ended, s.Close()); err != nil {
			t.Error(err)
		}
	}
}

func at(s int64) time.Time { return time.Unix(s, 0) }

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// fill writes two sandboxes and three containers with events, and returns the expected contents.
func fill(t testing.TB, s *store.Store) *store.Contents {
	t.Helper()
	var want store.Contents
	for i := range 2 {
		box := &proto.Sandbox{Id: fmt.Sprint("box", i), PodUid: fmt.Sprint("uid", i), Ip: "10.0.0.1"}
		want.Sandboxes = append(want.Sandboxes, box)
		commit(t, s, must[store.Op](t)(store.PutSandbox(box)))
	}
	for i := range 3 {
		c := &store.Container{
			ID: fmt.Sprint("c", i), Created: at(int64(i)),
			Request: &proto.CreateContainerRequest{SandboxId: "box1", Name: "app", Script: "ignores TERM"},
		}
		want.Containers = append(want.Containers, c)
		commit(t, s, must[store.Op](t)(store.PutContainer(*c)), note("create", c.ID))
	}
	c := want.Containers
	commit(t, s, store.PutStart("c1", at(10)), store.PutStart("c2", at(11)))
	commit(t, s, store.PutStop("c2", at(20)), note("signal", "c2"))
	commit(t, s, store.PutKill("c2", at(30)), note("signal", "c2"))
	c[1].Events = engine.Events{Start: at(10)}
	c[2].Events = engine.Events{Start: at(11), Stop: at(20), Kill: at(30)}
	c[2].Exit = &store.Exit{Started: 11, Finished: 30, Code: 137, Reason: "Error", Message: "killed"}
	commit(t, s, store.PutExit("c2", *c[2].Exit), note("exit", "c2"))
	return &want
}

func note(what, container string) store.Op {
	return store.Note(store.Entry{What: what, Container: container, At: 5, Pod: "default/web", UID: "u"})
}

func commit(t testing.TB, s *store.Store, ops ...store.Op) {
	t.Helper()
	if err := s.Commit(ops...); err != nil {
		t.Fatal(err)
	}
}

func wantContents(t *testing.T, want, got *store.Contents) {
	t.Helper()
	if diff := diff(want, got); diff != "" {
		t.Errorf("contents (-want +got):\n%s", diff)
	}
}

func diff(want, got *store.Contents) string {
	return cmp.Diff(want, got, protocmp.Transform(), cmpopts.IgnoreUnexported(store.Contents{}), cmpopts.EquateEmpty())
}

// wantStore checks what an opened store holds, and closes it.
func wantStore(t testing.TB, s *store.Store, contents, want *store.Contents, history string) {
	t.Helper()
	if diff := diff(want, contents); diff != "" {
		t.Errorf("contents (-want +got):\n%s", diff)
	}
	if got := historyText(t, s); got != history {
		t.Errorf("history %q, want %q", got, history)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func historyText(t testing.TB, s *store.Store) string {
	t.Helper()
	var text []string
	for _, entry := range must[[]store.Entry](t)(s.History(0, 1000)) {
		text = append(text, fmt.Sprint(entry.Sequence, " ", entry.What, " ", entry.Container))
	}
	return strings.Join(text, ", ")
}

// TestReopen checks that everything committed is there after reopening the file.
func TestReopen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runtime.db")
	s, contents, end := openStore(t, store.Config{Path: path})
	wantContents(t, &store.Contents{}, contents)
	want := fill(t, s)
	end()
	s, contents, end = openStore(t, store.Config{Path: path})
	wantContents(t, want, contents)
	if got, want := historyText(t, s), "1 create c0, 2 create c1, 3 create c2, 4 signal c2, 5 signal c2, 6 exit c2"; got != want {
		t.Errorf("history %q, want %q", got, want)
	}
	after := must[[]store.Entry](t)(s.History(4, 1))
	if len(after) != 1 || after[0].Sequence != 5 || after[0].Pod != "default/web" {
		t.Errorf("one entry after the fourth: %+v", after)
	}
	end()
}

// TestRemove: removing a container removes only its own events; a later event is dropped.
func TestRemove(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runtime.db")
	s, _, end := openStore(t, store.Config{Path: path})
	want := fill(t, s)
	commit(t, s, must[store.Op](t)(store.PutContainer(store.Container{ID: "c", Request: &proto.CreateContainerRequest{}})),
		store.PutStart("c", at(1)))
	commit(t, s, store.RemoveContainer("c")...)
	commit(t, s, store.RemoveContainer("c2")...)
	commit(t, s, store.RemoveContainer("never was")...)
	commit(t, s, store.RemoveSandbox("box0")...)
	commit(t, s, store.PutStop("c2", at(50)), store.PutExit("c2", store.Exit{}))
	end()
	want.Containers, want.Sandboxes = want.Containers[:2], want.Sandboxes[1:]
	_, contents, end := openStore(t, store.Config{Path: path})
	wantContents(t, want, contents)
	end()
}

// TestLater: Later's changes are on disk after a second, with the next commit, or at the end.
func TestLater(t *testing.T) {
	for name, flush := range map[string]func(*store.Store) error{
		"after a second":       func(*store.Store) error { time.Sleep(time.Second); synctest.Wait(); return nil },
		"with the next commit": func(s *store.Store) error { return s.Commit(note("create", "x")) },
		"at the end":           func(*store.Store) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "runtime.db")
				s, _, end := openStore(t, store.Config{Path: path})
				s.Later(note("exit", "c"))
				synctest.Wait()
				if got := historyText(t, s); got != "" {
					t.Errorf("on disk already: %s", got)
				}
				if err := flush(s); err != nil {
					t.Error(err)
				}
				if got := historyText(t, s); name != "at the end" && !strings.HasPrefix(got, "1 exit c") {
					t.Errorf("on disk: %s", got)
				}
				end()
				s, _, end = openStore(t, store.Config{Path: path})
				if got := historyText(t, s); !strings.HasPrefix(got, "1 exit c") {
					t.Errorf("after a restart: %s", got)
				}
				end()
			})
		})
	}
}

// TestHistoryIsBounded: the history keeps the latest entries and their numbers.
func TestHistoryIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runtime.db")
	s, _, end := openStore(t, store.Config{Path: path, History: 3})
	for i := range 10 {
		commit(t, s, note("create", fmt.Sprint(i)))
	}
	if got, want := historyText(t, s), "8 create 7, 9 create 8, 10 create 9"; got != want {
		t.Errorf("history %q, want %q", got, want)
	}
	end()
	s, _, end = openStore(t, store.Config{Path: path, History: 2})
	commit(t, s, note("create", "10"))
	if got, want := historyText(t, s), "10 create 9, 11 create 10"; got != want {
		t.Errorf("history %q, want %q", got, want)
	}
	end()
}

// TestConcurrentCommits: concurrent commits are all there.
func TestConcurrentCommits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runtime.db")
	s, _, end := openStore(t, store.Config{Path: path})
	done := make(chan error, 500)
	for i := range 500 {
		go func() {
			op, err := store.PutSandbox(&proto.Sandbox{Id: fmt.Sprint(i)})
			done <- errors.Join(err, s.Commit(op))
		}()
	}
	for range 500 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	end()
	_, contents, end := openStore(t, store.Config{Path: path})
	if len(contents.Sandboxes) != 500 {
		t.Errorf("%d sandboxes, want 500", len(contents.Sandboxes))
	}
	end()
}

// TestStopped: once Run has returned, changes are rejected and no call blocks.
func TestStopped(t *testing.T) {
	s, _, end := openStore(t, store.Config{Path: filepath.Join(t.TempDir(), "runtime.db")})
	end()
	if err := s.Commit(note("create", "c")); !errors.Is(err, store.ErrStopped) {
		t.Errorf("commit: %v, want ErrStopped", err)
	}
	s.Later(note("create", "c"))
}

// TestLocked: two runtimes cannot open one store.
func TestLocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runtime.db")
	_, _, end := openStore(t, store.Config{Path: path})
	defer end()
	if _, _, err := store.Open(store.Config{Path: path}); !errors.Is(err, store.ErrLocked) {
		t.Errorf("open: %v, want ErrLocked", err)
	}
}

// editBucket changes one bucket of a closed store.
func editBucket(t *testing.T, path, bucket string, change func(*bbolt.Bucket) error) {
	t.Helper()
	db := must[*bbolt.DB](t)(bbolt.Open(path, 0o600, &bbolt.Options{NoFreelistSync: true}))
	if err := db.Update(func(tx *bbolt.Tx) error { return change(tx.Bucket([]byte(bucket))) }); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestOtherVersion: a store of another version is refused, and the error names both versions.
func TestOtherVersion(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runtime.db")
	_, _, end := openStore(t, store.Config{Path: path})
	end()
	editBucket(t, path, "meta", func(meta *bbolt.Bucket) error {
		body := binary.BigEndian.AppendUint64(nil, 7)
		sum := crc32.Checksum(append([]byte("meta\x00format\x00"), body...), crc32.MakeTable(crc32.Castagnoli))
		return meta.Put([]byte("format"), append(binary.BigEndian.AppendUint32(nil, sum), body...))
	})
	_, _, err := store.Open(store.Config{Path: path})
	var other *store.FormatError
	if !errors.As(err, &other) || other.Found != 7 || other.Wanted != 2 {
		t.Errorf("open: %v, want a FormatError of 7 and 2", err)
	}
}

// TestDamagedRecords: a damaged record is named, and the whole file is refused.
func TestDamagedRecords(t *testing.T) {
	for _, row := range []struct{ bucket, key, want string }{
		{"sandboxes", "box1", "sandboxes box1: checksum mismatch"},
		{"containers", "c2", "containers c2: checksum mismatch"},
		{"events", "c2\x00stop", "events c2 stop: checksum mismatch"},
		{"history", "\x00\x00\x00\x00\x00\x00\x00\x02", "history 2: checksum mismatch"},
		{"meta", "format", "meta format: checksum mismatch"},
	} {
		path := filepath.Join(t.TempDir(), "runtime.db")
		s, _, end := openStore(t, store.Config{Path: path})
		fill(t, s)
		end()
		editBucket(t, path, row.bucket, func(b *bbolt.Bucket) error {
			value := append([]byte(nil), b.Get([]byte(row.key))...)
			value[len(value)-1] ^= 1
			return b.Put([]byte(row.key), value)
		})
		_, _, err := store.Open(store.Config{Path: path})
		var damage *store.DamageError
		if !errors.As(err, &damage) || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %q", row.bucket, err, row.want)
		}
	}
}

// TestMisplacedRecords: a record in another's place, or a missing one, is noticed.
func TestMisplacedRecords(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runtime.db")
	s, _, end := openStore(t, store.Config{Path: path})
	fill(t, s)
	end()
	editBucket(t, path, "events", func(events *bbolt.Bucket) error {
		return events.Put([]byte("c1\x00stop"), append([]byte(nil), events.Get([]byte("c2\x00stop"))...))
	})
	var damage *store.DamageError
	if _, _, err := store.Open(store.Config{Path: path}); !errors.As(err, &damage) {
		t.Errorf("a copied event: %v, want a DamageError", err)
	}
	editBucket(t, path, "events", func(events *bbolt.Bucket) error { return events.Delete([]byte("c1\x00stop")) })
	editBucket(t, path, "containers", func(containers *bbolt.Bucket) error { return containers.Delete([]byte("c2")) })
	_, _, err := store.Open(store.Config{Path: path})
	if !errors.As(err, &damage) || !strings.Contains(err.Error(), "events c2 exit: belongs to nothing") {
		t.Errorf("events without their container: %v, want a DamageError", err)
	}
}

// TestAnyByteDamaged: whichever byte of the file is changed, it is refused, or everything committed
// is there.
func TestAnyByteDamaged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runtime.db")
	s, _, end := openStore(t, store.Config{Path: path})
	want := fill(t, s)
	end()
	sound := must[[]byte](t)(os.ReadFile(path))
	damaged := filepath.Join(t.TempDir(), "damaged.db")
	refused := 0
	for i := 0; i < len(sound); i += 13 {
		raw := append([]byte(nil), sound...)
		raw[i] ^= 0x5a
		if err := os.WriteFile(damaged, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		s, contents, err := store.Open(store.Config{Path: damaged, NoSync: true})
		if err != nil {
			if _, ok := errors.AsType[*store.DamageError](err); !ok {
				t.Fatalf("byte %d: %v, want a DamageError", i, err)
			}
			refused++
			continue
		}
		if diff := diff(want, contents); diff != "" {
			t.Fatalf("byte %d went unnoticed:\n%s", i, diff)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if refused < 50 {
		t.Errorf("only %d damages were noticed", refused)
	}
}

// TestNotAStore: a truncated file, or one that never was a store, is refused.
func TestNotAStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runtime.db")
	s, _, end := openStore(t, store.Config{Path: path})
	fill(t, s)
	end()
	sound := must[[]byte](t)(os.ReadFile(path))
	for name, raw := range map[string][]byte{
		"cut in the middle": sound[:len(sound)/2],
		"three pages":       sound[:3*os.Getpagesize()],
		"text":              []byte(strings.Repeat("not a store\n", 10_000)),
		"zeros":             make([]byte, len(sound)),
	} {
		bad := filepath.Join(t.TempDir(), "bad.db")
		if err := os.WriteFile(bad, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		_, _, err := store.Open(store.Config{Path: bad})
		if _, ok := errors.AsType[*store.DamageError](err); !ok {
			t.Errorf("%s: %v, want a DamageError", name, err)
		}
	}
}
