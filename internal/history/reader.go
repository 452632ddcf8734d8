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

// Log is what several processes have written, in one order: that of the monotonic clock
// at which things ended, and of one process its own.
type Log struct {
	Events []Event
	// Torn counts lines that a crash has cut short.
	Torn int
	// Gaps are events that are missing although their process has counted them.
	Gaps []Gap
}

// Gap is a run of events that are missing: From to To, both missing. One that begins
// with 1 is usual where old files have been let go.
type Gap struct {
	Process  string
	Boot     string
	From, To uint64
}

// String says what is missing.
func (g Gap) String() string {
	return fmt.Sprintf("%s (boot %s) has no events %d to %d", g.Process, g.Boot, g.From, g.To)
}

// Read reads all histories in a directory. One that does not exist has none.
func Read(dir string) (Log, error) {
	return (&Reader{Dir: dir}).Next()
}

// Merge puts events in one order and finds what is missing. Events that are there twice
// are left in once.
func Merge(events []Event, torn int) Log {
	slices.SortStableFunc(events, inOrder)
	events = slices.CompactFunc(events, func(a, b Event) bool {
		return a.Sequence == b.Sequence && a.Process == b.Process && a.Boot == b.Boot
	})
	return Log{Events: events, Torn: torn, Gaps: gaps(events)}
}

func inOrder(a, b Event) int {
	if a.Process == b.Process && a.Boot == b.Boot {
		return cmp.Compare(a.Sequence, b.Sequence)
	}
	return cmp.Or(cmp.Compare(a.Ended, b.Ended), cmp.Compare(a.Process, b.Process), cmp.Compare(a.Boot, b.Boot), cmp.Compare(a.Sequence, b.Sequence))
}

func gaps(events []Event) []Gap {
	type incarnation struct{ process, boot string }
	last := map[incarnation]uint64{}
	var found []Gap
	for _, e := range events {
		who := incarnation{e.Process, string(e.Boot)}
		if before := last[who]; e.Sequence > before+1 {
			found = append(found, Gap{Process: who.process, Boot: who.boot, From: before + 1, To: e.Sequence - 1})
		}
		last[who] = max(last[who], e.Sequence)
	}
	return found
}

// Reader reads a directory of histories again and again, and returns what is new each
// time. It is not safe for concurrent use.
type Reader struct {
	Dir string

	// read is how far each file has been read, by its first line: no two have the same,
	// and a file keeps it when it is given another name.
	read map[string]int64
}

// Next is what has been written since the last call, or all of it. A line that is still
// being written is left for the next call.
func (r *Reader) Next() (Log, error) {
	entries, err := os.ReadDir(r.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return Log{}, nil
	}
	if err != nil {
		return Log{}, fmt.Errorf("history: %w", err)
	}
	if r.read == nil {
		r.read = map[string]int64{}
	}
	var events []Event
	torn := 0
	for _, entry := range entries {
		if !strings.Contains(entry.Name(), extension) || entry.IsDir() {
			continue
		}
		more, cut, err := r.file(filepath.Join(r.Dir, entry.Name()))
		if err != nil {
			return Log{}, fmt.Errorf("history: %w", err)
		}
		events, torn = append(events, more...), torn+cut
	}
	return Merge(events, torn), nil
}

// file reads what is new in one file.
func (r *Reader) file(path string) (events []Event, torn int, err error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil // it was given another name meanwhile
	}
	if err != nil {
		return nil, 0, err
	}
	defer file.Close()
	lines := bufio.NewReader(file)
	first, err := lines.ReadString('\n')
	if err != nil {
		return nil, 0, ended(err)
	}
	if offset := r.read[first]; offset > 0 {
		if _, err := file.Seek(offset, io.SeekStart); err != nil {
			return nil, 0, err
		}
		lines.Reset(file)
	} else {
		events, torn = take([]byte(first), events, torn)
		r.read[first] = int64(len(first))
	}
	for {
		text, err := lines.ReadBytes('\n')
		if err != nil {
			return events, torn, ended(err) // the rest of a line, if any, is for later
		}
		r.read[first] += int64(len(text))
		events, torn = take(text, events, torn)
	}
}

// take adds a line's event, or counts it among those that are torn.
func take(text []byte, events []Event, torn int) ([]Event, int) {
	var event Event
	if err := json.Unmarshal(text, &event); err != nil {
		return events, torn + 1
	}
	return append(events, event), torn
}

// ended is a reader's error, but for the end of the file.
func ended(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
