package logfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"
	"time"
)

// readSince reads the records since q.Since, and perhaps a few older ones. Records are in the order
// of their times, so only the end of a long log is read.
func (q Query) readSince(dir *os.Root) ([]byte, error) {
	var files []*os.File // the newest first
	defer func() {
		for _, file := range files {
			_ = file.Close()
		}
	}()
	for i := 0; i <= maxNumber; i++ {
		file, err := openNumbered(dir, i, files)
		if err != nil {
			return nil, fmt.Errorf("log: %w", err)
		}
		if file == nil {
			continue
		}
		files = append(files, file)
		if _, at := recordAt(file, 0); !at.IsZero() && at.Before(q.Since) {
			break
		}
	}
	slices.Reverse(files)
	var records []byte
	for _, file := range files {
		room := math.MaxInt
		if q.MaxBytes > 0 {
			room = q.MaxBytes - len(records)
		}
		part, err := io.ReadAll(io.LimitReader(io.NewSectionReader(file, findSince(file, q.Since), math.MaxInt64-1), int64(room)))
		if err != nil {
			return nil, fmt.Errorf("log: %w", err)
		}
		records = append(records, part...)
	}
	return records[:bytes.LastIndexByte(records, '\n')+1], nil
}

// openNumbered opens a file of the log. It returns nil if there is none, or if a rotation has just
// given the number to a file that is open already.
func openNumbered(dir *os.Root, number int, opened []*os.File) (*os.File, error) {
	called := current
	if number > 0 {
		called = fileName(number)
	}
	file, err := dir.Open(called)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	for _, other := range opened {
		if known, err := other.Stat(); err == nil && os.SameFile(known, info) {
			return nil, file.Close()
		}
	}
	return file, nil
}

// searchGap is the distance in bytes at which the binary search stops. It exceeds the size of a
// record.
const searchGap = 4 * maxLine

// findSince returns the offset of a record such that all earlier records are older than since.
func findSince(file *os.File, since time.Time) int64 {
	info, err := file.Stat()
	if err != nil {
		return 0
	}
	low, high := int64(0), info.Size()
	for high-low > searchGap {
		middle := low + (high-low)/2
		begins, at := recordAt(file, middle)
		if at.IsZero() || begins >= high || !at.Before(since) {
			high = middle
		} else {
			low = begins
		}
	}
	return low
}

// recordAt returns the offset and the time of the first record at or after an offset; zeros if
// there is none.
func recordAt(file io.ReaderAt, offset int64) (begins int64, at time.Time) {
	begins = max(offset-1, 0)
	text := make([]byte, 2*maxLine)
	n, err := file.ReadAt(text, begins)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, time.Time{}
	}
	text = text[:n]
	if offset > 0 {
		end := bytes.IndexByte(text, '\n')
		if end < 0 {
			return 0, time.Time{}
		}
		begins, text = begins+int64(end)+1, text[end+1:]
	}
	stamp, _, _ := bytes.Cut(text, []byte(" "))
	at, err = time.Parse(time.RFC3339Nano, string(stamp))
	if err != nil {
		return 0, time.Time{}
	}
	return begins, at
}
