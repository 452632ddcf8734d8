package guarantees

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/podfall/podfall/internal/history"
)

// clusterHistory is the recorded history of a cluster, indexed for the checkers. Events are in
// their order.
type clusterHistory struct {
	eventIndex
	log history.Log
	storeFile

	commits    []*commit // by revision
	byRevision map[int64]*commit
	byUID      map[string][]*commit
	objects    map[reference]*object
	operations []*operation // by their first call
	byID       map[string]*operation
	pods       map[string]*podHistory

	environment
	sharedResults
}

// storeFile describes what is known of the store's file.
type storeFile struct {
	// hasFile reports whether the file was read. compacted is the oldest revision of which the file
	// still has the state.
	hasFile   bool
	compacted int64
	// disk is nil if the file was not verified.
	disk *Disk
}

// commit is a change of the store.
type commit struct {
	history.Commit
	*history.Event
	// object is the changed object.
	object *object
	// operation is the request that made the commit; nil if unknown.
	operation *operation
	// replaced is the version that the commit replaced; nil if there was none, or if it is unknown.
	replaced *commit
	// recorded and stored say where the commit was found: in the apiserver's history, and in the
	// store's file.
	recorded, stored bool
	// differs reports that the history and the file disagree.
	differs bool
}

// operation is a request with all its tries, which share one id.
type operation struct {
	history.OpCall
	id string
	// node is the requesting node; empty for other clients.
	node           string
	calls, returns []*history.Event
	webhooks       []*history.Event
	commits        []*commit
}

// podHistory holds everything that was recorded about one pod UID.
type podHistory struct {
	uid, name      string
	commits        []*commit
	containers     []*container
	containersByID map[string]*container
	kubeletEvents
	mounts    []*history.Event // rt.mount, rt.umount
	sandboxes []*history.Event // rt.sb.stop
	blockers  []*history.Event // ui.blocker
}

// kubeletEvents holds what kubelets recorded about a pod.
type kubeletEvents struct {
	seen     []*history.Event // k.see
	terms    []*history.Event // k.term
	stuck    []*history.Event // k.stuck
	statuses []*history.Event // k.status
	finals   []*history.Event // k.final without an error
}

// container holds what its runtime recorded about one container.
type container struct {
	history.ContainerRef
	pod                              *podHistory
	created, started, exits, removed []*history.Event
	postStarts, postStartEnds        []*history.Event
	preStops, preStopEnds            []*history.Event
	// signaling is written before a signal, signals after it.
	signaling, signals []*history.Event
}

func newClusterHistory(evidence Evidence) *clusterHistory {
	p := &clusterHistory{
		eventIndex: newEventIndex(len(evidence.Log.Events)),
		log:        evidence.Log, storeFile: storeFile{hasFile: evidence.Store != nil, disk: evidence.Disk},
		byRevision: map[int64]*commit{}, byUID: map[string][]*commit{}, objects: map[reference]*object{},
		byID: map[string]*operation{}, pods: map[string]*podHistory{},
	}
	p.sharedResults = p.share()
	for i := range evidence.Log.Events {
		p.addEvent(&evidence.Log.Events[i])
	}
	p.completeFrom = p.firstCompleteTime()
	for i := range evidence.Store {
		p.addFileEvent(&evidence.Store[i])
	}
	p.linkCommits()
	p.findEnvironment()
	return p
}

// addEvent indexes an event of a process.
func (p *clusterHistory) addEvent(e *history.Event) {
	p.add(e)
	switch fact := e.Fact.(type) {
	case history.OpCall:
		o := p.byID[e.Cause]
		if o == nil {
			o = &operation{OpCall: fact, id: e.Cause, node: nodeOf(fact.Identity)}
			p.byID[e.Cause] = o
			p.operations = append(p.operations, o)
		}
		o.calls = append(o.calls, e)
	case history.OpReturn:
		if o := p.byID[e.Cause]; o != nil {
			o.returns = append(o.returns, e)
		}
	case history.WebhookCall:
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
		p.addNodeEvent(e)
	}
}

// addFileEvent indexes an event of the store's file.
func (p *clusterHistory) addFileEvent(e *history.Event) {
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

// linkCommits sorts the commits and links each to the version it replaced, its object, its
// operation and its pod.
func (p *clusterHistory) linkCommits() {
	for _, c := range p.byRevision {
		p.commits = append(p.commits, c)
	}
	slices.SortFunc(p.commits, func(a, b *commit) int { return cmp.Compare(a.Revision, b.Revision) })
	p.placeFileCommits()
	for _, c := range p.commits {
		c.object = p.objectOf(reference{c.Resource, c.Key})
		if was := p.byRevision[c.Previous]; was != nil && was.object == c.object && was.Revision < c.Revision {
			c.replaced = was // a damaged history may name any
		}
		c.object.versions = append(c.object.versions, c)
		p.byUID[c.UID] = append(p.byUID[c.UID], c)
		if c.operation = p.byID[c.Cause]; c.operation != nil {
			c.operation.commits = append(c.operation.commits, c)
		}
		if c.Resource == podResource {
			one := p.podOf(c.UID, c.Key)
			one.commits = append(one.commits, c)
		}
	}
}

// commitsAfter returns the commits after a revision.
func (p *clusterHistory) commitsAfter(revision int64) []*commit {
	at, _ := slices.BinarySearchFunc(p.commits, revision, func(c *commit, revision int64) int {
		if c.Revision <= revision {
			return -1
		}
		return 1
	})
	return p.commits[at:]
}

// placeFileCommits estimates when the commits happened that only the store's file has: between the
// recorded commits before and after them. Commits after the last recorded one may have happened
// until the history ends.
func (p *clusterHistory) placeFileCommits() {
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

// firstCompleteTime returns the monotonic time from which the history is complete.
func (p *clusterHistory) firstCompleteTime() (from int64) {
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

// isComplete reports whether the history has everything about a pod, beginning with its creation.
func (p *clusterHistory) isComplete(one *podHistory) bool {
	return len(one.commits) > 0 && one.commits[0].Op == added && one.commits[0].recorded && one.commits[0].Began >= p.completeFrom
}

// findCompletePods returns the pods that are in the history completely, in order of creation.
func (p *clusterHistory) findCompletePods() []*podHistory {
	lives := make([]*podHistory, 0, len(p.pods))
	for _, one := range p.pods {
		if p.isComplete(one) {
			lives = append(lives, one)
		}
	}
	slices.SortFunc(lives, func(a, b *podHistory) int { return cmp.Compare(a.commits[0].Revision, b.commits[0].Revision) })
	return lives
}

// podOf returns the pod with a UID, and adds it if it is new.
func (p *clusterHistory) podOf(uid, name string) *podHistory {
	one := p.pods[uid]
	if one == nil {
		one = &podHistory{uid: uid, name: name, containersByID: map[string]*container{}}
		p.pods[uid] = one
	}
	if one.name == "" {
		one.name = name // a volume that is mounted names its pod's uid alone
	}
	return one
}

// containerOf returns the container with an id, and adds it if it is new.
func (p *clusterHistory) containerOf(of history.ContainerRef) *container {
	one := p.podOf(of.UID, of.Pod)
	c := one.containersByID[of.Container]
	if c == nil {
		c = &container{ContainerRef: of, pod: one}
		one.containersByID[of.Container] = c
		one.containers = append(one.containers, c)
	}
	return c
}

// addNodeEvent indexes an event of a node.
func (p *clusterHistory) addNodeEvent(e *history.Event) {
	add := func(to *[]*history.Event) { *to = append(*to, e) }
	switch fact := e.Fact.(type) {
	case history.KubeletSee:
		add(&p.podOf(fact.UID, fact.Pod).seen)
	case history.KubeletTerm:
		add(&p.podOf(fact.UID, fact.Pod).terms)
	case history.KubeletStuck:
		add(&p.podOf(fact.UID, fact.Pod).stuck)
	case history.KubeletStatus:
		add(&p.podOf(fact.UID, fact.Pod).statuses)
	case history.KubeletFinal:
		if fact.Err == "" {
			add(&p.podOf(fact.UID, fact.Pod).finals)
		}
	case history.Mount:
		add(&p.podOf(fact.UID, "").mounts)
	case history.Unmount:
		add(&p.podOf(fact.UID, "").mounts)
	case history.SandboxStop:
		add(&p.podOf(fact.UID, fact.Pod).sandboxes)
	case history.Blocker:
		add(&p.podOf(fact.UID, "").blockers)
	default:
		p.addContainerEvent(e)
	}
}

// addContainerEvent indexes an event about one container.
func (p *clusterHistory) addContainerEvent(e *history.Event) {
	add := func(to *[]*history.Event) { *to = append(*to, e) }
	switch fact := e.Fact.(type) {
	case history.Create:
		add(&p.containerOf(fact.ContainerRef).created)
	case history.Start:
		add(&p.containerOf(fact.ContainerRef).started)
	case history.Recover:
		p.containerOf(fact.ContainerRef).addTakeUp(e, fact)
	case history.Exit:
		add(&p.containerOf(fact.ContainerRef).exits)
	case history.Remove:
		add(&p.containerOf(fact.ContainerRef).removed)
	case history.PostStartBegin:
		add(&p.containerOf(fact.ContainerRef).postStarts)
	case history.PostStartEnd:
		add(&p.containerOf(fact.ContainerRef).postStartEnds)
	case history.PreStopBegin:
		add(&p.containerOf(fact.ContainerRef).preStops)
	case history.PreStopEnd:
		add(&p.containerOf(fact.ContainerRef).preStopEnds)
	case history.Signaling:
		add(&p.containerOf(fact.ContainerRef).signaling)
	case history.Signal:
		add(&p.containerOf(fact.ContainerRef).signals)
	}
}

// addTakeUp records the start of a container whose runtime died before it recorded the start. The
// container started at some time since it was created.
func (c *container) addTakeUp(e *history.Event, fact history.Recover) {
	if len(c.started) > 0 || len(c.created) == 0 {
		return
	}
	made := c.created[0]
	start := *made
	start.Began, start.Ended, start.Fact = made.Ended, e.Ended, history.Start{ContainerRef: fact.ContainerRef, Scripted: fact.Scripted}
	c.started = append(c.started, &start)
}

// The operations of a commit.
const (
	// The operations of a commit.
	added    = "ADDED"
	modified = "MODIFIED"
	deleted  = "DELETED"
)

// nodeOf returns the node of an identity (node:n) or of a process (kubelet/n); empty for others.
func nodeOf(who string) string {
	for _, prefix := range []string{"node:", "kubelet/", "runtime/"} {
		if node, ok := strings.CutPrefix(who, prefix); ok {
			return node
		}
	}
	return ""
}

// before reports whether a ended before b began.
func before(a, b *history.Event) bool { return a.Ended < b.Began }

// fieldsOf returns the fields of an event's fact.
func fieldsOf(e *history.Event) any {
	data, err := json.Marshal(e.Fact)
	fields := map[string]any{}
	if err != nil || json.Unmarshal(data, &fields) != nil {
		return e.Fact
	}
	return fields
}

// formatRevision returns a revision as the API writes it.
func formatRevision(revision int64) string { return strconv.FormatInt(revision, 10) }

// parseRevision returns the number of a revision from the API; 0 for none.
func parseRevision(revision string) int64 {
	n, _ := strconv.ParseInt(revision, 10, 64)
	return n
}
