package history

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// readPages reads all of a history from a position on.
func readPages(t *testing.T, dir string, from Position, most int) ([]Event, Position) {
	t.Helper()
	var all []Event
	for range 10_000 {
		page, err := ReadPage(dir, "kubelet/n", from, most)
		if err != nil {
			t.Fatal(err)
		}
		events, torn := page.Events()
		if torn != 0 {
			t.Fatalf("%d torn lines in %q", torn, page.Lines)
		}
		all, from = append(all, events...), page.Next
		if !page.More {
			return all, from
		}
	}
	t.Fatal("the pages do not end")
	return nil, from
}

// TestPages reads the same by pages as from the directory, for all page sizes, also while files are
// rotated. It starts over if the file was deleted.
func TestPages(t *testing.T) {
	for _, most := range []int{1, 200, 1000, 1 << 20} {
		dir := t.TempDir()
		if page, err := ReadPage(dir, "kubelet/n", Position{}, most); err != nil || page.More || page.Lines != "" {
			t.Fatalf("of nothing: %+v, %v", page, err)
		}
		r := mustOpen(t, Config{Dir: dir, Process: "kubelet/n", Boot: "b", Size: 1000, Files: 3})
		other := mustOpen(t, Config{Dir: dir, Process: "kubelet/n-2"})
		var seen []Event
		var at Position
		for i := range 60 {
			r.Record("", Lease{Node: fmt.Sprint(i)})
			other.Record("", Lease{Node: "other"})
			if i%4 == 0 {
				var more []Event
				more, at = readPages(t, dir, at, most)
				seen = append(seen, more...)
			}
		}
		more, at := readPages(t, dir, at, most)
		seen = append(seen, more...)
		for i, e := range seen {
			if e.Sequence != uint64(i+1) || e.Process != "kubelet/n" {
				t.Fatalf("pages of %d: number %d is %d of %s", most, i+1, e.Sequence, e.Process)
			}
		}
		if len(seen) != 60 {
			t.Errorf("pages of %d: %d events, want 60", most, len(seen))
		}
		if again, _ := readPages(t, dir, at, most); len(again) != 0 {
			t.Errorf("pages of %d: %d events again", most, len(again))
		}
		if all, _ := readPages(t, dir, Position{File: "gone", Offset: 5}, most); len(all) == 0 || all[0].Sequence == 1 || all[len(all)-1].Sequence != 60 {
			t.Errorf("pages of %d from a file that was let go: %d events", most, len(all))
		}
	}
}

// TestPageHalfALine leaves a line that is being written for the next page.
func TestPageHalfALine(t *testing.T) {
	dir := t.TempDir()
	r := mustOpen(t, Config{Dir: dir, Process: "kubelet/n"})
	r.Record("", Lease{Node: "1"})
	file, err := os.OpenFile(filepath.Join(dir, "kubelet-n.ndjson"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	whole, err := os.ReadFile(file.Name())
	if err != nil {
		t.Fatal(err)
	}
	next := strings.Replace(string(whole), `"seq":1`, `"seq":2`, 1)
	if _, err := file.WriteString(next[:20]); err != nil {
		t.Fatal(err)
	}
	events, at := readPages(t, dir, Position{}, 1<<20)
	if _, err := file.WriteString(next[20:]); err != nil {
		t.Fatal(err)
	}
	rest, _ := readPages(t, dir, at, 1<<20)
	if len(events) != 1 || len(rest) != 1 || rest[0].Sequence != 2 {
		t.Errorf("%d events and %v, want one and the second", len(events), rest)
	}
}
