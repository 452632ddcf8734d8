package sim

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/runtime/engine"
)

// The keys of a runtime's records and alarms.
const (
	boxKey       = "sandbox/"
	containerKey = "container/"
	effectsAlarm = "effects"
	changeAlarm  = "change"
	waitAlarm    = "wait"
)

// runtimeProcess is a node's runtime: the product's stop plan, scripts and persistence rules,
// without its engine of goroutines.
type runtimeProcess struct {
	node   string
	kernel *Kernel
	boot   proto.Boot

	boxes      []*box
	containers []*container
	// calls are those that are under way, in the order in which they came.
	calls []*pendingCall
	// effects are on record, and about to be done.
	effects []effect
	// news says that the kubelet has to be told.
	news bool
}

// box is a sandbox; its record is replaced and never changed.
type box struct {
	record   *proto.Sandbox
	stopping bool
	released bool
}

// container is a container of the runtime.
type container struct {
	containerRecord

	box    *box
	status engine.Status
	// starting and signaled mean that a call has taken it upon itself.
	starting, signaled, killed, removing bool
}

// containerRecord is the persistent record of a container.
type containerRecord struct {
	ID      string
	Created time.Time
	Request *proto.CreateContainerRequest
	Events  engine.Events
	// Exit is set once it has ended.
	Exit *engine.Status
}

// effect is something that happens to a program, after it was put on record.
type effect struct {
	container *container
	// signal is its name; empty for the start.
	signal string
}

// newRuntime is the next incarnation of a node's runtime.
func newRuntime(node string, kernel *Kernel) *runtimeProcess {
	return &runtimeProcess{node: node, kernel: kernel}
}

func (r *runtimeProcess) Step(now time.Time, in Input, out Out) {
	switch in := in.(type) {
	case Boot:
		r.load(now, in, out)
	case Called:
		if request, ok := in.Body.(RuntimeRequest); ok {
			r.handleCall(now, in.Call, request, out)
		}
	case Alarm:
		r.alarm(now, in.Key, out)
	case Message, Answered:
	}
	r.proceedAll(now, out)
	r.update(now, out)
}

// load loads the records, and finds out which containers still run.
func (r *runtimeProcess) load(now time.Time, in Boot, out Out) {
	r.boot = in.Boot
	for _, key := range sortedKeys(in.Disk) {
		if record, ok := in.Disk[key].(*proto.Sandbox); ok {
			r.boxes = append(r.boxes, &box{record: record, released: record.State != proto.SandboxState_SANDBOX_STATE_READY})
		}
	}
	slices.SortFunc(r.boxes, func(a, b *box) int {
		return cmp.Or(cmp.Compare(a.record.CreatedAtUnixNano, b.record.CreatedAtUnixNano), cmp.Compare(a.record.Id, b.record.Id))
	})
	for _, key := range sortedKeys(in.Disk) {
		if record, ok := in.Disk[key].(containerRecord); ok {
			r.loadContainer(now, record, out)
		}
	}
	slices.SortFunc(r.containers, func(a, b *container) int { return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID)) })
	for _, c := range r.containers { // what a crash has cut short: nothing runs in a stopped sandbox
		if c.box.record.State != proto.SandboxState_SANDBOX_STATE_READY && c.alive() && !c.status.Unreachable {
			r.calls = append(r.calls, &pendingCall{kind: callCleanUp, kills: []*container{c}})
		}
	}
	r.news = true
}

// sortedKeys are the keys of a disk, in order.
func sortedKeys(disk Disk) []string {
	keys := make([]string, 0, len(disk))
	for key := range disk {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

func (r *runtimeProcess) loadContainer(now time.Time, record containerRecord, out Out) {
	b := r.findBox(record.Request.SandboxId)
	if b == nil {
		out.Persist(containerKey+record.ID, nil) // made while its sandbox was removed, and never told of
		return
	}
	script, err := scriptOf(record.Request, record.Created)
	if err != nil {
		panic("sim: a container was made whose script cannot be read: " + err.Error())
	}
	c := &container{
		containerRecord: record, box: b,
		starting: !record.Events.Start.IsZero(), signaled: !record.Events.Stop.IsZero(), killed: !record.Events.Kill.IsZero(),
	}
	r.containers = append(r.containers, c)
	lost := r.kernel.programs[c.ID] == nil && c.starting
	switch {
	case c.Exit != nil:
		c.status = *c.Exit
	case lost: // the node was started anew (CRI-11)
		c.status = engine.Status{
			State: proto.ContainerState_CONTAINER_STATE_EXITED, StartedAt: record.Events.Start, FinishedAt: now,
			ExitCode: engine.ExitUnknown, Reason: engine.ReasonUnknown,
		}
		r.recordExit(c, out)
	default:
		r.redoEffects(c, out)
		r.kernel.load(c.ID, script, record.Events)
		if c.status = r.kernel.programs[c.ID].at(now); c.status.State == proto.ContainerState_CONTAINER_STATE_EXITED {
			r.recordExit(c, out)
		}
	}
}

// redoEffects repeats recorded effects that may not have happened: loading the program does it.
func (r *runtimeProcess) redoEffects(c *container, out Out) {
	var done engine.Events
	if p := r.kernel.programs[c.ID]; p != nil {
		done = p.events
	}
	if done.Start.IsZero() && !c.Events.Start.IsZero() {
		out.Note("", history.Start{ContainerRef: c.ref(), Scripted: true})
	}
	if done.Stop.IsZero() && !c.Events.Stop.IsZero() {
		out.Note("", history.Signal{ContainerRef: c.ref(), Signal: engine.StopSignal(c.Request)})
	}
	if done.Kill.IsZero() && !c.Events.Kill.IsZero() {
		out.Note("", history.Signal{ContainerRef: c.ref(), Signal: engine.SIGKILL})
	}
}

// recordExit persists an exit and reports it.
func (r *runtimeProcess) recordExit(c *container, out Out) {
	c.Exit = new(c.status)
	out.Persist(containerKey+c.ID, c.containerRecord)
	out.Note("", history.Exit{ContainerRef: c.ref(), Code: c.status.ExitCode, Unstarted: c.status.Reason == engine.ReasonStartError})
	r.news = true
}

func (r *runtimeProcess) alarm(now time.Time, key string, out Out) {
	if key != effectsAlarm {
		return // what is due is looked at after every step
	}
	effects := r.effects
	r.effects = nil
	for _, e := range effects {
		r.applyEffect(now, e, out)
	}
}

// applyEffect applies a recorded effect to a program.
func (r *runtimeProcess) applyEffect(now time.Time, e effect, out Out) {
	c := e.container
	p := r.kernel.programs[c.ID]
	if p == nil {
		return
	}
	var event *time.Time
	switch e.signal {
	case "":
		event = &p.events.Start
		out.Note("", history.Start{ContainerRef: c.ref(), Scripted: true})
	case engine.SIGKILL:
		event = &p.events.Kill
	default:
		event = &p.events.Stop
	}
	if event.IsZero() {
		*event = now
	}
	if e.signal != "" {
		out.Note("", history.Signal{ContainerRef: c.ref(), Signal: e.signal})
	}
}

// queueEffect queues an effect; its record has been written.
func (r *runtimeProcess) queueEffect(now time.Time, c *container, signal string, out Out) {
	out.Persist(containerKey+c.ID, c.containerRecord)
	if signal != "" {
		out.Note("", history.Signaling{ContainerRef: c.ref(), Signal: signal})
	}
	r.effects = append(r.effects, effect{c, signal})
	out.Wake(effectsAlarm, now)
}

// pending reports whether something is about to be done to a container.
func (r *runtimeProcess) pending(c *container) bool {
	return slices.ContainsFunc(r.effects, func(e effect) bool { return e.container == c })
}

// update looks at all programs, notifies the kubelet, and sets the alarm of the next change.
func (r *runtimeProcess) update(now time.Time, out Out) {
	var next time.Time
	for _, c := range r.containers {
		p := r.kernel.programs[c.ID]
		if c.Exit != nil || p == nil || c.Events.Start.IsZero() {
			continue
		}
		if at, ok := p.script.NextChange(p.events, now); ok && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	out.Wake(changeAlarm, next)
	if r.news {
		r.news = false
		out.Send("kubelet/"+r.node, News{r.boot})
	}
}

// refresh brings the status of every container up to date.
func (r *runtimeProcess) refresh(now time.Time, out Out) (changed bool) {
	for _, c := range r.containers {
		p := r.kernel.programs[c.ID]
		if c.Exit != nil || p == nil {
			continue
		}
		status := p.at(now)
		if status.State > c.status.State {
			c.status, changed, r.news = status, true, true
			if status.State == proto.ContainerState_CONTAINER_STATE_EXITED {
				r.recordExit(c, out)
			}
		}
	}
	return changed
}

func (r *runtimeProcess) findBox(id string) *box {
	for _, b := range r.boxes {
		if b.record.Id == id {
			return b
		}
	}
	return nil
}

func (r *runtimeProcess) findContainer(id string) *container {
	for _, c := range r.containers {
		if c.ID == id {
			return c
		}
	}
	return nil
}

// ref returns the container's reference in the history.
func (c *container) ref() history.ContainerRef {
	b := c.box.record
	return history.ContainerRef{Pod: b.PodNamespace + "/" + b.PodName, UID: b.PodUid, Container: c.ID, ContainerName: c.Request.Name}
}

// alive reports whether a container runs, or is about to.
func (c *container) alive() bool {
	starting := c.status.State == proto.ContainerState_CONTAINER_STATE_CREATED && !c.Events.Start.IsZero()
	return starting || c.status.State == proto.ContainerState_CONTAINER_STATE_RUNNING
}

// view is the container as CRI tells it (CRI-05).
func (c *container) view() *proto.Container {
	return &proto.Container{
		Id: c.ID, SandboxId: c.Request.SandboxId, Name: c.Request.Name, Attempt: c.Request.Attempt,
		Image: c.Request.Image, State: c.status.State,
		CreatedAtUnixNano: c.Created.UnixNano(), StartedAtUnixNano: nano(c.status.StartedAt),
		FinishedAtUnixNano: nano(c.status.FinishedAt),
		ExitCode:           c.status.ExitCode, Reason: c.status.Reason, Message: c.status.Message,
		Labels: c.Request.Labels, Annotations: c.Request.Annotations, StopSignal: engine.StopSignal(c.Request),
	}
}

func nano(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// newID is an id as container runtimes make them.
func newID(name string, now time.Time) string {
	sum := sha256.Sum256([]byte(name + " " + strconv.FormatInt(now.UnixNano(), 10)))
	return hex.EncodeToString(sum[:])
}

// boxName tells two incarnations of a pod apart, and two sandboxes of one (CRI-14).
func boxName(pod, namespace, uid string, attempt uint32) string {
	return strings.Join([]string{pod, namespace, uid, strconv.FormatUint(uint64(attempt), 10)}, "_")
}
