package guarantees

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/podfall/podfall/internal/history"
)

// past is what has happened, as checkers look it up. Events are in their order.
type past struct {
	timeline
	log history.Log
	file

	commits    []*commit // by revision
	byRevision map[int64]*commit
	byUID      map[string][]*commit
	objects    map[reference]*object
	operations []*operation // by their first call
	byID       map[string]*operation
	pods       map[string]*pod

	circumstances
	found
}

// file is what is known of the store's file.
type file struct {
	// stored reports whether it was read, and compacted is the oldest revision that it still
	// has the state of.
	stored    bool
	compacted int64
	// disk is nil when it was not verified.
	disk *Disk
}

// commit is a change of the store.
type commit struct {
	history.Commit
	*history.Event
	// of is what it changed.
	of *object
	// by is the request that made it; nil when it is not known.
	by *operation
	// before is what was there; nil for nothing, or when it is not known.
	before *commit
	// recorded and stored say where it is: in the apiserver's history, in the store's file.
	recorded, stored bool
	// differs says that the two do not agree.
	differs bool
}

// operation is a request, with all its tries: each has the same id.
type operation struct {
	history.OpCall
	id string
	// node is the one that asks; empty for others.
	node           string
	calls, returns []*history.Event
	webhooks       []*history.Event
	commits        []*commit
}

// pod is what the node has told of one incarnation.
type pod struct {
	uid, name  string
	commits    []*commit
	containers []*container
	byID       map[string]*container
	told
	mounts    []*history.Event // rt.mount, rt.umount
	sandboxes []*history.Event // rt.sb.stop
	blockers  []*history.Event // ui.blocker
}

// told is what kubelets have told of a pod.
type told struct {
	seen     []*history.Event // k.see
	terms    []*history.Event // k.term
	stuck    []*history.Event // k.stuck
	statuses []*history.Event // k.status
	finals   []*history.Event // k.final that were taken
}

// container is what its runtime has told of one.
type container struct {
	history.Of
	pod                              *pod
	created, started, exits, removed []*history.Event
	postStarts, postStartEnds        []*history.Event
	preStops, preStopEnds            []*history.Event
	// signaling is written before a signal, signals after it.
	signaling, signals []*history.Event
}

func newPast(evidence Evidence) *past {
	p := &past{
		timeline: newTimeline(len(evidence.Log.Events)),
		log:      evidence.Log, file: file{stored: evidence.Store != nil, disk: evidence.Disk},
		byRevision: map[int64]*commit{}, byUID: map[string][]*commit{}, objects: map[reference]*object{},
		byID: map[string]*operation{}, pods: map[string]*pod{},
	}
	p.found = p.find()
	for i := range evidence.Log.Events {
		p.take(&evidence.Log.Events[i])
	}
	p.from = p.keptFrom()
	for i := range evidence.Store {
		p.read(&evidence.Store[i])
	}
	p.chain()
	p.look()
	return p
}

// take takes up an event of a process.
func (p *past) take(e *history.Event) {
	p.add(e)
	switch fact := e.Fact.(type) {
	case history.OpCall:
		o := p.byID[e.Cause]
		if o == nil {
			o = &operation{OpCall: fact, id: e.Cause, node: nodeOf(fact.Who)}
			p.byID[e.Cause] = o
			p.operations = append(p.operations, o)
		}
		o.calls = append(o.calls, e)
	case history.OpReturn:
		if o := p.byID[e.Cause]; o != nil {
			o.returns = append(o.returns, e)
		}
	case history.Consulted:
		if o := p.byID[e.Cause]; o != nil {
			o.webhooks = append(o.webhooks, e)
		}
	case history.Commit:
		if p.byRevision[fact.Revision] == nil {
			p.byRevision[fact.Revision] = &commit{Commit: fact, Event: e, recorded: true}
		} else {
			p.byRevision[fact.Revision].differs = true // one revision, two commits
		}
	default:
		p.onNode(e)
	}
}

// read takes up a commit of the store's file.
func (p *past) read(e *history.Event) {
	switch fact := e.Fact.(type) {
	case history.Compact:
		p.compacted = fact.Revision
	case history.Commit:
		c := p.byRevision[fact.Revision]
		if c == nil {
			p.byRevision[fact.Revision] = &commit{Commit: fact, Event: e, stored: true}
			return
		}
		c.stored = true
		if c.Created == 0 { // recorded by a release that did not tell
			c.Content = fact.Content
		}
		c.differs = c.differs || c.Key != fact.Key || c.UID != fact.UID || c.Op != fact.Op || c.Object != fact.Object || c.Cause != e.Cause
	}
}

// chain puts commits in order and finds what each replaced.
func (p *past) chain() {
	for _, c := range p.byRevision {
		p.commits = append(p.commits, c)
	}
	slices.SortFunc(p.commits, func(a, b *commit) int { return cmp.Compare(a.Revision, b.Revision) })
	p.place()
	for _, c := range p.commits {
		c.of = p.object(reference{c.Resource, c.Key})
		if was := p.byRevision[c.Previous]; was != nil && was.of == c.of && was.Revision < c.Revision {
			c.before = was // a damaged history may name any
		}
		c.of.versions = append(c.of.versions, c)
		p.byUID[c.UID] = append(p.byUID[c.UID], c)
		if c.by = p.byID[c.Cause]; c.by != nil {
			c.by.commits = append(c.by.commits, c)
		}
		if c.Resource == podResource {
			one := p.pod(c.UID, c.Key)
			one.commits = append(one.commits, c)
		}
	}
}

// after are the commits behind a revision.
func (p *past) after(revision int64) []*commit {
	at, _ := slices.BinarySearchFunc(p.commits, revision, func(c *commit, revision int64) int {
		if c.Revision <= revision {
			return -1
		}
		return 1
	})
	return p.commits[at:]
}

// place says of commits that only the store's file has when they were at the earliest and at
// the latest: between those that were told of before and after them. What was told of after
// the last of all was until the history ends.
func (p *past) place() {
	began := int64(0)
	for _, c := range p.commits {
		if c.recorded {
			began = max(began, c.Began)
			continue
		}
		e := *c.Event
		e.Began, c.Event = began, &e
	}
	ended := p.latest
	for _, c := range slices.Backward(p.commits) {
		if c.recorded {
			ended = min(ended, c.Ended)
		} else {
			c.Ended = max(c.Began, ended)
		}
	}
}

// keptFrom is when the history begins to be whole.
func (p *past) keptFrom() (from int64) {
	for _, gap := range p.log.Gaps {
		if gap.From != 1 {
			continue
		}
		for _, e := range p.events {
			if e.Process == gap.Process && string(e.Boot) == gap.Boot {
				from = max(from, e.Ended)
				break
			}
		}
	}
	return from
}

const podResource = "pods"

// whole reports whether everything about an incarnation is in the history: its beginning
// is.
func (p *past) whole(one *pod) bool {
	return len(one.commits) > 0 && one.commits[0].Op == added && one.commits[0].recorded && one.commits[0].Began >= p.from
}

// findLives finds the incarnations of which everything is in the history, in order.
func (p *past) findLives() []*pod {
	lives := make([]*pod, 0, len(p.pods))
	for _, one := range p.pods {
		if p.whole(one) {
			lives = append(lives, one)
		}
	}
	slices.SortFunc(lives, func(a, b *pod) int { return cmp.Compare(a.commits[0].Revision, b.commits[0].Revision) })
	return lives
}

// pod is the incarnation of a uid.
func (p *past) pod(uid, name string) *pod {
	one := p.pods[uid]
	if one == nil {
		one = &pod{uid: uid, name: name, byID: map[string]*container{}}
		p.pods[uid] = one
	}
	if one.name == "" {
		one.name = name // a volume that is mounted names its pod's uid alone
	}
	return one
}

// container is the one of an id.
func (p *past) container(of history.Of) *container {
	one := p.pod(of.UID, of.Pod)
	c := one.byID[of.Container]
	if c == nil {
		c = &container{Of: of, pod: one}
		one.byID[of.Container] = c
		one.containers = append(one.containers, c)
	}
	return c
}

// onNode takes up what a node has told.
func (p *past) onNode(e *history.Event) {
	add := func(to *[]*history.Event) { *to = append(*to, e) }
	switch fact := e.Fact.(type) {
	case history.KubeletSee:
		add(&p.pod(fact.UID, fact.Pod).seen)
	case history.KubeletTerm:
		add(&p.pod(fact.UID, fact.Pod).terms)
	case history.KubeletStuck:
		add(&p.pod(fact.UID, fact.Pod).stuck)
	case history.KubeletStatus:
		add(&p.pod(fact.UID, fact.Pod).statuses)
	case history.KubeletFinal:
		if fact.Err == "" {
			add(&p.pod(fact.UID, fact.Pod).finals)
		}
	case history.Mount:
		add(&p.pod(fact.UID, "").mounts)
	case history.Unmount:
		add(&p.pod(fact.UID, "").mounts)
	case history.SandboxStop:
		add(&p.pod(fact.UID, fact.Pod).sandboxes)
	case history.Blocker:
		add(&p.pod(fact.UID, "").blockers)
	default:
		p.inContainer(e)
	}
}

// inContainer takes up what is about one container.
func (p *past) inContainer(e *history.Event) {
	add := func(to *[]*history.Event) { *to = append(*to, e) }
	switch fact := e.Fact.(type) {
	case history.Create:
		add(&p.container(fact.Of).created)
	case history.Start:
		add(&p.container(fact.Of).started)
	case history.TakeUp:
		p.container(fact.Of).takenUp(e, fact)
	case history.Exit:
		add(&p.container(fact.Of).exits)
	case history.Remove:
		add(&p.container(fact.Of).removed)
	case history.PostStartBegin:
		add(&p.container(fact.Of).postStarts)
	case history.PostStartEnd:
		add(&p.container(fact.Of).postStartEnds)
	case history.PreStopBegin:
		add(&p.container(fact.Of).preStops)
	case history.PreStopEnd:
		add(&p.container(fact.Of).preStopEnds)
	case history.Signaling:
		add(&p.container(fact.Of).signaling)
	case history.Signal:
		add(&p.container(fact.Of).signals)
	}
}

// takenUp takes up that a container had been started by an incarnation of its runtime which
// did not live to tell of it: at some time since the container was made.
func (c *container) takenUp(e *history.Event, fact history.TakeUp) {
	if len(c.started) > 0 || len(c.created) == 0 {
		return
	}
	made := c.created[0]
	start := *made
	start.Began, start.Ended, start.Fact = made.Ended, e.Ended, history.Start{Of: fact.Of, Scripted: fact.Scripted}
	c.started = append(c.started, &start)
}

// The operations of a commit.
const (
	added    = "ADDED"
	modified = "MODIFIED"
	deleted  = "DELETED"
)

// nodeOf is the node that an identity, node:n, or a process, kubelet/n, is on; empty for
// none.
func nodeOf(who string) string {
	for _, prefix := range []string{"node:", "kubelet/", "runtime/"} {
		if node, ok := strings.CutPrefix(who, prefix); ok {
			return node
		}
	}
	return ""
}

// before reports whether a was over before b began.
func before(a, b *history.Event) bool { return a.Ended < b.Began }

// said is the fields of an event.
func said(e *history.Event) any {
	data, err := json.Marshal(e.Fact)
	fields := map[string]any{}
	if err != nil || json.Unmarshal(data, &fields) != nil {
		return e.Fact
	}
	return fields
}

// decimal is a revision as the API says it.
func decimal(revision int64) string { return strconv.FormatInt(revision, 10) }

// number is a revision that the API has said; 0 for none.
func number(revision string) int64 {
	n, _ := strconv.ParseInt(revision, 10, 64)
	return n
}
