package history

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/proto"
)

// Config configures a Recorder.
type Config struct {
	// Dir is the cluster's history directory; created if missing. If Dir is empty, nothing is
	// written, and OnEvent is still called.
	Dir string
	// Process is the process's name.
	Process string
	Boot    proto.Boot
	// Clock is the cluster's clock, for the events' wall time.
	Clock clock.Clock
	// Size is the maximum size of a file in bytes; Files is how many files are kept. 0 means 8 MiB
	// and 4 files.
	Size  int64
	Files int
	// GetSampling records one in so many gets, to save space. 0 and 1 record every get.
	GetSampling uint64
	// OnEvent is called with every event after it was written, in order. It must not block. It may
	// be nil.
	OnEvent func(Event)
	// Warn is called for the first of consecutive failed writes. It may be nil.
	Warn func(err error)
}

// Recorder writes the events of one process. A nil Recorder records nothing, so that callers need
// no nil check. It is safe for concurrent use.
//
// # Blocking
//
// Recording writes to the file before it returns: some microseconds, as long as the kernel's
// buffers have room. A failed write is counted and logged once. The next successful write is
// preceded by a LostEvents.
type Recorder struct {
	cfg Config

	mu       sync.Mutex
	file     *os.File
	size     int64
	last     uint64
	lost     LostEvents
	lineBuf  []byte  // reused for lines
	eventBuf []Event // reused for events
	gets     atomic.Uint64
}

// SampleGet reports whether the current get is to be recorded; see Config.GetSampling.
func (r *Recorder) SampleGet() bool {
	if r == nil {
		return false
	}
	return r.cfg.GetSampling <= 1 || r.gets.Add(1)%r.cfg.GetSampling == 0
}

// MonoTime is a reading of the machine's monotonic clock.
type MonoTime int64

// Open begins the history of one boot of a process, after what earlier boots have written. Close it
// when the process ends.
func Open(cfg Config) (*Recorder, error) {
	if cfg.Size <= 0 {
		cfg.Size = 8 << 20
	}
	if cfg.Files <= 0 {
		cfg.Files = 4
	}
	if cfg.Warn == nil {
		cfg.Warn = func(error) {}
	}
	r := &Recorder{cfg: cfg}
	if cfg.Dir == "" {
		return r, nil
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	if err := r.openFile(); err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	return r, nil
}

// extension is the suffix of the current file. Older files have a number behind it; the highest is
// the oldest.
const extension = ".ndjson"

// currentFile returns the path of the file being written.
func (r *Recorder) currentFile() string { return filePath(r.cfg.Dir, r.cfg.Process) }

// openFile opens the current file and terminates a line that a crash cut short.
func (r *Recorder) openFile() error {
	file, err := os.OpenFile(r.currentFile(), os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	size, err := file.Seek(0, io.SeekEnd)
	if err == nil && size > 0 {
		last := make([]byte, 1)
		if _, err = file.ReadAt(last, size-1); err == nil && last[0] != '\n' {
			_, err = file.WriteString("\n")
		}
	}
	if err != nil {
		_ = file.Close()
		return err
	}
	r.file, r.size = file, size
	return nil
}

// Close ends the recording. Later calls record nothing.
func (r *Recorder) Close() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file != nil {
		_ = r.file.Close() // every line has been written
		r.file = nil
	}
}

// Now returns the monotonic time, to pass to RecordSince after an action.
func (r *Recorder) Now() MonoTime {
	if r == nil {
		return 0
	}
	return MonoTime(clock.Monotonic())
}

// Record records an instantaneous fact. The cause may be empty.
func (r *Recorder) Record(cause string, fact Fact) {
	if r == nil {
		return
	}
	r.RecordSince(r.Now(), cause, fact)
}

// RecordSince records a fact that began at start and ends now. The cause may be empty.
func (r *Recorder) RecordSince(began MonoTime, cause string, fact Fact) {
	r.RecordAll(began, Entry{cause, fact})
}

// Entry is a fact with its cause, which may be empty.
type Entry struct {
	Cause string
	Fact  Fact
}

// RecordAll records facts of one action, in order, with one write.
func (r *Recorder) RecordAll(began MonoTime, entries ...Entry) {
	if r == nil || len(entries) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil && r.cfg.Dir != "" {
		return
	}
	events := r.eventBuf[:0]
	ended, wall := clock.Monotonic(), r.cfg.Clock.Now()
	if r.lost.Count > 0 {
		events = append(events, r.newEvent(ended, ended, wall))
		events[0].Fact = r.lost
	}
	for _, entry := range entries {
		event := r.newEvent(int64(began), ended, wall)
		event.Cause, event.Fact = entry.Cause, entry.Fact
		events = append(events, event)
	}
	r.eventBuf = events
	defer clear(events)
	if err := r.writeEvents(events); err != nil {
		if r.lost.Count == 0 {
			r.cfg.Warn(fmt.Errorf("write the history: %w", err))
		}
		r.lost = LostEvents{Count: r.lost.Count + uint64(len(entries)), Err: err.Error()}
		return
	}
	r.lost = LostEvents{}
	if r.cfg.OnEvent != nil {
		for _, event := range events {
			r.cfg.OnEvent(event)
		}
	}
}

func (r *Recorder) newEvent(began, ended int64, wall time.Time) Event {
	return Event{Process: r.cfg.Process, Boot: r.cfg.Boot, Began: began, Ended: ended, Wall: wall}
}

// writeEvents numbers and writes events, all or none. Callers hold the lock.
func (r *Recorder) writeEvents(events []Event) error {
	if r.cfg.Dir == "" {
		for i := range events {
			r.last++
			events[i].Sequence = r.last
		}
		return nil
	}
	data, number := r.lineBuf[:0], r.last
	for i := range events {
		number++
		events[i].Sequence = number
		var err error
		if data, err = events[i].appendJSON(data); err != nil {
			return err
		}
		data = append(data, '\n')
	}
	r.lineBuf = data
	if err := r.appendLines(data); err != nil {
		return err
	}
	r.last = number
	return nil
}

// appendLines appends lines to the file, all or none.
func (r *Recorder) appendLines(data []byte) error {
	if r.size > 0 && r.size+int64(len(data)) > r.cfg.Size {
		if err := r.rotate(); err != nil {
			return err
		}
	}
	n, err := r.file.Write(data)
	if err != nil {
		if n > 0 {
			err = fmt.Errorf("%w; %w", err, r.file.Truncate(r.size))
		}
		return err
	}
	r.size += int64(n)
	return nil
}

// rotate begins a new file and deletes the oldest.
func (r *Recorder) rotate() error {
	if err := r.shiftFiles(); err != nil {
		return err
	}
	before := r.file
	if err := r.openFile(); err != nil {
		return err
	}
	return before.Close()
}

// shiftFiles renames every file to the next older name. It does nothing if an earlier rotation
// renamed the files but could not open a new one; otherwise repeated attempts would delete them
// all.
func (r *Recorder) shiftFiles() error {
	path := r.currentFile()
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for n := r.cfg.Files - 1; n > 0; n-- {
		older, newer := path+"."+strconv.Itoa(n), path
		if n > 1 {
			newer += "." + strconv.Itoa(n-1)
		}
		if err := os.Rename(newer, older); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if r.cfg.Files == 1 {
		return os.Remove(path)
	}
	return nil
}
