// Package logfile stores a container's output in the log format of the Container Runtime Interface:
// each line has its time, its stream, and whether it is complete.
//
//	2026-01-02T15:04:05.999999999Z stdout F hello
//
// A log is a directory: current.log is being written, 1.log is the one before it, and so on. The
// oldest file is deleted if there are too many, so that no program can fill the disk.
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

// The limits of a log, like the kubelet's containerLogMaxSize and containerLogMaxFiles.
const (
	maxSize  = 10 << 20
	maxFiles = 5
	// maxLine is the length at which a line is split into parts.
	maxLine = 16 << 10

	current = "current.log"
)

// Limits bound a log; zeros mean upstream's 10 MiB in 5 files.
type Limits struct {
	// Size of one file in bytes.
	Size int64
	// Files, including the current one.
	Files int
}

// Log is a log open for writing. Its methods are safe for concurrent use.
type Log struct {
	dir    *os.Root
	limits Limits
	now    func() time.Time

	mu   sync.Mutex
	file *os.File
	size int64
	last time.Time // time of the last record
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
	return l, l.openCurrent()
}

func (l *Log) openCurrent() error {
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

// Close closes the log; later writes fail.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file.Close()
}

// Copy writes the stream "stdout" or "stderr" from its reader until end of file. If the disk is
// full, lines are lost and the program continues.
func (l *Log) Copy(stream string, from io.Reader) {
	var rest []byte
	chunk := make([]byte, maxLine)
	for {
		n, err := from.Read(chunk)
		rest = append(rest, chunk[:n]...)
		rest = l.writeLines(stream, rest)
		if err != nil {
			break
		}
	}
	if len(rest) > 0 {
		l.writeRecord(stream, "F", rest)
	}
}

// writeLines writes the complete lines at the beginning of text, and returns the rest.
func (l *Log) writeLines(stream string, text []byte) []byte {
	for {
		line, after, whole := bytes.Cut(text, []byte("\n"))
		switch {
		case whole && len(line) <= maxLine:
			l.writeRecord(stream, "F", line)
			text = after
		case len(text) > maxLine:
			l.writeRecord(stream, "P", text[:maxLine])
			text = text[maxLine:]
		default:
			return bytes.Clone(text)
		}
	}
}

func (l *Log) writeRecord(stream, tag string, line []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	record := fmt.Appendf(nil, "%s %s %s ", l.nextTime().Format(time.RFC3339Nano), stream, tag)
	record = append(append(record, line...), '\n')
	if l.size > 0 && l.size+int64(len(record)) > l.limits.Size {
		l.rotate()
	}
	n, _ := l.file.Write(record) // see Copy
	l.size += int64(n)
}

// nextTime returns the time of a new record. It is later than the previous record's even if the
// clock is set back, so that a reader can continue after a given time.
func (l *Log) nextTime() time.Time {
	now := l.now().UTC()
	if !now.After(l.last) {
		now = l.last.Add(1)
	}
	l.last = now
	return now
}

// rotate starts a new file. If that fails, the old file continues, and retrying loses no older
// file.
func (l *Log) rotate() {
	for i := l.rotateTo(); i > 0; i-- {
		from := current
		if i > 1 {
			from = fileName(i - 1)
		}
		if l.dir.Rename(from, fileName(i)) != nil {
			return
		}
	}
	if l.limits.Files == 1 {
		_ = l.dir.Remove(current) // openCurrent then creates it again
	}
	old := l.file
	if l.openCurrent() == nil {
		_ = old.Close()
	} else if l.limits.Files > 1 {
		_ = l.dir.Rename(fileName(1), current) // the old file is still in use
	}
}

// rotateTo returns the highest number of the renames: the first free number, which an earlier
// failed rotation or a short log leaves, or the number of the oldest file, which is overwritten.
func (l *Log) rotateTo() int {
	for i := 1; i < l.limits.Files-1; i++ {
		if _, err := l.dir.Lstat(fileName(i)); errors.Is(err, fs.ErrNotExist) {
			return i
		}
	}
	return l.limits.Files - 1
}

func fileName(i int) string { return strconv.Itoa(i) + ".log" }
