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
	// Tail is the number of lines from the end; 0 means all.
	Tail int64
	// Since omits older lines; zero omits none.
	Since time.Time
	// Timestamps prefixes each line with its time.
	Timestamps bool
	// MaxBytes bounds the bytes of the log that are read: from its end, or from Since on if there
	// is no Tail; 0 means all.
	MaxBytes int
}

// Read returns the selected lines of the log in dir, oldest first, both streams in the order of
// writing. A missing log is empty.
func Read(dir *os.Root, query Query) ([]byte, error) {
	if !query.Since.IsZero() && query.Tail == 0 {
		records, err := query.readSince(dir)
		return query.format(records), err
	}
	var parts [][]byte // the newest first
	size := 0
	for i := 0; i <= maxNumber && (query.MaxBytes <= 0 || size < query.MaxBytes); i++ {
		file := current
		if i > 0 {
			file = fileName(i)
		}
		part, err := dir.ReadFile(file)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("log: %w", err)
		}
		parts, size = append(parts, part), size+len(part)
	}
	slices.Reverse(parts)
	return query.format(query.lastBytes(slices.Concat(parts...))), nil
}

// lastBytes returns the last MaxBytes of records, without a partial record.
func (q Query) lastBytes(records []byte) []byte {
	if q.MaxBytes <= 0 || len(records) <= q.MaxBytes {
		return records
	}
	_, records, _ = bytes.Cut(records[len(records)-q.MaxBytes-1:], []byte("\n"))
	return records
}

// maxNumber is the highest number that a log file can have.
const maxNumber = 99

// record is one parsed record of a log.
type line struct {
	stamp, text []byte
	at          time.Time
	whole       bool
}

func (q Query) format(records []byte) []byte {
	var chosen []line
	for record := range bytes.Lines(records) {
		parsed, ok := parseRecord(record)
		if !ok {
			continue // cut off by a full disk
		}
		if parsed.at.Before(q.Since) {
			continue
		}
		chosen = append(chosen, parsed)
	}
	if q.Tail > 0 {
		chosen = chosen[tailStart(chosen, q.Tail):]
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

// tailStart returns the index of the first of the last n complete lines.
func tailStart(lines []line, n int64) int {
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

// parseRecord parses a record. A record without a valid time is rejected, because a follower would
// get it again and again.
func parseRecord(record []byte) (line, bool) {
	record, ended := bytes.CutSuffix(record, []byte("\n"))
	stamp, rest, ok1 := bytes.Cut(record, []byte(" "))
	_, rest, ok2 := bytes.Cut(rest, []byte(" "))
	tag, text, ok3 := bytes.Cut(rest, []byte(" "))
	at, err := time.Parse(time.RFC3339Nano, string(stamp))
	return line{stamp: stamp, text: text, at: at, whole: string(tag) == "F"}, ended && ok1 && ok2 && ok3 && err == nil
}
