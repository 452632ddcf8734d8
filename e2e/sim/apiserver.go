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

// Heartbeat is how often the apiserver sends something on an idle watch.
const Heartbeat = 2 * time.Second

// keptChanges is how many changes the store keeps at least: few enough that a watcher that was away
// for long gets a 410.
const keptChanges = 600

// Drive is the simulated disk of a process: how long an fsync takes, and whether it fails.
type Drive struct {
	seed uint64
	// Slow is added to each fsync. If Fails is set, each fsync fails.
	Slow  time.Duration
	Fails bool
	// Compact is how much of the history the next change keeps; nil for the default.
	Compact *int

	syncs uint64
}

// syncTime returns how long the next fsync takes.
func (d *Drive) syncTime() time.Duration {
	d.syncs++
	return 500*time.Microsecond + time.Duration(mix(d.seed, "fsync", d.syncs)%3000)*time.Microsecond + d.Slow
}

// apiserverProcess is the product's apiserver on a simulated disk. Its output waits until the
// commits before it are on disk.
type apiserverProcess struct {
	drive *Drive
	hooks webhook.Caller
	// exit ends the process after a failed fsync.
	exit func()

	inline *apiserver.Inline
	out    Out
	disk   diskState
	// waiting holds output that depends on commits that are not on disk yet.
	waiting []output
	names   map[string]string // of watch subjects
}

// output is one output of an apiserver: a fact, a frame or an answer.
type output struct {
	about string // of a frame; the cause of a fact
	fact  history.Fact
	frame Frame
	call  CallID
	parts []*proto.Response
	err   error
}

func (s *output) send(out Out) {
	switch {
	case s.fact != nil:
		out.Note(s.about, s.fact)
	case s.frame.Frame != nil:
		out.Publish(s.frame.Subject, s.about, s.frame)
	default:
		out.Answer(s.call, Response{Parts: s.parts}, s.err)
	}
}

// diskState is an apiserver's knowledge of its disk.
type diskState struct {
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
		p.boot(now, in, out)
	case Called:
		p.handleCall(in)
	case Alarm:
		switch in.Key {
		case wakeSync:
			p.syncDone(now)
			return
		case wakeBeat:
			p.inline.PublishHeartbeats(backgroundContext())
			out.Wake(wakeBeat, now.Add(Heartbeat))
		}
	case Message, Answered:
	}
	p.flush(now)
}

func (p *apiserverProcess) boot(now time.Time, in Boot, out Out) {
	kept, _ := in.Disk[diskStore].(stored)
	p.disk.log, p.disk.synced = slices.Clip(kept.log), kept.image.Revision()
	compat, err := proto.CompatFor("")
	if err != nil {
		panic(fmt.Sprintf("sim: %v", err)) // the default release is always there
	}
	recorder, err := history.Open(history.Config{Process: APIServer, Boot: in.Boot, Clock: out.Clock(), OnEvent: p.recordFact})
	if err != nil {
		panic(fmt.Sprintf("sim: %v", err)) // it writes no file
	}
	p.inline, err = apiserver.NewInline(backgroundContext(), apiserver.InlineConfig{
		Boot: in.Boot, Compat: compat, Image: kept.image, Keep: keptChanges, Entropy: &entropy{seed: in.Seed},
		Hooks: p.hooks, Publish: p.publish, History: recorder, Clock: out.Clock(),
	})
	if err != nil {
		panic(fmt.Sprintf("sim: the apiserver does not start: %v", err))
	}
	out.Wake(wakeBeat, now.Add(Heartbeat))
}

// recordFact records a fact of the apiserver: a request when it arrives, other facts once they are
// on disk.
func (p *apiserverProcess) recordFact(e history.Event) {
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
		fact = TimedFact{fact, p.out.Clock().Steady()}
	}
	p.waiting = append(p.waiting, output{about: e.Cause, fact: fact})
}

func (p *apiserverProcess) publish(subject string, frame *proto.Frame) error {
	p.waiting = append(p.waiting, output{about: p.names[subject], frame: Frame{subject, frame}})
	return nil
}

func (p *apiserverProcess) handleCall(in Called) {
	request, ok := in.Body.(Request)
	if !ok {
		p.waiting = append(p.waiting, output{call: in.Call, err: fmt.Errorf("%w: %T", errNotRequest, in.Body)})
		return
	}
	parts, err := p.inline.Call(backgroundContext(), request.Subject, request.Envelope)
	p.waiting = append(p.waiting, output{call: in.Call, parts: parts, err: err})
	p.inline.PublishPending(backgroundContext())
}

// backgroundContext returns a context that nothing cancels; the world ends its work.
func backgroundContext() context.Context {
	return context.Background() //nolint:forbidigo // a simulated process has no caller
}

var errNotRequest = errors.New("not a request")

// flush sends what is on disk already, and starts an fsync for the rest.
func (p *apiserverProcess) flush(now time.Time) {
	revision := p.inline.Revision()
	if p.disk.syncing == nil && revision == max(p.disk.synced, 1) {
		p.sendFirst(len(p.waiting))
	}
	if p.disk.syncing == nil && revision > p.disk.synced && len(p.disk.fresh) > 0 {
		p.disk.log = append(p.disk.log, p.disk.fresh...)
		p.disk.syncing, p.disk.covered, p.disk.fresh = p.inline.Image(), len(p.waiting), nil
		p.out.Wake(wakeSync, now.Add(p.drive.syncTime()))
	}
}

func (p *apiserverProcess) sendFirst(n int) {
	for i := range p.waiting[:n] {
		p.waiting[i].send(p.out)
	}
	p.waiting = slices.Delete(p.waiting, 0, n)
}

// syncDone handles the end of an fsync.
func (p *apiserverProcess) syncDone(now time.Time) {
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
	p.sendFirst(min(p.disk.covered, len(p.waiting)))
	p.flush(now)
}

// StoreLog returns the commits on an apiserver's disk, as evidence.
func StoreLog(record any) []history.Event {
	kept, _ := record.(stored)
	return kept.log
}

// entropy is a reader of bytes that depend on a seed and the time. What is drawn in one second does
// not affect other seconds.
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

// Trace writes the request into the run's trace.
func (r Request) Trace(trace io.Writer) {
	_, _ = io.WriteString(trace, r.Subject)
	_, _ = io.WriteString(trace, r.Envelope.GetOperation())
	_, _ = trace.Write(r.Envelope.GetOptions())
	_, _ = trace.Write(r.Envelope.GetBody())
}

// Trace writes the answer into the run's trace.
func (r Response) Trace(trace io.Writer) {
	for _, part := range r.Parts {
		traceNumber(trace, uint64(part.GetCode()))
		traceNumber(trace, part.GetItem().GetRevision())
		traceNumber(trace, part.GetList().GetRevision())
		traceNumber(trace, uint64(len(part.GetEvents())))
	}
}

// Trace writes the frame into the run's trace.
func (f Frame) Trace(trace io.Writer) {
	_, _ = io.WriteString(trace, f.Subject)
	traceNumber(trace, f.GetSequence())
	traceNumber(trace, f.GetRevision())
	traceNumber(trace, uint64(len(f.GetEvents())))
}
