package guarantees

import (
	"slices"
	"time"

	"github.com/podfall/podfall/internal/history"
)

// The resources of volumes that have to be attached.
const (
	volumeResource     = "persistentvolumes"
	attachmentResource = "volumeattachments.storage.k8s.io"
	nodeResource       = "nodes"
)

const (
	// forceDetachAfter is how long a volume must be unused before it is detached by force from an
	// unhealthy node (CTL-20), less a second for timers.
	forceDetachAfter = 6*time.Minute - time.Second
	// nodeInfoAge is how old a controller's knowledge of a node may be when it acts.
	nodeInfoAge = 2 * time.Minute
)

// mountSpan is the time during which a kubelet had a volume mounted.
type mountSpan struct {
	pod          *podHistory
	node, device string
	begin        *history.Event
	// end is nil if the volume was not unmounted.
	end *history.Event
}

// surelyCovers reports whether the volume was surely mounted when something happened.
func (m *mountSpan) surelyCovers(at *history.Event) bool {
	return before(m.begin, at) && (m.end == nil || m.end.Began > at.Ended)
}

// volumeHistory holds everything that was recorded about attachable volumes.
type volumeHistory struct {
	*clusterHistory

	// devices maps volumes to the names by which nodes know them. shared holds the volumes that may
	// be attached to several nodes.
	devices map[string]string
	shared  map[string]bool
	// complete holds the devices that are in the history completely.
	complete map[string]bool
	// attachments are in the order in which they were made.
	attachments []*attachment
	mounts      []*mountSpan
	nodes       map[string][]*commit
}

// attachment holds the history of one VolumeAttachment.
type attachment struct {
	made   *commit
	device string
	// attached is the commit that first reported the volume attached, leaves the first with a
	// deletionTimestamp, and gone the removal; nil for never.
	attached, leaves, gone *commit
}

func (a *attachment) is(device, node string) bool { return a.made.Host == node && a.device == device }

// volumes collects what was recorded about attachable volumes.
func (h *clusterHistory) volumes() *volumeHistory {
	s := &volumeHistory{clusterHistory: h, devices: map[string]string{}, shared: map[string]bool{}, complete: map[string]bool{}, nodes: map[string][]*commit{}}
	there := map[string]*attachment{}
	for _, c := range h.commits {
		switch c.Resource {
		case volumeResource:
			s.devices[c.Key] = c.Device
			s.complete[c.Device] = s.complete[c.Device] || c.Op == added && c.recorded && c.Began >= h.completeFrom
			s.shared[c.Key] = s.shared[c.Key] || c.Shared
		case nodeResource:
			s.nodes[c.Key] = append(s.nodes[c.Key], c)
		case attachmentResource:
			if c.Op == added {
				there[c.Key] = &attachment{made: c, device: s.devices[c.Volume]}
				s.attachments = append(s.attachments, there[c.Key])
			}
			if there[c.Key] != nil {
				there[c.Key].add(c)
			}
		}
	}
	for _, pod := range h.completePods() {
		s.mounts = append(s.mounts, pod.deviceMounts()...)
	}
	return s
}

// add applies a commit of the attachment.
func (a *attachment) add(c *commit) {
	if c.Attached && c.Deadline == nil && c.Op != deleted && a.attached == nil {
		a.attached = c
	}
	if (c.Deadline != nil || c.Op == deleted) && a.leaves == nil {
		a.leaves = c
	}
	if c.Op == deleted {
		a.gone = c
	}
}

// deviceMounts returns the pod's mounts of attached volumes.
func (pod *podHistory) deviceMounts() []*mountSpan {
	var all []*mountSpan
	open := map[string]*mountSpan{}
	for _, e := range pod.mounts {
		switch fact := e.Fact.(type) {
		case history.Mount:
			if fact.Device != "" && open[fact.Volume] == nil {
				open[fact.Volume] = &mountSpan{pod: pod, node: nodeOf(e.Process), device: fact.Device, begin: e}
				all = append(all, open[fact.Volume])
			}
		case history.Unmount:
			if m := open[fact.Volume]; m != nil {
				m.end = e
				delete(open, fact.Volume)
			}
		}
	}
	return all
}

// checkAttachments checks K16: a single-node volume is never attached to two nodes. It is detached
// under a mount only by force, and mounted only where it was reported attached.
func checkAttachments(h *clusterHistory, t *tally) {
	s := h.volumes()
	for i, a := range s.attachments {
		if s.isSingleNode(a) && h.isByControllers(a.made) {
			other := s.otherAttachment(a, i)
			t.expect(other == nil, "a volume for one node was attached to a second", eventOf(other), a.made.Event)
		}
		if a.leaves != nil && s.isSingleNode(a) && h.isByControllers(a.leaves) {
			s.checkDetach(t, a)
		}
	}
	for _, m := range s.mounts {
		if !s.complete[m.device] {
			continue
		}
		t.expect(s.wasAttached(m), "a volume was mounted that had not been reported attached to the node", m.begin)
		s.checkSingleMount(t, m)
	}
}

// isSingleNode reports whether an attachment belongs to a volume that is known to be for one node.
func (s *volumeHistory) isSingleNode(a *attachment) bool {
	return a.device != "" && !s.shared[a.made.Volume]
}

// isByControllers reports whether the controllers made a commit, and the history is complete from
// there on.
func (h *clusterHistory) isByControllers(c *commit) bool {
	return c.recorded && c.Began >= h.completeFrom && c.operation != nil && c.operation.Identity == controllers
}

// otherAttachment returns the attachment of the same volume to another node that existed when the
// i-th was made; nil for none.
func (s *volumeHistory) otherAttachment(a *attachment, i int) *commit {
	for _, other := range s.attachments[:i] {
		if other.made.Volume == a.made.Volume && other.made.Host != a.made.Host && (other.gone == nil || other.gone.Revision > a.made.Revision) {
			return other.made
		}
	}
	return nil
}

// checkDetach checks that an attachment leaves only a node that has not mounted the volume, or by
// force.
func (s *volumeHistory) checkDetach(t *tally, a *attachment) {
	t.cases++
	for _, m := range s.mounts {
		if m.device == a.device && m.node == a.made.Host && m.surelyCovers(a.leaves.Event) {
			t.expect(s.mayForceDetach(a.leaves, m), "a volume was detached from a node that had it mounted, and that was there, in service, and well or in use until then",
				m.begin, a.leaves.Event)
		}
	}
}

// mayForceDetach reports whether a mounted volume may have been detached: its node was gone, out of
// service, or unhealthy while nobody had used the volume for long.
func (s *volumeHistory) mayForceDetach(leaves *commit, m *mountSpan) bool {
	var last *commit
	for _, c := range s.nodes[m.node] {
		if c.Began > leaves.Ended {
			break
		}
		if last != nil && c.Ended >= leaves.requestedAt()-int64(nodeInfoAge) && s.allowsForceDetach(last, leaves, m) {
			return true
		}
		last = c
	}
	return last == nil || s.allowsForceDetach(last, leaves, m)
}

// allowsForceDetach reports whether a node in this state allows the detachment of a volume that it
// has mounted.
func (s *volumeHistory) allowsForceDetach(node, leaves *commit, m *mountSpan) bool {
	if node.Op == deleted || node.OutOfService {
		return true
	}
	var end *commit
	for _, c := range m.pod.commits {
		if c.Op == deleted || c.Deadline != nil || hasEnded(c) {
			end = c
			break
		}
	}
	if node.Ready || end == nil {
		return false
	}
	_, unused := elapsed(end.Event, leaves.Event)
	return unused >= forceDetachAfter || s.clockMayBeWrong("apiserver", end.Began, leaves.Ended) || s.clockMayBeWrong(controllers, end.Began, leaves.Ended)
}

// wasAttached reports whether a volume may have been reported attached to the node at some time
// since the pod that mounts it was created.
func (s *volumeHistory) wasAttached(m *mountSpan) bool {
	return slices.ContainsFunc(s.attachments, func(a *attachment) bool {
		return a.is(m.device, m.node) && a.attached != nil && a.attached.Began <= m.begin.Ended &&
			(a.leaves == nil || a.leaves.Ended >= m.pod.commits[0].Began)
	})
}

// checkSingleMount checks that a single-node volume is not mounted on two nodes, unless it was
// detached from one of them by force.
func (s *volumeHistory) checkSingleMount(t *tally, m *mountSpan) {
	for _, other := range s.mounts {
		if other.device != m.device || other.node == m.node || !other.surelyCovers(m.begin) {
			continue
		}
		t.expect(slices.ContainsFunc(s.attachments, func(a *attachment) bool {
			return a.is(m.device, other.node) && (s.shared[a.made.Volume] ||
				a.leaves != nil && before(other.begin, a.leaves.Event) && a.leaves.Began <= m.begin.Ended && s.mayForceDetach(a.leaves, other))
		}), "a volume for one node was mounted on two", other.begin, m.begin)
	}
}
