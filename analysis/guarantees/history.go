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
	h := &clusterHistory{
		eventIndex: newEventIndex(len(evidence.Log.Events)),
		log:        evidence.Log, storeFile: storeFile{hasFile: evidence.Store != nil, disk: evidence.Disk},
		byRevision: map[int64]*commit{}, byUID: map[string][]*commit{}, objects: map[reference]*object{},
		byID: map[string]*operation{}, pods: map[string]*podHistory{},
	}
	h.sharedResults = h.share()
	for i := range evidence.Log.Events {
		h.addEvent(&evidence.Log.Events[i])
	}
	h.completeFrom = h.firstCompleteTime()
	for i := range evidence.Store {
		h.addFileEvent(&evidence.Store[i])
	}
	h.linkCommits()
	h.findEnvironment()
	return h
}

// addEvent indexes an event of a process.
func (h *clusterHistory) addEvent(e *history.Event) {
	h.add(e)
	switch fact := e.Fact.(type) {
	case history.OpCall:
		o := h.byID[e.Cause]
		if o == nil {
			o = &operation{OpCall: fact, id: e.Cause, node: nodeOf(fact.Identity)}
			h.byID[e.Cause] = o
			h.operations = append(h.operations, o)
		}
		o.calls = append(o.calls, e)
	case history.OpReturn:
		if o := h.byID[e.Cause]; o != nil {
			o.returns = append(o.returns, e)
		}
	case history.WebhookCall:
		if o := h.byID[e.Cause]; o != nil {
			o.webhooks = append(o.webhooks, e)
		}
	case history.Commit:
		if h.byRevision[fact.Revision] == nil {
			h.byRevision[fact.Revision] = &commit{Commit: fact, Event: e, recorded: true}
		} else {
			h.byRevision[fact.Revision].differs = true // one revision, two commits
		}
	default:
		h.addNodeEvent(e)
	}
}

// addFileEvent indexes an event of the store's file.
func (h *clusterHistory) addFileEvent(e *history.Event) {
	switch fact := e.Fact.(type) {
	case history.Compact:
		h.compacted = fact.Revision
	case history.Commit:
		c := h.byRevision[fact.Revision]
		if c == nil {
			h.byRevision[fact.Revision] = &commit{Commit: fact, Event: e, stored: true}
			return
		}
		c.stored = true
		if c.Created == 0 { // an older release did not record the content
			c.Content = fact.Content
		}
		c.differs = c.differs || c.Key != fact.Key || c.UID != fact.UID || c.Op != fact.Op || c.Object != fact.Object || c.Cause != e.Cause
	}
}

// linkCommits sorts the commits and links each to the version it replaced, its object, its
// operation and its pod.
func (h *clusterHistory) linkCommits() {
	for _, c := range h.byRevision {
		h.commits = append(h.commits, c)
	}
	slices.SortFunc(h.commits, func(a, b *commit) int { return cmp.Compare(a.Revision, b.Revision) })
	h.placeFileCommits()
	for _, c := range h.commits {
		c.object = h.objectOf(reference{c.Resource, c.Key})
		if was := h.byRevision[c.Previous]; was != nil && was.object == c.object && was.Revision < c.Revision {
			c.replaced = was // a damaged history may name any revision
		}
		c.object.versions = append(c.object.versions, c)
		h.byUID[c.UID] = append(h.byUID[c.UID], c)
		if c.operation = h.byID[c.Cause]; c.operation != nil {
			c.operation.commits = append(c.operation.commits, c)
		}
		if c.Resource == podResource {
			pod := h.podOf(c.UID, c.Key)
			pod.commits = append(pod.commits, c)
		}
	}
}

// commitsAfter returns the commits after a revision.
func (h *clusterHistory) commitsAfter(revision int64) []*commit {
	at, _ := slices.BinarySearchFunc(h.commits, revision, func(c *commit, revision int64) int {
		if c.Revision <= revision {
			return -1
		}
		return 1
	})
	return h.commits[at:]
}

// placeFileCommits estimates when the commits happened that only the store's file has: between the
// recorded commits before and after them. Commits after the last recorded one may have happened
// until the history ends.
func (h *clusterHistory) placeFileCommits() {
	began := int64(0)
	for _, c := range h.commits {
		if c.recorded {
			began = max(began, c.Began)
			continue
		}
		e := *c.Event
		e.Began, c.Event = began, &e
	}
	ended := h.latest
	for _, c := range slices.Backward(h.commits) {
		if c.recorded {
			ended = min(ended, c.Ended)
		} else {
			c.Ended = max(c.Began, ended)
		}
	}
}

// firstCompleteTime returns the monotonic time from which the history is complete.
func (h *clusterHistory) firstCompleteTime() (from int64) {
	for _, gap := range h.log.Gaps {
		if gap.From != 1 {
			continue
		}
		for _, e := range h.events {
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
func (h *clusterHistory) isComplete(pod *podHistory) bool {
	return len(pod.commits) > 0 && pod.commits[0].Op == added && pod.commits[0].recorded && pod.commits[0].Began >= h.completeFrom
}

// findCompletePods returns the pods that are in the history completely, in order of creation.
func (h *clusterHistory) findCompletePods() []*podHistory {
	pods := make([]*podHistory, 0, len(h.pods))
	for _, pod := range h.pods {
		if h.isComplete(pod) {
			pods = append(pods, pod)
		}
	}
	slices.SortFunc(pods, func(a, b *podHistory) int { return cmp.Compare(a.commits[0].Revision, b.commits[0].Revision) })
	return pods
}

// podOf returns the pod with a UID, and adds it if it is new.
func (h *clusterHistory) podOf(uid, name string) *podHistory {
	pod := h.pods[uid]
	if pod == nil {
		pod = &podHistory{uid: uid, name: name, containersByID: map[string]*container{}}
		h.pods[uid] = pod
	}
	if pod.name == "" {
		pod.name = name // a mount records only the UID of its pod
	}
	return pod
}

// containerOf returns the container with an id, and adds it if it is new.
func (h *clusterHistory) containerOf(of history.ContainerRef) *container {
	pod := h.podOf(of.UID, of.Pod)
	c := pod.containersByID[of.Container]
	if c == nil {
		c = &container{ContainerRef: of, pod: pod}
		pod.containersByID[of.Container] = c
		pod.containers = append(pod.containers, c)
	}
	return c
}

// addNodeEvent indexes an event of a node.
func (h *clusterHistory) addNodeEvent(e *history.Event) {
	add := func(to *[]*history.Event) { *to = append(*to, e) }
	switch fact := e.Fact.(type) {
	case history.KubeletSee:
		add(&h.podOf(fact.UID, fact.Pod).seen)
	case history.KubeletTerm:
		add(&h.podOf(fact.UID, fact.Pod).terms)
	case history.KubeletStuck:
		add(&h.podOf(fact.UID, fact.Pod).stuck)
	case history.KubeletStatus:
		add(&h.podOf(fact.UID, fact.Pod).statuses)
	case history.KubeletFinal:
		if fact.Err == "" {
			add(&h.podOf(fact.UID, fact.Pod).finals)
		}
	case history.Mount:
		add(&h.podOf(fact.UID, "").mounts)
	case history.Unmount:
		add(&h.podOf(fact.UID, "").mounts)
	case history.SandboxStop:
		add(&h.podOf(fact.UID, fact.Pod).sandboxes)
	case history.Blocker:
		add(&h.podOf(fact.UID, "").blockers)
	default:
		h.addContainerEvent(e)
	}
}

// addContainerEvent indexes an event about one container.
func (h *clusterHistory) addContainerEvent(e *history.Event) {
	add := func(to *[]*history.Event) { *to = append(*to, e) }
	switch fact := e.Fact.(type) {
	case history.Create:
		add(&h.containerOf(fact.ContainerRef).created)
	case history.Start:
		add(&h.containerOf(fact.ContainerRef).started)
	case history.Recover:
		h.containerOf(fact.ContainerRef).addTakeUp(e, fact)
	case history.Exit:
		add(&h.containerOf(fact.ContainerRef).exits)
	case history.Remove:
		add(&h.containerOf(fact.ContainerRef).removed)
	case history.PostStartBegin:
		add(&h.containerOf(fact.ContainerRef).postStarts)
	case history.PostStartEnd:
		add(&h.containerOf(fact.ContainerRef).postStartEnds)
	case history.PreStopBegin:
		add(&h.containerOf(fact.ContainerRef).preStops)
	case history.PreStopEnd:
		add(&h.containerOf(fact.ContainerRef).preStopEnds)
	case history.Signaling:
		add(&h.containerOf(fact.ContainerRef).signaling)
	case history.Signal:
		add(&h.containerOf(fact.ContainerRef).signals)
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
