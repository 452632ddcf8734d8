package guarantees

import (
	"time"

	"github.com/podfall/podfall/internal/history"
)

// indexLabel is on each pod of an Indexed Job.
const indexLabel = "batch.kubernetes.io/job-completion-index"

// index is one of the indexes of a Job.
type index struct{ job, number string }

// onePerIndex checks C10: the controllers make no pod for an index of a Job of which another pod is
// there that neither ends nor has ended, but for one that they may not have known yet.
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

// leaves notes that a pod does its index no more.
func leaves(there map[index]*commit, c *commit) {
	at := index{c.Owner, c.Labels[indexLabel]}
	if known := there[at]; known != nil && known.UID == c.UID {
		delete(there, at)
	}
}

// unanswered reports whether who asked for a commit may not have known of an earlier one, that was
// not answered yet, or only a moment before.
func unanswered(earlier, c *commit) bool {
	o := earlier.by
	return o == nil || len(o.returns) == 0 || o.returns[0].Ended+int64(time.Second) >= c.asked()
}

// countedOnce checks C11: a Job has never counted more pods than have ended, or have begun to, since
// they became its own, or by its own delete, which it decided on before it heard that they were taken
// from it. One that it released and adopted again it may count again.
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

// deletesOfJobs are the deletes of pods that Jobs decided on, each with the owner that its pod had in
// the version that was read.
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

// possession is an owner, and a pod that is or was its own.
type possession struct{ owner, pod string }

// ends is which pods have ended, or have begun to, as those who own them may count them.
type ends struct {
	left  map[string]int      // how many pods of an owner
	gone  map[string]bool     // the pods of which left knows, since they are their owner's
	taken map[possession]bool // what was taken from its owner before it ended, and not given back
	// deletes are the deletes that Jobs decided on, and for which owner.
	deletes map[*operation]string
}

// follow takes up a change of a pod.
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
