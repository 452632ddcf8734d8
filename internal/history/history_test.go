package history

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/proto"
)

// TestEveryFactIsReadBack writes one event of each kind, with every field set, and reads it back.
func TestEveryFactIsReadBack(t *testing.T) {
	dir := t.TempDir()
	r := mustOpen(t, Config{Dir: dir, Process: "kubelet/node-1", Boot: "b1"})
	var want []Fact
	for name, read := range decoders() {
		fact, err := read([]byte("{}"))
		if err != nil {
			t.Fatal(err)
		}
		if fact.Name() != name {
			t.Errorf("%s is decoded as %s", name, fact.Name())
		}
		full := reflect.New(reflect.TypeOf(fact)).Elem()
		fill(full)
		filled, ok := reflect.TypeAssert[Fact](full)
		if !ok {
			t.Fatalf("%v is no Fact", full.Type())
		}
		want = append(want, filled)
		r.Record("op", filled)
	}
	log := mustRead(t, dir)
	var got []Fact
	for _, e := range log.Events {
		got = append(got, e.Fact)
		if e.Process != "kubelet/node-1" || e.Boot != "b1" || e.Cause != "op" || e.Began > e.Ended || e.Wall.IsZero() {
			t.Errorf("event %+v", e)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" || len(log.Gaps) != 0 || log.Torn != 0 {
		t.Errorf("gaps %v, torn %d, facts (-want +got)\n%s", log.Gaps, log.Torn, diff)
	}
}

// fill sets every field of a fact to a non-zero value.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)))
			return
		}
		for _, field := range v.Fields() {
			fill(field)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[json.RawMessage]() {
			v.SetBytes([]byte(`{"a":1}`))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0))
		fill(v.Index(1))
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{"a": "b"}))
	case reflect.String:
		v.SetString("text")
	case reflect.Bool:
		v.SetBool(true)
	default:
		if v.CanUint() {
			v.SetUint(7)
		} else {
			v.SetInt(7)
		}
	}
}

// TestNoRecorder calls all methods of a nil recorder.
func TestNoRecorder(*testing.T) {
	var r *Recorder
	r.RecordSince(r.Now(), "", Ready{})
	r.Record("", Ready{})
	r.Close()
}

// TestOneOrder merges two processes by the machine's clock, and keeps each process's own order.
func TestOneOrder(t *testing.T) {
	dir := t.TempDir()
	a, b := mustOpen(t, Config{Dir: dir, Process: "a"}), mustOpen(t, Config{Dir: dir, Process: "b"})
	for i := range 50 {
		began := a.Now()
		b.Record("", Lease{Node: "during"})
		a.RecordSince(began, "", Lease{Node: "around"})
		if i%10 == 0 {
			b.Record("", Lease{Node: "after"})
		}
	}
	log := mustRead(t, dir)
	last := int64(0)
	for _, e := range log.Events {
		if e.Ended < last {
			t.Fatalf("%v stands behind what ended later", e)
		}
		last = e.Ended
	}
	if len(log.Events) != 105 || len(log.Gaps) != 0 {
		t.Errorf("%d events, gaps %v; want 105 without gaps", len(log.Events), log.Gaps)
	}
}

// TestCutShort cuts the last line: the next boot begins a new line, and the reader counts the torn
// one.
func TestCutShort(t *testing.T) {
	dir := t.TempDir()
	r := mustOpen(t, Config{Dir: dir, Process: "runtime/n", Boot: "1"})
	r.Record("", Lease{Node: "whole"})
	r.Record("", Lease{Node: "cut"})
	path := filepath.Join(dir, "runtime-n.ndjson")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data[:len(data)-9], 0o600); err != nil {
		t.Fatal(err)
	}
	if log := mustRead(t, dir); len(log.Events) != 1 || log.Torn != 0 {
		t.Errorf("while it may still be written: %d events, %d torn; want 1 and 0", len(log.Events), log.Torn)
	}
	second := mustOpen(t, Config{Dir: dir, Process: "runtime/n", Boot: "2"})
	second.Record("", Lease{Node: "next"})
	log := mustRead(t, dir)
	if len(log.Events) != 2 || log.Torn != 1 || len(log.Gaps) != 0 {
		t.Errorf("%d events, %d torn, gaps %v; want 2, 1 and none", len(log.Events), log.Torn, log.Gaps)
	}
}

// TestGaps names what is missing.
func TestGaps(t *testing.T) {
	dir := t.TempDir()
	r := mustOpen(t, Config{Dir: dir, Process: "p", Boot: "1"})
	for range 5 {
		r.Record("", Lease{})
	}
	path := filepath.Join(dir, "p.ndjson")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(data), "\n")
	if err := os.WriteFile(path, []byte(lines[0]+lines[3]+lines[4]), 0o600); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Gap{{Process: "p", Boot: "1", From: 2, To: 3}}, mustRead(t, dir).Gaps); diff != "" {
		t.Error(diff)
	}
}

// TestRotation keeps so many files of so many bytes, and a following reader misses nothing.
func TestRotation(t *testing.T) {
	dir := t.TempDir()
	r := mustOpen(t, Config{Dir: dir, Process: "p", Size: 1000, Files: 3})
	follow := &Reader{Dir: dir}
	seen := 0
	for i := range 100 {
		r.Record("", Lease{Node: strings.Repeat("x", 40)})
		if i%3 == 0 {
			log, err := follow.Next()
			if err != nil {
				t.Fatal(err)
			}
			seen += len(log.Events)
		}
	}
	if seen != 100 {
		t.Errorf("a reader that followed saw %d events, want 100", seen)
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 3 {
		t.Errorf("%d files, want 3", len(files))
	}
	for _, file := range files {
		if info, err := file.Info(); err != nil || info.Size() > 1000 {
			t.Errorf("%s: %v, %v; want at most 1000 bytes", file.Name(), info.Size(), err)
		}
	}
	log := mustRead(t, dir)
	if len(log.Gaps) != 1 || log.Gaps[0].From != 1 || log.Events[len(log.Events)-1].Sequence != 100 {
		t.Errorf("gaps %v; want one, at the beginning", log.Gaps)
	}
}

// TestRotationThatFails deletes no file while new files cannot be opened, and continues once they
// can.
func TestRotationThatFails(t *testing.T) {
	dir := t.TempDir()
	r := mustOpen(t, Config{Dir: dir, Process: "p", Size: 300, Files: 3})
	r.Record("", Lease{Node: strings.Repeat("x", 80)})
	r.Record("", Lease{Node: strings.Repeat("x", 80)})
	for range 5 { // each time the open behind it has failed
		if err := r.shiftFiles(); err != nil {
			t.Fatal(err)
		}
	}
	r.Record("", Lease{Node: strings.Repeat("x", 80)})
	if log := mustRead(t, dir); len(log.Events) != 3 || len(log.Gaps) != 0 {
		t.Errorf("%d events, gaps %v; want 3 and none", len(log.Events), log.Gaps)
	}
}

// TestLostEvents records events that could not be written, once writing works again.
func TestLostEvents(t *testing.T) {
	dir := t.TempDir()
	warned := 0
	r := mustOpen(t, Config{Dir: dir, Process: "p", Warn: func(error) { warned++ }})
	r.Record("", Lease{})
	whole := r.file
	r.file = readOnly(t)
	r.Record("", Lease{})
	r.Record("", Lease{})
	r.file = whole
	r.Record("", Lease{})
	log := mustRead(t, dir)
	if len(log.Events) != 3 || len(log.Gaps) != 0 || warned != 1 {
		t.Fatalf("events %v, gaps %v, warned %d; want 3, none and 1", log.Events, log.Gaps, warned)
	}
	if lost, ok := log.Events[1].Fact.(LostEvents); !ok || lost.Count != 2 || lost.Err == "" {
		t.Errorf("%+v; want 2 lost, and why", log.Events[1].Fact)
	}
}

func readOnly(t *testing.T) *os.File {
	t.Helper()
	file, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	return file
}

// TestConcurrentRecording records from many goroutines at once.
func TestConcurrentRecording(t *testing.T) {
	dir := t.TempDir()
	heard := 0
	r := mustOpen(t, Config{Dir: dir, Process: "p", OnEvent: func(Event) { heard++ }})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 100 {
				r.Record("", Lease{Node: "n"})
			}
		})
	}
	all.Wait()
	if log := mustRead(t, dir); len(log.Events) != 800 || len(log.Gaps) != 0 || log.Torn != 0 || heard != 800 {
		t.Errorf("%d events, gaps %v, torn %d, heard %d; want 800", len(log.Events), log.Gaps, log.Torn, heard)
	}
}

// TestBubble measures the time between two events by the bubble's clock.
func TestBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		r := mustOpen(t, Config{Dir: dir, Process: "p"})
		began := r.Now()
		time.Sleep(time.Hour)
		r.RecordSince(began, "", Lease{})
		e := mustRead(t, dir).Events[0]
		if took := time.Duration(e.Ended - e.Began); took != time.Hour {
			t.Errorf("an hour took %v", took)
		}
	})
}

// TestUnknown keeps events of a later release.
func TestUnknown(t *testing.T) {
	text := `{"seq":1,"proc":"p","t0":1,"t1":2,"wall":"2026-01-01T00:00:00Z","event":"x.new","fact":{"a":1}}`
	var e Event
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		t.Fatal(err)
	}
	if again, err := json.Marshal(e); err != nil || string(again) != text {
		t.Errorf("%s, %v; want %s", again, err, text)
	}
	if err := json.Unmarshal([]byte(`{"seq":1}`), &e); err == nil {
		t.Error("an event without a name was read")
	}
}

func mustOpen(t *testing.T, cfg Config) *Recorder {
	t.Helper()
	cfg.Clock = clock.Clock{}
	r, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

func mustRead(t *testing.T, dir string) Log {
	t.Helper()
	log, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	return log
}

func BenchmarkRecord(b *testing.B) {
	r, err := Open(Config{Dir: b.TempDir(), Process: "p", Boot: "0123456789abcdef-01234567"})
	if err != nil {
		b.Fatal(err)
	}
	fact := Signal{ContainerRef{"default/web-0", "0123456789abcdef0123456789abcdef0123", "0123456789abcdef", "web"}, "SIGTERM"}
	for b.Loop() {
		r.Record("", fact)
	}
	r.Close()
}

// TestWrite writes a log and reads it back. It refuses a directory with histories.
func TestWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "history")
	event := func(process, boot string, sequence uint64, ended int64) Event {
		return Event{
			Sequence: sequence, Process: process, Boot: proto.Boot(boot), Began: ended - 1, Ended: ended, Wall: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC),
			Cause: "op \"1\"", Fact: LostEvents{Count: sequence, Err: "disk full"},
		}
	}
	want := Log{Events: []Event{
		event("kubelet/node-1", "a", 1, 10), event("apiserver", "b", 1, 11), event("kubelet/node-1", "a", 2, 12), event("kubelet/node-1", "d", 1, 13),
		event("runtime/node-1", "c", 1, 14),
	}}
	if err := want.Write(dir); err != nil {
		t.Fatal(err)
	}
	other := Log{Events: []Event{event("gateway", "e", 1, 15)}}
	if err := other.Write(dir); !errors.Is(err, ErrDirNotEmpty) {
		t.Errorf("another life in the same directory: %v, want %v", err, ErrDirNotEmpty)
	}
	if diff := cmp.Diff(want, mustRead(t, dir)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if err := other.Write(filepath.Join(dir, "apiserver.ndjson")); err == nil {
		t.Error("a file was taken for a directory")
	}
}
