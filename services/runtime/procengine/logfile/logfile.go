// Package logfile keeps what a container writes, in the format of the Container Runtime
// Interface: a line each with its time, its stream, and whether it is whole.
//
//	2026-01-02T15:04:05.999999999Z stdout F hello
//
// A log is a directory: current.log is written, 1.log is the one before it, and so on.
// The oldest goes when there are too many, so that no program can fill the disk.
package logfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"sync"
	"time"
)

// The limits of a log, as the kubelet's containerLogMaxSize and containerLogMaxFiles.
const (
	maxSize  = 10 << 20
	maxFiles = 5
	// maxLine is how long a line may be before it is written in parts.
	maxLine = 16 << 10

	current = "current.log"
)

// Limits bound a log; zeros mean upstream's 10 MiB in 5 files.
type Limits struct {
	// Size of one file in bytes.
	Size int64
	// Files, the current one included.
	Files int
}

// Log is a log that is written. Its writers may be used concurrently.
type Log struct {
	dir    *os.Root
	limits Limits
	now    func() time.Time

	mu   sync.Mutex
	file *os.File
	size int64
	last time.Time // of the last record
}

// Open continues the log in dir, which must exist.
func Open(dir *os.Root, limits Limits, now func() time.Time) (*Log, error) {
	if limits.Size <= 0 {
		limits.Size = maxSize
	}
	if limits.Files <= 0 {
		limits.Files = maxFiles
	}
	l := &Log{dir: dir, limits: limits, now: now}
	return l, l.open()
}

func (l *Log) open() error {
	file, err := l.dir.OpenFile(current, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("log: %w", err)
	}
	info, err := file.Stat()
	if err != nil {
		return errors.Join(fmt.Errorf("log: %w", err), file.Close())
	}
	l.file, l.size = file, info.Size()
	return nil
}

// Close closes the log; its writers then fail.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file.Close()
}

// Copy writes everything that from gives as one stream, "stdout" or "stderr", until
// from ends. A disk that takes no more loses lines and does not stop the program.
func (l *Log) Copy(stream string, from io.Reader) {
	var rest []byte
	chunk := make([]byte, maxLine)
	for {
		n, err := from.Read(chunk)
		rest = append(rest, chunk[:n]...)
		rest = l.lines(stream, rest)
		if err != nil {
			break
		}
	}
	if len(rest) > 0 {
		l.write(stream, "F", rest)
	}
}

// lines writes the whole lines that text begins with, and returns what follows them.
func (l *Log) lines(stream string, text []byte) []byte {
	for {
		line, after, whole := bytes.Cut(text, []byte("\n"))
		switch {
		case whole && len(line) <= maxLine:
			l.write(stream, "F", line)
			text = after
		case len(text) > maxLine:
			l.write(stream, "P", text[:maxLine])
			text = text[maxLine:]
		default:
			return bytes.Clone(text)
		}
	}
}

func (l *Log) write(stream, tag string, line []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	record := fmt.Appendf(nil, "%s %s %s ", l.stamp().Format(time.RFC3339Nano), stream, tag)
	record = append(append(record, line...), '\n')
	if l.size > 0 && l.size+int64(len(record)) > l.limits.Size {
		l.rotate()
	}
	n, _ := l.file.Write(record) // see Copy
	l.size += int64(n)
}

// stamp is the time of a new record: later than that of the one before, whatever becomes of
// the clock, so that a reader can go on where it was.
func (l *Log) stamp() time.Time {
	now := l.now().UTC()
	if !now.After(l.last) {
		now = l.last.Add(1)
	}
	l.last = now
	return now
}

// rotate begins a new file. Where that fails the old one goes on, and no older one is lost
// by trying again.
func (l *Log) rotate() {
	for i := l.gap(); i > 0; i-- {
		from := current
		if i > 1 {
			from = name(i - 1)
		}
		if l.dir.Rename(from, name(i)) != nil {
			return
		}
	}
	if l.limits.Files == 1 {
		_ = l.dir.Remove(current) // open then continues it
	}
	old := l.file
	if l.open() == nil {
		_ = old.Close()
	} else if l.limits.Files > 1 {
		_ = l.dir.Rename(name(1), current) // it still is the one that is written
	}
}

// gap is the number up to which files have to be moved: the first that is free, because
// an earlier rotation has failed or there have been few, or that of the oldest, which goes.
func (l *Log) gap() int {
	for i := 1; i < l.limits.Files-1; i++ {
		if _, err := l.dir.Lstat(name(i)); errors.Is(err, fs.ErrNotExist) {
			return i
		}
	}
	return l.limits.Files - 1
}

func name(i int) string { return strconv.Itoa(i) + ".log" }
