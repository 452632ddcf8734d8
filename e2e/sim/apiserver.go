package sim

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/apiserver"
	"github.com/podfall/podfall/services/apiserver/store"
	"github.com/podfall/podfall/services/apiserver/webhook"
)

// Heartbeat is how often the apiserver speaks on an idle watch.
const Heartbeat = 2 * time.Second

// keptChanges is how many changes the store remembers at least: so few that who was away
// for long is told 410.
const keptChanges = 600

// Drive is the disk of a process: how long an fsync takes, and whether it fails. The world
// breaks it.
type Drive struct {
	seed uint64
	// Slow is added to each fsync, and Fails has them fail.
	Slow  time.Duration
	Fails bool
	// Compact is how much of the history the next change keeps; nil for what is usual.
	Compact *int

	syncs uint64
}

// takes is how long the next fsync takes.
func (d *Drive) takes() time.Duration {
	d.syncs++
	return 500*time.Microsecond + time.Duration(mix(d.seed, "fsync", d.syncs)%3000)*time.Microsecond + d.Slow
}

// apiserverProcess is the apiserver: the product's own, behind a simulated disk. What it
// says waits until what it has committed is on disk.
type apiserverProcess struct {
	drive *Drive
	hooks webhook.Caller
	// exit ends the process, as a failed fsync does.
	exit func()

	inline *apiserver.Inline
	out    Out
	disk   onDisk
	// waiting is what is said once the disk has what it tells of.
	waiting []saying
	names   map[string]string // of watch subjects
}

// saying is something that an apiserver says: a fact, a frame or an answer.
type saying struct {
	about string // of a frame; the cause of a fact
	fact  history.Fact
	frame Frame
	call  CallID
	parts []*proto.Response
	err   error
}

func (s *saying) say(out Out) {
	switch {
	case s.fact != nil:
		out.Note(s.about, s.fact)
	case s.frame.Frame != nil:
		out.Publish(s.frame.Subject, s.about, s.frame)
	default:
		out.Answer(s.call, Response{Parts: s.parts}, s.err)
	}
}

// onDisk is what an apiserver knows of its disk.
type onDisk struct {
	// syncing is the image that is on its way to the disk, nil for none, and covered how much
	// of what waits it lets go.
	syncing *store.Image
	covered int
	// synced is the revision on disk.
	synced int64
	log    []history.Event
	fresh  []history.Event
}

// stored is what the apiserver keeps on disk.
type stored struct {
	image *store.Image
	// log is every commit, as store.Export reads it from a file.
	log []history.Event
}

// The keys of its disk and its alarms.
const (
	diskStore = "store"
	wakeSync  = "sync"
	wakeBeat  = "beat"
)

// NewAPIServer is an incarnation of the apiserver. hooks asks admission webhooks; nil asks
// none.
func NewAPIServer(drive *Drive, hooks webhook.Caller, exit func()) Process {
	return &apiserverProcess{drive: drive, hooks: hooks, exit: exit, names: map[string]string{}}
}

// ReadsClock implements [Clocked]: deadlines and timestamps are the product's.
func (p *apiserverProcess) ReadsClock() {}

func (p *apiserverProcess) Step(now time.Time, in Input, out Out) {
	p.out = out
	if keep := p.drive.Compact; keep != nil && p.inline != nil {
		p.inline.Compact(*keep)
		p.drive.Compact = nil
	}
	switch in := in.(type) {
	case Boot:
		p.begin(now, in, out)
	case Called:
		p.called(in)
	case Alarm:
		switch in.Key {
		case wakeSync:
			p.written(now)
			return
		case wakeBeat:
			p.inline.PublishHeartbeats(unended())
			out.Wake(wakeBeat, now.Add(Heartbeat))
		}
	case Message, Answered:
	}
	p.settle(now)
}

func (p *apiserverProcess) begin(now time.Time, in Boot, out Out) {
	kept, _ := in.Disk[diskStore].(stored)
	p.disk.log, p.disk.synced = slices.Clip(kept.log), kept.image.Revision()
	compat, err := proto.CompatFor("")
	if err != nil {
		panic(fmt.Sprintf("sim: %v", err)) // the default release is always there
	}
	recorder, err := history.Open(history.Config{Process: APIServer, Boot: in.Boot, Clock: out.Clock(), OnEvent: p.hear})
	if err != nil {
		panic(fmt.Sprintf("sim: %v", err)) // it writes no file
	}
	p.inline, err = apiserver.NewInline(unended(), apiserver.InlineConfig{
		Boot: in.Boot, Compat: compat, Image: kept.image, Keep: keptChanges, Entropy: &entropy{seed: in.Seed},
		Hooks: p.hooks, Publish: p.publish, History: recorder, Clock: out.Clock(),
	})
	if err != nil {
		panic(fmt.Sprintf("sim: the apiserver does not start: %v", err))
	}
	out.Wake(wakeBeat, now.Add(Heartbeat))
}

// hear takes what the apiserver records: a request when it comes, all else once it is true.
func (p *apiserverProcess) hear(e history.Event) {
	switch fact := e.Fact.(type) {
	case history.OpCall, history.StoreOpen:
		p.out.Note(e.Cause, e.Fact)
		return
	case history.Commit:
		p.disk.fresh = append(p.disk.fresh, history.Event{Wall: e.Wall, Cause: e.Cause, Fact: e.Fact})
	case history.WatchOpen:
		p.names[fact.Watch] = fact.Resource + fact.Selector
	}
	fact := e.Fact
	switch fact.(type) {
	case history.Commit, history.Fsync: // told when it is on disk, as what began when it was decided
		fact = Lasted{fact, p.out.Clock().Steady()}
	}
	p.waiting = append(p.waiting, saying{about: e.Cause, fact: fact})
}

func (p *apiserverProcess) publish(subject string, frame *proto.Frame) error {
	p.waiting = append(p.waiting, saying{about: p.names[subject], frame: Frame{subject, frame}})
	return nil
}

func (p *apiserverProcess) called(in Called) {
	request, ok := in.Body.(Request)
	if !ok {
		p.waiting = append(p.waiting, saying{call: in.Call, err: fmt.Errorf("%w: %T", errStrange, in.Body)})
		return
	}
	parts, err := p.inline.Call(unended(), request.Subject, request.Envelope)
	p.waiting = append(p.waiting, saying{call: in.Call, parts: parts, err: err})
	p.inline.PublishPending(unended())
}

// unended is the context of what only the world ends.
func unended() context.Context {
	return context.Background() //nolint:forbidigo // a simulated process has no caller
}

var errStrange = errors.New("not a request")

// settle says what is on disk already, and has the rest be written.
func (p *apiserverProcess) settle(now time.Time) {
	revision := p.inline.Revision()
	if p.disk.syncing == nil && revision == max(p.disk.synced, 1) {
		p.say(len(p.waiting))
	}
	if p.disk.syncing == nil && revision > p.disk.synced && len(p.disk.fresh) > 0 {
		p.disk.log = append(p.disk.log, p.disk.fresh...)
		p.disk.syncing, p.disk.covered, p.disk.fresh = p.inline.Image(), len(p.waiting), nil
		p.out.Wake(wakeSync, now.Add(p.drive.takes()))
	}
}

func (p *apiserverProcess) say(n int) {
	for i := range p.waiting[:n] {
		p.waiting[i].say(p.out)
	}
	p.waiting = slices.Delete(p.waiting, 0, n)
}

// written is the end of an fsync.
func (p *apiserverProcess) written(now time.Time) {
	image := p.disk.syncing
	p.disk.syncing = nil
	if p.drive.Fails {
		if p.drive.syncs%2 == 0 { // nobody knows
			p.out.Persist(diskStore, stored{image, slices.Clip(p.disk.log)})
		}
		p.out.Note("", history.StoreError{Kind: "input/output error"})
		p.exit()
		return
	}
	p.out.Persist(diskStore, stored{image, slices.Clip(p.disk.log)})
	p.disk.synced = image.Revision()
	p.say(min(p.disk.covered, len(p.waiting)))
	p.settle(now)
}

// StoreLog is what a disk of the apiserver remembers, as the evidence of its commits.
func StoreLog(record any) []history.Event {
	kept, _ := record.(stored)
	return kept.log
}

// entropy is bytes that a seed and the time decide: what is drawn in one second shifts
// nothing in another.
type entropy struct {
	seed, n uint64
	second  int64
}

func (e *entropy) Read(into []byte) (int, error) {
	if second := (clock.Clock{}).Now().Unix(); second != e.second {
		e.second, e.n = second, uint64(second)<<20
	}
	for at := 0; at < len(into); at += 8 {
		e.n++
		var b [8]byte
		binary.BigEndian.PutUint64(b[:], mix(e.seed, e.n))
		copy(into[at:], b[:])
	}
	return len(into), nil
}

// Trace is the request, as the life's trace has it.
func (r Request) Trace(trace io.Writer) {
	_, _ = io.WriteString(trace, r.Subject)
	_, _ = io.WriteString(trace, r.Envelope.GetOperation())
	_, _ = trace.Write(r.Envelope.GetOptions())
	_, _ = trace.Write(r.Envelope.GetBody())
}

// Trace is the answer, as the life's trace has it.
func (r Response) Trace(trace io.Writer) {
	for _, part := range r.Parts {
		traceNumber(trace, uint64(part.GetCode()))
		traceNumber(trace, part.GetItem().GetRevision())
		traceNumber(trace, part.GetList().GetRevision())
		traceNumber(trace, uint64(len(part.GetEvents())))
	}
}

// Trace is the frame, as the life's trace has it.
func (f Frame) Trace(trace io.Writer) {
	_, _ = io.WriteString(trace, f.Subject)
	traceNumber(trace, f.GetSequence())
	traceNumber(trace, f.GetRevision())
	traceNumber(trace, uint64(len(f.GetEvents())))
}
