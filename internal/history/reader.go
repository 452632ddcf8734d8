package history

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Log is the merged history of several processes. Events are ordered by the monotonic clock at
// their end, and within one process by sequence.
type Log struct {
	Events []Event
	// Torn counts lines that a crash cut short.
	Torn int
	// Gaps are missing events, found by the sequence numbers.
	Gaps []Gap
}

// Gap is a range of missing events, From and To included. A gap that begins with 1 is normal after
// rotation.
type Gap struct {
	Process  string
	Boot     string
	From, To uint64
}

// String describes the gap for people.
func (g Gap) String() string {
	return fmt.Sprintf("%s (boot %s) has no events %d to %d", g.Process, g.Boot, g.From, g.To)
}

// Read reads all histories in a directory. A missing directory has none.
func Read(dir string) (Log, error) {
	return (&Reader{Dir: dir}).Next()
}

// Merge orders events, removes duplicates and finds gaps.
func Merge(events []Event, torn int) Log {
	slices.SortStableFunc(events, compareEvents)
	events = slices.CompactFunc(events, func(a, b Event) bool {
		return a.Sequence == b.Sequence && a.Process == b.Process && a.Boot == b.Boot
	})
	return Log{Events: events, Torn: torn, Gaps: findGaps(events)}
}

func compareEvents(a, b Event) int {
	if a.Process == b.Process && a.Boot == b.Boot {
		return cmp.Compare(a.Sequence, b.Sequence)
	}
	return cmp.Or(cmp.Compare(a.Ended, b.Ended), cmp.Compare(a.Process, b.Process), cmp.Compare(a.Boot, b.Boot), cmp.Compare(a.Sequence, b.Sequence))
}

func findGaps(events []Event) []Gap {
	type incarnation struct{ process, boot string }
	last := map[incarnation]uint64{}
	var found []Gap
	for _, e := range events {
		source := incarnation{e.Process, string(e.Boot)}
		if before := last[source]; e.Sequence > before+1 {
			found = append(found, Gap{Process: source.process, Boot: source.boot, From: before + 1, To: e.Sequence - 1})
		}
		last[source] = max(last[source], e.Sequence)
	}
	return found
}

// Reader reads a directory of histories incrementally. It is not safe for concurrent use.
type Reader struct {
	Dir string

	// offsets is how far each file has been read, by the file's first line. No two files share a
	// first line, and a renamed file keeps its own.
	offsets map[string]int64
}

// Next returns what was written since the last call; the first call returns everything. A line that
// is still being written is left for the next call.
func (r *Reader) Next() (Log, error) {
	entries, err := os.ReadDir(r.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return Log{}, nil
	}
	if err != nil {
		return Log{}, fmt.Errorf("history: %w", err)
	}
	if r.offsets == nil {
		r.offsets = map[string]int64{}
	}
	var events []Event
	torn := 0
	for _, entry := range entries {
		if !strings.Contains(entry.Name(), extension) || entry.IsDir() {
			continue
		}
		more, cut, err := r.readFile(filepath.Join(r.Dir, entry.Name()))
		if err != nil {
			return Log{}, fmt.Errorf("history: %w", err)
		}
		events, torn = append(events, more...), torn+cut
	}
	return Merge(events, torn), nil
}

// readFile reads what is new in one file.
func (r *Reader) readFile(path string) (events []Event, torn int, err error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil // the file was renamed meanwhile
	}
	if err != nil {
		return nil, 0, err
	}
	defer file.Close()
	lines := bufio.NewReader(file)
	first, err := lines.ReadString('\n')
	if err != nil {
		return nil, 0, ignoreEOF(err)
	}
	if offset := r.offsets[first]; offset > 0 {
		if _, err := file.Seek(offset, io.SeekStart); err != nil {
			return nil, 0, err
		}
		lines.Reset(file)
	} else {
		events, torn = appendLine([]byte(first), events, torn)
		r.offsets[first] = int64(len(first))
	}
	for {
		text, err := lines.ReadBytes('\n')
		if err != nil {
			return events, torn, ignoreEOF(err) // the rest of a line, if any, is for later
		}
		r.offsets[first] += int64(len(text))
		events, torn = appendLine(text, events, torn)
	}
}

// appendLine appends a line's event, or counts the line as torn.
func appendLine(text []byte, events []Event, torn int) ([]Event, int) {
	var event Event
	if err := json.Unmarshal(text, &event); err != nil {
		return events, torn + 1
	}
	return append(events, event), torn
}

// ignoreEOF is a reader's error, but for the end of the file.
func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
