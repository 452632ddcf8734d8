package history

import (
	"bufio"
	"errors"
	"fmt"
	"os"
)

// Write writes a log as its processes themselves would have: into a directory, which is
// made when missing, with a file for each that [Read] reads. What the files had is gone.
func (l Log) Write(dir string) (err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("history: %w", err)
	}
	files := map[string]*bufio.Writer{}
	for _, e := range l.Events {
		into := files[e.Process]
		if into == nil {
			file, err := os.OpenFile(fileOf(dir, e.Process), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
			if err != nil {
				return fmt.Errorf("history: %w", err)
			}
			defer func() { err = errors.Join(err, file.Close()) }()
			into = bufio.NewWriter(file)
			files[e.Process] = into
		}
		line, err := e.append(into.AvailableBuffer())
		if err != nil {
			return fmt.Errorf("history: %s %d of %s: %w", e.Fact.Name(), e.Sequence, e.Process, err)
		}
		_, _ = into.Write(append(line, '\n')) // the end tells
	}
	for process, into := range files { // each is on its own
		if flushed := into.Flush(); flushed != nil {
			err = errors.Join(err, fmt.Errorf("history: what %s has written: %w", process, flushed))
		}
	}
	return err
}
