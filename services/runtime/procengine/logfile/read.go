package logfile

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"
)

// Query selects lines of a log.
type Query struct {
	// Tail is how many lines from the end; 0 means all.
	Tail int64
	// Since leaves out what is older; zero means nothing is.
	Since time.Time
	// Timestamps puts each line's time in front of it.
	Timestamps bool
	// Most is how many bytes of the log are looked at, from its end, or from Since on when
	// there is no Tail; 0 means all.
	Most int
}

// Read is the log in dir, oldest line first, both streams in the order in which they
// were written. A log that nothing was written to is empty.
func Read(dir *os.Root, query Query) ([]byte, error) {
	if !query.Since.IsZero() && query.Tail == 0 {
		records, err := query.since(dir)
		return query.apply(records), err
	}
	var parts [][]byte // the newest first
	size := 0
	for i := 0; i <= maxRead && (query.Most <= 0 || size < query.Most); i++ {
		file := current
		if i > 0 {
			file = name(i)
		}
		part, err := dir.ReadFile(file)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("log: %w", err)
		}
		parts, size = append(parts, part), size+len(part)
	}
	slices.Reverse(parts)
	return query.apply(query.last(slices.Concat(parts...))), nil
}

// last is the end of records that may be looked at, in whole ones.
func (q Query) last(records []byte) []byte {
	if q.Most <= 0 || len(records) <= q.Most {
		return records
	}
	_, records, _ = bytes.Cut(records[len(records)-q.Most-1:], []byte("\n"))
	return records
}

// maxRead is the number of the oldest file that can be there.
const maxRead = 99

// line is one record of a log, taken apart.
type line struct {
	stamp, text []byte
	at          time.Time
	whole       bool
}

func (q Query) apply(records []byte) []byte {
	var chosen []line
	for record := range bytes.Lines(records) {
		parsed, ok := parse(record)
		if !ok {
			continue // cut off by a full disk
		}
		if parsed.at.Before(q.Since) {
			continue
		}
		chosen = append(chosen, parsed)
	}
	if q.Tail > 0 {
		chosen = chosen[fromEnd(chosen, q.Tail):]
	}
	var text bytes.Buffer
	begins := true
	for _, l := range chosen {
		if begins && q.Timestamps {
			text.Write(l.stamp)
			text.WriteByte(' ')
		}
		text.Write(l.text)
		if l.whole {
			text.WriteByte('\n')
		}
		begins = l.whole
	}
	return text.Bytes()
}

// fromEnd is the index at which the last n whole lines begin.
func fromEnd(lines []line, n int64) int {
	for i, l := range slices.Backward(lines) {
		if l.whole {
			if n == 0 {
				return i + 1
			}
			n--
		}
	}
	return 0
}

// parse takes a record apart. One without a time is none: who follows a log would be given
// it again and again.
func parse(record []byte) (line, bool) {
	record, ended := bytes.CutSuffix(record, []byte("\n"))
	stamp, rest, ok1 := bytes.Cut(record, []byte(" "))
	_, rest, ok2 := bytes.Cut(rest, []byte(" "))
	tag, text, ok3 := bytes.Cut(rest, []byte(" "))
	at, err := time.Parse(time.RFC3339Nano, string(stamp))
	return line{stamp: stamp, text: text, at: at, whole: string(tag) == "F"}, ended && ok1 && ok2 && ok3 && err == nil
}
