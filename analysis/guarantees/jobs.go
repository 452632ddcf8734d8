package guarantees

import (
	"time"

	"github.com/podfall/podfall/internal/history"
)

// indexLabel is on each pod of an Indexed Job.
const indexLabel = "batch.kubernetes.io/job-completion-index"

// jobIndex is one of the indexes of a Job.
type jobIndex struct{ job, number string }

// checkOnePodPerIndex checks C10: the controllers create no pod for an index of a Job while another
// active pod has that index, unless they may not have known of that pod yet.
func checkOnePodPerIndex(h *clusterHistory, t *tally) {
	starts := h.bootStarts(controllers)
	holders, ownedSince := map[jobIndex]*commit{}, map[string]*commit{}
	for _, c := range h.commits {
		if c.Resource != podResource {
			continue
		}
		if c.replaced == nil || c.replaced.UID != c.UID || c.replaced.Owner != c.Owner || c.replaced.Labels[indexLabel] != c.Labels[indexLabel] {
			ownedSince[c.UID] = c
			if c.replaced != nil {
				releaseIndex(holders, c.replaced)
			}
		}
		if c.Op == deleted || c.Deadline != nil || hasEnded(c) || c.Owner == "" || c.Labels[indexLabel] == "" {
			releaseIndex(holders, c)
			continue
		}
		index := jobIndex{c.Owner, c.Labels[indexLabel]}
		other := holders[index]
		holders[index] = c
		o := c.operation
		if c.Op != added || !c.recorded || c.Began < h.completeFrom || o == nil || o.Identity != controllers || mayHaveRestarted(starts, c) {
			continue
		}
		if other == nil {
			t.expect(true, "")
			continue
		}
		t.expect(h.mayNotKnowOwn(ownedSince[other.UID], c), "an index of a Job was given to a pod while another pod had it", ownedSince[other.UID].Event, c.Event)
	}
}

// releaseIndex notes that a pod no longer works on its index.
func releaseIndex(holders map[jobIndex]*commit, c *commit) {
	index := jobIndex{c.Owner, c.Labels[indexLabel]}
	if known := holders[index]; known != nil && known.UID == c.UID {
		delete(holders, index)
	}
}

// wasUnanswered reports whether the client that requested a commit may not have known of an earlier
// one, because that was not answered yet, or only a moment before.
func wasUnanswered(earlier, c *commit) bool {
	o := earlier.operation
	return o == nil || len(o.returns) == 0 || o.returns[0].Ended+int64(time.Second) >= c.requestedAt()
}

// checkPodsCountedOnce checks C11: a Job has never counted more pods than have ended, or have begun
// to end, since the Job owned them. Pods that the Job deleted count too if it decided on the delete
// before it heard that they were taken from it. A pod that was released and adopted again may be
// counted again.
func checkPodsCountedOnce(h *clusterHistory, t *tally) {
	jobs := map[string]*commit{} // the Jobs with a recorded creation
	pods := endedPods{count: map[string]int{}, counted: map[string]bool{}, taken: map[ownership]bool{}, deletes: h.jobDeletes()}
	for _, c := range h.commits {
		switch {
		case c.Resource == podResource:
			pods.add(c)
		case c.Counted == nil:
		case c.Op == added && c.recorded && c.Began >= h.completeFrom:
			jobs[c.UID] = c
		case jobs[c.UID] != nil && c.Op == modified:
			t.expect(int(*c.Counted) <= pods.count[c.UID], "a Job has counted more pods than have ended", jobs[c.UID].Event, c.Event)
		}
	}
}

// jobDeletes returns the deletes of pods that Jobs decided on, each with the pod's owner in the
// version that was read.
func (h *clusterHistory) jobDeletes() map[*operation]string {
	all := map[*operation]string{}
	h.eachDecision(func(d history.Decide, _ *history.Event, o *operation) {
		if d.Controller != jobController || d.Action != "delete" || d.Resource != podResource {
			return
		}
		if read := h.byRevision[parseRevision(d.ReadRevision)]; read != nil && read.Key == d.Key {
			all[o] = read.Owner
		}
	})
	return all
}

// ownership pairs an owner with a pod that it owns or owned.
type ownership struct{ owner, pod string }

// endedPods holds which pods have ended, or have begun to end, as their owners may count them.
type endedPods struct {
	count   map[string]int     // by owner
	counted map[string]bool    // the pods that count includes, since their owner owns them
	taken   map[ownership]bool // what was taken from its owner before it ended, and not given back
	// deletes maps the deletes that Jobs decided on to the owner they were decided for.
	deletes map[*operation]string
}

// add applies a change of a pod.
func (e endedPods) add(c *commit) {
	if c.replaced == nil || c.replaced.Owner != c.Owner {
		if c.replaced != nil && c.replaced.Owner != "" && !e.counted[c.UID] {
			e.taken[ownership{c.replaced.Owner, c.UID}] = true
		}
		delete(e.taken, ownership{c.Owner, c.UID})
		delete(e.counted, c.UID)
	}
	if !e.counted[c.UID] && (c.Op == deleted || c.Deadline != nil || hasEnded(c)) {
		e.counted[c.UID] = true
		e.count[c.Owner]++
	}
	if owned := (ownership{e.deletes[c.operation], c.UID}); e.taken[owned] {
		delete(e.taken, owned)
		e.count[owned.owner]++
	}
}
