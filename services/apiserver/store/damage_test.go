package store_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver/store"
)

const sector = 512

// sample is a store's file with a bit of everything: several levels of pages, live,
// changed, deleted and compacted objects of all sizes.
func sample(t *testing.T) store.Config {
	t.Helper()
	cfg := config(t)
	cfg.LockTimeout = time.Minute // a process that another test starts may have the file for a moment, until it is its program
	s, stop := start(t, cfg)
	put(t, s, write(small("untouched", "node-0"), store.Absent)) // revision 2, live to the end
	for i := range 150 {
		p := small(fmt.Sprintf("web-%d", i%40), fmt.Sprintf("node-%d", i))
		switch {
		case i%50 == 49:
			p.Annotations = map[string]string{"large": strings.Repeat(fmt.Sprint(i), 3000)}
		case i%9 == 8:
			p = podNamed(p.Name)
		}
		put(t, s, write(p, store.Any))
		if i%13 == 12 {
			put(t, s, store.Write{Key: keyOf(p), Expect: store.Any})
		}
	}
	if err := s.Compact(t.Context(), 60); err != nil {
		t.Fatal(err)
	}
	stop()
	return cfg
}

// digest prints as the length and the SHA-256 of some bytes: it takes a fifth of the time
// that printing them takes.
type digest []byte

func (d digest) String() string {
	sum := sha256.Sum256(d)
	return strconv.Itoa(len(d)) + ":" + hex.EncodeToString(sum[:])
}

// contents is all that a store answers, as text.
func contents(s *store.Store) (string, error) {
	var out strings.Builder
	fmt.Fprintf(&out, "%s %d %d\n", s.ClusterUID(), s.Oldest(), s.Snapshot().Revision())
	for r := range s.Snapshot().Scan("pods", "", "") {
		object, err := kinds.Encode(r.Object)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&out, "%s %d %s %s\n", r.Key, r.Revision, digest(r.Data), digest(object))
	}
	events, err := s.Since(s.Oldest() - 1)
	for _, e := range events {
		fmt.Fprintf(&out, "%d %s %s %s\n", e.Revision, e.Type, digest(e.Record.Data), e.Cause)
		if e.Previous != nil {
			fmt.Fprintf(&out, "\tbefore: %d %s\n", e.Previous.Revision, digest(e.Previous.Data))
		}
	}
	return out.String(), err
}

// openDamaged opens the file. It returns "" if all contents are as wanted, and the damage if the
// file is refused.
func openDamaged(t *testing.T, cfg store.Config, want string) string {
	t.Helper()
	s, err := store.Open(t.Context(), cfg)
	if damage, ok := errors.AsType[*store.DamageError](err); ok {
		if damage.Path != cfg.Path || damage.Record == "" || damage.What == "" {
			t.Errorf("damage without a name: %#v", damage)
		}
		return damage.Error()
	}
	if err != nil {
		t.Errorf("refused without naming the damage: %v", err)
		return err.Error()
	}
	defer closeIt(t, s)
	got, err := contents(s)
	if err != nil {
		t.Errorf("opened, but: %v", err)
	} else if got != want {
		t.Errorf("opened with wrong contents")
	}
	return ""
}

// used is how far into the file pages are in use, by bbolt's newer meta page.
func used(file []byte) int {
	pages := uint64(0)
	for _, meta := range [][]byte{file[16:], file[os.Getpagesize()+16:]} {
		pages = max(pages, binary.NativeEndian.Uint64(meta[40:]))
	}
	return int(pages) * os.Getpagesize()
}

func baseline(t *testing.T, cfg store.Config) string {
	t.Helper()
	s, err := store.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer closeIt(t, s)
	want, err := contents(s)
	if err != nil {
		t.Fatal(err)
	}
	return want
}

func TestEveryFlipIsHarmlessOrRefused(t *testing.T) {
	cfg := sample(t)
	want := baseline(t, cfg)
	original := readFile(t, cfg.Path)
	end := used(original)
	rng := rand.New(rand.NewPCG(1, 2))
	var positions []int
	for page := 0; page < end; page += os.Getpagesize() {
		positions = append(positions, page+8, page+10, page+12, page+16+rng.IntN(16), page+16+rng.IntN(128), page+rng.IntN(os.Getpagesize()))
	}
	for range 300 {
		positions = append(positions, rng.IntN(end))
	}
	for at := range 80 { // the meta pages
		positions = append(positions, at, os.Getpagesize()+at)
	}
	file, err := os.OpenFile(cfg.Path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer closeIt(t, file)
	refused := 0
	for _, at := range positions {
		flipped := original[at] ^ 1<<rng.IntN(8)
		writeAt(t, file, []byte{flipped}, at)
		if found := openDamaged(t, cfg, want); found != "" {
			refused++
		}
		if t.Failed() {
			t.Fatalf("byte %d (page %d + %d): %#x became %#x", at, at/os.Getpagesize(), at%os.Getpagesize(), original[at], flipped)
		}
		writeAt(t, file, original[at:at+1], at)
	}
	t.Logf("%d of %d flips refused", refused, len(positions))
	if refused < len(positions)/4 {
		t.Errorf("only %d of %d flips were noticed: is the sample used at all?", refused, len(positions))
	}
}

func TestEveryLostSectorIsHarmlessOrRefused(t *testing.T) {
	cfg := sample(t)
	want := baseline(t, cfg)
	original := readFile(t, cfg.Path)
	file, err := os.OpenFile(cfg.Path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer closeIt(t, file)
	end := used(original)
	for at := 0; at < end; at += sector {
		// zeros, and what another page has at that place
		for _, instead := range [][]byte{make([]byte, sector), original[(at+7*os.Getpagesize())%end:][:sector]} {
			writeAt(t, file, instead, at)
			openDamaged(t, cfg, want)
			if t.Failed() {
				t.Fatalf("sector at %d (page %d)", at, at/os.Getpagesize())
			}
			writeAt(t, file, original[at:at+sector], at)
		}
	}
}

func TestEveryTruncationIsHarmlessOrRefused(t *testing.T) {
	cfg := sample(t)
	want := baseline(t, cfg)
	original := readFile(t, cfg.Path)
	end := used(original)
	rng := rand.New(rand.NewPCG(3, 4))
	sizes := []int{0, 1, 80, 4095, 4096, 8192, end, len(original) - 1}
	for range 60 {
		sizes = append(sizes, rng.IntN(end))
	}
	for _, size := range sizes {
		if err := os.WriteFile(cfg.Path, original[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		found := openDamaged(t, cfg, want)
		if (found == "") != (size >= end) || t.Failed() {
			t.Fatalf("cut to %d of %d bytes: %q", size, end, found)
		}
	}
}

// sealed is a value of the meta bucket, worked out by the drawing in schema.go.
func sealed(key string, payload []byte) []byte {
	sum := crc32.Checksum(append([]byte(key), payload...), crc32.MakeTable(crc32.Castagnoli))
	return append(binary.BigEndian.AppendUint32(nil, sum), payload...)
}

// edit changes the file with bbolt, as no store would.
func edit(t *testing.T, path string, change func(tx *bbolt.Tx) error) {
	t.Helper()
	db, err := bbolt.Open(path, 0, &bbolt.Options{NoFreelistSync: true, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer closeIt(t, db)
	if err := db.Update(change); err != nil {
		t.Fatal(err)
	}
}

func TestAnotherFormatVersion(t *testing.T) {
	cfg := sample(t)
	edit(t, cfg.Path, func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte("meta")).Put([]byte("format"), sealed("format", binary.BigEndian.AppendUint64(nil, 2)))
	})
	_, err := store.Open(t.Context(), cfg)
	var format *store.FormatError
	if !errors.As(err, &format) || format.Found != 2 || format.Wanted != 1 {
		t.Errorf("%v, want a format error that says 2 and 1", err)
	}
}

// What no checksum of a record tells: whole records that are missing or old.
func TestMissingRecordsAreNamed(t *testing.T) {
	history := func(tx *bbolt.Tx) *bbolt.Bucket { return tx.Bucket([]byte("history")) }
	key := func(revision uint64) []byte { return binary.BigEndian.AppendUint64(nil, revision) }
	for name, row := range map[string]struct {
		change func(tx *bbolt.Tx) error
		want   string
	}{
		"an event":       {func(tx *bbolt.Tx) error { return history(tx).Delete(key(100)) }, "history: revision 100: missing"},
		"the last event": {func(tx *bbolt.Tx) error { k, _ := history(tx).Cursor().Last(); return history(tx).Delete(k) }, "history: revision 163: the last revision should be 163"},
		"a version that was replaced later": {func(tx *bbolt.Tx) error {
			c := history(tx).Cursor()
			c.First()
			k, _ := c.Next()
			return history(tx).Delete(k)
		}, "history: revision "},
		"a version that is still live": {func(tx *bbolt.Tx) error { return history(tx).Delete(key(2)) }, "history: versions up to revision 60: they lead to"},
		"the counters":                 {func(tx *bbolt.Tx) error { return tx.Bucket([]byte("meta")).Delete([]byte("state")) }, "meta: state"},
		"the history":                  {func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte("history")) }, "history: the bucket: missing"},
		"an event of another revision": {func(tx *bbolt.Tx) error {
			return history(tx).Put(key(100), bytes.Clone(history(tx).Get(key(101))))
		}, "history: revision 100: checksum mismatch"},
		"a bucket too many": {func(tx *bbolt.Tx) error {
			_, err := history(tx).CreateBucket([]byte("nested"))
			return err
		}, "history: page"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := sample(t)
			edit(t, cfg.Path, row.change)
			_, err := store.Open(t.Context(), cfg)
			if !errors.As(err, new(*store.DamageError)) || !strings.Contains(err.Error(), row.want) {
				t.Errorf("got %v, want %q", err, row.want)
			}
		})
	}
}

// A disk that has dropped the write of one meta page, and taken the next.
func TestStaleMetaPageIsRefused(t *testing.T) {
	cfg := config(t)
	s, stop := start(t, cfg)
	put(t, s, write(small("web", "n1"), store.Any))
	early := readFile(t, cfg.Path)[:2*os.Getpagesize()]
	for i := range 3 {
		put(t, s, write(small("web", fmt.Sprint(i)), store.Any))
	}
	stop()
	late := readFile(t, cfg.Path)
	older := 0
	if transaction := func(page int) uint64 { return binary.NativeEndian.Uint64(late[page*os.Getpagesize()+64:]) }; transaction(1) < transaction(0) {
		older = 1
	}
	file, err := os.OpenFile(cfg.Path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer closeIt(t, file)
	writeAt(t, file, early[older*os.Getpagesize():][:os.Getpagesize()], older*os.Getpagesize())
	if found := openDamaged(t, cfg, ""); !strings.Contains(found, "transaction") {
		t.Errorf("got %q, want a meta page that is refused", found)
	}
}

// The file goes bad while it is open.
func TestDamageWhileOpen(t *testing.T) {
	cfg := sample(t)
	file, err := os.OpenFile(cfg.Path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer closeIt(t, file)
	original := readFile(t, cfg.Path)
	t.Run("a record", func(t *testing.T) {
		at := bytes.LastIndex(original, []byte("node-140"))
		s := open(t, cfg)
		writeAt(t, file, []byte("node-141"), at)
		defer writeAt(t, file, []byte("node-140"), at)
		_, err := s.Since(s.Oldest() - 1)
		if !errors.As(err, new(*store.DamageError)) || !strings.Contains(err.Error(), "checksum") {
			t.Errorf("read a wrong byte: %v", err)
		}
	})
	t.Run("cut short", func(t *testing.T) {
		s := open(t, cfg)
		if err := file.Truncate(4096); err != nil {
			t.Fatal(err)
		}
		_, err := s.Since(s.Oldest() - 1)
		if !errors.As(err, new(*store.DamageError)) {
			t.Errorf("read beyond the end: %v", err)
		}
		_, err = s.Commit(t.Context(), store.Commit{Writes: []store.Write{write(small("new", ""), store.Any)}})
		if !errors.Is(err, store.ErrStopped) || !errors.As(err, new(*store.CommitError)) || !errors.As(err, new(*store.DamageError)) {
			t.Errorf("wrote to what is left: %v", err)
		}
	})
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func closeIt(t testing.TB, c io.Closer) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

func writeAt(t *testing.T, file io.WriterAt, data []byte, at int) {
	t.Helper()
	if _, err := file.WriteAt(data, int64(at)); err != nil {
		t.Fatal(err)
	}
}
