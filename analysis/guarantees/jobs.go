package guarantees

import (
	"time"

	"github.com/podfall/podfall/internal/history"
)

// indexLabel is on each pod of an Indexed Job.
const indexLabel = "batch.kubernetes.io/job-completion-index"

// jobIndex is one of the indexes of a Job.
type index struct{ job, number string }

// checkOnePodPerIndex checks C10: the controllers create no pod for an index of a Job while another
// active pod has that index, unless they may not have known of that pod yet.
func onePerIndex(p *past, t *trial) {
	starts := p.starts(controllers)
	there, came := map[index]*commit{}, map[string]*commit{}
	for _, c := range p.commits {
		if c.Resource != podResource {
			continue
		}
		if c.before == nil || c.before.UID != c.UID || c.before.Owner != c.Owner || c.before.Labels[indexLabel] != c.Labels[indexLabel] {
			came[c.UID] = c
			if c.before != nil {
				leaves(there, c.before)
			}
		}
		if c.Op == deleted || c.Deadline != nil || ended(c) || c.Owner == "" || c.Labels[indexLabel] == "" {
			leaves(there, c)
			continue
		}
		at := index{c.Owner, c.Labels[indexLabel]}
		other := there[at]
		there[at] = c
		o := c.by
		if c.Op != added || !c.recorded || c.Began < p.from || o == nil || o.Who != controllers || begunAnew(starts, c) {
			continue
		}
		if other == nil {
			t.expect(true, "")
			continue
		}
		t.expect(p.unaware(came[other.UID], c), "an index of a Job was given to a pod while another pod had it", came[other.UID].Event, c.Event)
	}
}

// releaseIndex notes that a pod no longer works on its index.
func leaves(there map[index]*commit, c *commit) {
	at := index{c.Owner, c.Labels[indexLabel]}
	if known := there[at]; known != nil && known.UID == c.UID {
		delete(there, at)
	}
}

// wasUnanswered reports whether the client that requested a commit may not have known of an earlier
// one, because that was not answered yet, or only a moment before.
func unanswered(earlier, c *commit) bool {
	o := earlier.by
	return o == nil || len(o.returns) == 0 || o.returns[0].Ended+int64(time.Second) >= c.asked()
}

// checkPodsCountedOnce checks C11: a Job has never counted more pods than have ended, or have begun
// to end, since the Job owned them. Pods that the Job deleted count too if it decided on the delete
// before it heard that they were taken from it. A pod that was released and adopted again may be
// counted again.
func countedOnce(p *past, t *trial) {
	began := map[string]*commit{} // the Jobs that were made while somebody wrote it down
	pods := ends{left: map[string]int{}, gone: map[string]bool{}, taken: map[possession]bool{}, deletes: p.deletesOfJobs()}
	for _, c := range p.commits {
		switch {
		case c.Resource == podResource:
			pods.follow(c)
		case c.Counted == nil:
		case c.Op == added && c.recorded && c.Began >= p.from:
			began[c.UID] = c
		case began[c.UID] != nil && c.Op == modified:
			t.expect(int(*c.Counted) <= pods.left[c.UID], "a Job has counted more pods than have ended", began[c.UID].Event, c.Event)
		}
	}
}

// jobDeletes returns the deletes of pods that Jobs decided on, each with the pod's owner in the
// version that was read.
func (p *past) deletesOfJobs() map[*operation]string {
	all := map[*operation]string{}
	p.decidedOperations(func(d history.Decide, _ *history.Event, o *operation) {
		if d.Controller != jobController || d.Action != "delete" || d.Resource != podResource {
			return
		}
		if read := p.byRevision[number(d.ReadRevision)]; read != nil && read.Key == d.Key {
			all[o] = read.Owner
		}
	})
	return all
}

// ownership pairs an owner with a pod that it owns or owned.
type possession struct{ owner, pod string }

// endedPods holds which pods have ended, or have begun to end, as their owners may count them.
type ends struct {
	left  map[string]int      // by owner
	gone  map[string]bool     // the pods that count includes, since their owner owns them
	taken map[possession]bool // what was taken from its owner before it ended, and not given back
	// deletes maps the deletes that Jobs decided on to the owner they were decided for.
	deletes map[*operation]string
}

// add applies a change of a pod.
func (e ends) follow(c *commit) {
	if c.before == nil || c.before.Owner != c.Owner {
		if c.before != nil && c.before.Owner != "" && !e.gone[c.UID] {
			e.taken[possession{c.before.Owner, c.UID}] = true
		}
		delete(e.taken, possession{c.Owner, c.UID})
		delete(e.gone, c.UID)
	}
	if !e.gone[c.UID] && (c.Op == deleted || c.Deadline != nil || ended(c)) {
		e.gone[c.UID] = true
		e.left[c.Owner]++
	}
	if its := (possession{e.deletes[c.by], c.UID}); e.taken[its] {
		delete(e.taken, its)
		e.left[its.owner]++
	}
}
