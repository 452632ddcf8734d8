package history

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Page is a part of one process's history, for readers without access to the files.
type Page struct {
	// Lines are whole lines of the history files, in order.
	Lines string `json:"lines,omitempty"`
	// Next is where the next page begins. More is set if there is a next page already.
	Next Position `json:"next"`
	More bool     `json:"more,omitempty"`
	// At is the cluster time at which the page was read.
	At time.Time `json:"at"`
}

// Position is how far a process's history has been read. The zero Position is the beginning.
type Position struct {
	// File identifies a file by the [Digest] of its first line, which stays the same when the file
	// is renamed.
	File string `json:"file,omitempty"`
	// Offset is in bytes.
	Offset int64 `json:"offset,omitempty"`
}

// Exists reports whether dir holds a history of the process.
func Exists(dir, process string) bool {
	_, err := os.Stat(filePath(dir, process))
	return err == nil
}

// filePath returns the path of a process's history file. A slash in the process name becomes a
// dash.
func filePath(dir, process string) string {
	return filepath.Join(dir, strings.ReplaceAll(process, "/", "-")+extension)
}

// ReadPage reads what a process has written from a position on: at most most bytes of one file, but
// always a whole line. If the position's file was deleted, ReadPage begins at the oldest file. A
// line that is still being written is left for the next page.
func ReadPage(dir, process string, from Position, most int) (Page, error) {
	files, err := openFiles(filePath(dir, process))
	defer func() {
		for _, f := range files {
			_ = f.Close() // it was only read
		}
	}()
	if err != nil {
		return Page{}, err
	}
	for i, f := range files {
		if f.first != from.File && from.File != "" && i < len(files)-1 {
			continue
		}
		if f.first != from.File {
			f, from = files[0], Position{File: files[0].first}
			i = 0
		}
		return f.readPage(from, most, files[i+1:])
	}
	return Page{Next: from}, nil
}

// historyFile is an open history file with the digest of its first line.
type historyFile struct {
	*os.File

	first string
}

// openFiles opens those files of a process that hold a whole line, the oldest first.
func openFiles(path string) (files []historyFile, err error) {
	for n := 0; ; n++ {
		name := path
		if n > 0 {
			name += "." + strconv.Itoa(n)
		}
		file, err := os.Open(name)
		if errors.Is(err, fs.ErrNotExist) && n > 0 {
			return files, nil
		}
		if errors.Is(err, fs.ErrNotExist) {
			continue // nothing was written yet, or the file was renamed meanwhile
		}
		if err != nil {
			return files, err
		}
		first, err := bufio.NewReader(file).ReadString('\n')
		if err != nil {
			_ = file.Close()
			if errors.Is(err, io.EOF) {
				continue
			}
			return files, err
		}
		files = append([]historyFile{{file, Digest([]byte(first))}}, files...)
	}
}

// readPage reads whole lines of a file. The files in newer follow it.
func (f historyFile) readPage(from Position, most int, newer []historyFile) (Page, error) {
	info, err := f.Stat()
	if err != nil {
		return Page{}, err
	}
	left := info.Size() - from.Offset
	text := make([]byte, max(min(left, int64(most)), 0))
	n, err := f.ReadAt(text, from.Offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return Page{}, err
	}
	text = text[:n]
	whole := bytes.LastIndexByte(text, '\n') + 1
	if whole == 0 && int64(n) < left { // one line is longer than a page
		line, err := bufio.NewReader(io.NewSectionReader(f, from.Offset, left)).ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return Page{}, err
		}
		text, whole = line, bytes.LastIndexByte(line, '\n')+1
	}
	page := Page{Lines: string(text[:whole]), Next: Position{File: f.first, Offset: from.Offset + int64(whole)}}
	page.More = whole > 0 && page.Next.Offset < info.Size()
	if !page.More && len(newer) > 0 { // the writer has moved on to a newer file for good
		page.Next, page.More = Position{File: newer[0].first}, true
	}
	return page, nil
}

// Events decodes the events of the page and counts its torn lines.
func (p Page) Events() (events []Event, torn int) {
	for line := range strings.Lines(p.Lines) {
		events, torn = appendLine([]byte(line), events, torn)
	}
	return events, torn
}
