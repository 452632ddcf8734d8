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

// Config says who records, and where.
type Config struct {
	// Dir is the cluster's directory of histories; it is made when missing. Without one
	// nothing is written, and Listen is told all the same.
	Dir string
	// Process is the process's name.
	Process string
	Boot    proto.Boot
	// Clock is the cluster's; the events' wall time is its.
	Clock clock.Clock
	// Size is how many bytes a file may have before the next is begun, and Files how many
	// are kept; 0 means 8 MiB and 4.
	Size  int64
	Files int
	// Gets is of how many gets one is written down, to keep room for other things; 0 and 1
	// mean every one.
	Gets uint64
	// Listen is handed every event after it has been written, in order; it must not
	// block. It may be nil.
	Listen func(Event)
	// Warn is told of the first of a row of writes that failed; nil for nobody.
	Warn func(err error)
}

// Recorder writes the events of one process. A nil Recorder records nothing, so that
// who is given one need not ask whether it is there. It is safe for concurrent use.
//
// # Blocking
//
// Recording writes to the file before it returns: some microseconds, as long as the
// kernel's buffers take it. A write that fails is counted and logged once, and the next
// that succeeds is preceded by a Lost.
type Recorder struct {
	cfg Config

	mu   sync.Mutex
	file *os.File
	size int64
	last uint64
	lost Lost
	room []byte  // for the next line
	made []Event // room for the next events
	gets atomic.Uint64
}

// Gets reports whether the get that has come is to be written down; see Config.
func (r *Recorder) Gets() bool {
	if r == nil {
		return false
	}
	return r.cfg.Gets <= 1 || r.gets.Add(1)%r.cfg.Gets == 0
}

// Moment is the machine's monotonic clock before an action.
type Moment int64

// Open begins the history of one boot of a process, behind what earlier boots have
// written. Close it when the process ends.
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
	if err := r.open(); err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	return r, nil
}

// extension ends the name of the file that is being written; older ones have a number
// behind it, the highest the oldest.
const extension = ".ndjson"

// path is the file that is being written.
func (r *Recorder) path() string { return fileOf(r.cfg.Dir, r.cfg.Process) }

// open opens the file, and ends a line that a crash has cut short.
func (r *Recorder) open() error {
	file, err := os.OpenFile(r.path(), os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
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

// Close ends the recording. Whoever still records is not told.
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

// Began is the instant before an action, for Done.
func (r *Recorder) Began() Moment {
	if r == nil {
		return 0
	}
	return Moment(clock.Monotonic())
}

// Note records what took no time. The cause may be empty.
func (r *Recorder) Note(cause string, fact Fact) {
	if r == nil {
		return
	}
	r.Done(r.Began(), cause, fact)
}

// Done records what began at the moment and is over now. The cause may be empty.
func (r *Recorder) Done(began Moment, cause string, fact Fact) {
	r.All(began, Entry{cause, fact})
}

// Entry is a fact with its cause, which may be empty.
type Entry struct {
	Cause string
	Fact  Fact
}

// All records what was done together, in order, by one write.
func (r *Recorder) All(began Moment, entries ...Entry) {
	if r == nil || len(entries) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil && r.cfg.Dir != "" {
		return
	}
	events := r.made[:0]
	ended, wall := clock.Monotonic(), r.cfg.Clock.Now()
	if r.lost.Count > 0 {
		events = append(events, r.event(ended, ended, wall))
		events[0].Fact = r.lost
	}
	for _, entry := range entries {
		event := r.event(int64(began), ended, wall)
		event.Cause, event.Fact = entry.Cause, entry.Fact
		events = append(events, event)
	}
	r.made = events
	defer clear(events)
	if err := r.write(events); err != nil {
		if r.lost.Count == 0 {
			r.cfg.Warn(fmt.Errorf("write the history: %w", err))
		}
		r.lost = Lost{Count: r.lost.Count + uint64(len(entries)), Err: err.Error()}
		return
	}
	r.lost = Lost{}
	if r.cfg.Listen != nil {
		for _, event := range events {
			r.cfg.Listen(event)
		}
	}
}

func (r *Recorder) event(began, ended int64, wall time.Time) Event {
	return Event{Process: r.cfg.Process, Boot: r.cfg.Boot, Began: began, Ended: ended, Wall: wall}
}

// write numbers events and writes them, all or none. It is called under the lock.
func (r *Recorder) write(events []Event) error {
	if r.cfg.Dir == "" {
		for i := range events {
			r.last++
			events[i].Sequence = r.last
		}
		return nil
	}
	data, number := r.room[:0], r.last
	for i := range events {
		number++
		events[i].Sequence = number
		var err error
		if data, err = events[i].append(data); err != nil {
			return err
		}
		data = append(data, '\n')
	}
	r.room = data
	if err := r.append(data); err != nil {
		return err
	}
	r.last = number
	return nil
}

// append adds lines to the file, all of them or none.
func (r *Recorder) append(data []byte) error {
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

// rotate begins a new file and lets the oldest go.
func (r *Recorder) rotate() error {
	if err := r.shift(); err != nil {
		return err
	}
	before := r.file
	if err := r.open(); err != nil {
		return err
	}
	return before.Close()
}

// shift gives every file the next older name, unless that was done and no new file could be
// opened: then none would be left after some attempts.
func (r *Recorder) shift() error {
	path := r.path()
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
