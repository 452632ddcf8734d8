package guarantees

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/podfall/podfall/internal/history"
)

const budgetResource = "poddisruptionbudgets.policy"

// withinBudget checks C9: a pod that a budget covers is evicted when that allows a disruption,
// which is taken from it in the same operation, or when the budget lets pods go that are not
// ready; and none is evicted that two budgets cover. Of a pod that has not begun, that has
// ended, or that is being deleted no budget is asked.
func withinBudget(p *past, t *trial) {
	budgets := map[string][]*object{} // by namespace, and by name
	for of, one := range p.objects {
		if of.resource == budgetResource {
			budgets[one.namespace] = append(budgets[one.namespace], one)
		}
	}
	for _, all := range budgets {
		slices.SortFunc(all, func(a, b *object) int { return strings.Compare(a.name, b.name) })
	}
	for _, e := range p.effects() {
		if e.Verb != "create" || e.Subresource != "eviction" || e.prior == nil || e.prior.Deadline != nil || !e.begins() {
			continue
		}
		switch e.prior.Phase {
		case "Pending", "Succeeded", "Failed":
			continue
		}
		e.allowed(t, budgets[e.prior.of.namespace])
	}
}

// begins reports whether an operation marks or removes its pod.
func (e effect) begins() bool {
	return slices.ContainsFunc(e.made, func(c *commit) bool { return c.Deadline != nil || c.Op == deleted })
}

// allowed checks the eviction of a pod against the budgets of its namespace. That which is
// spent was not changed between being looked at and being written; of others, all versions
// may have been looked at that there were since the request came.
func (e effect) allowed(t *trial, budgets []*object) {
	var guards []*commit
	passes := false
	for _, one := range budgets {
		looked, whole := reigning(one.versions, e.calls[0], e.made[0].Revision)
		if whole && !slices.ContainsFunc(looked, func(v *commit) bool { return !v.guards(e.prior) }) {
			guards = append(guards, looked[len(looked)-1])
			passes = slices.ContainsFunc(looked, func(v *commit) bool { return v.passes(e.prior) })
		}
	}
	if len(guards) > 1 {
		t.expect(false, "a pod was evicted that more than one budget covers", e.against(guards[0].Event, guards[1].Event)...)
		return
	}
	if spent := e.spent(); spent != nil {
		e.within(t, spent)
	} else if len(guards) == 1 {
		t.expect(passes, "a pod was evicted that a budget covers, and no disruption was taken from that", e.against(guards[0].Event)...)
	}
}

// spent is the commit of a budget that belongs to the eviction; nil for none.
func (e effect) spent() (spent *commit) {
	for _, c := range e.commits {
		if c.Resource == budgetResource && c.Revision < e.made[0].Revision {
			spent = c
		}
	}
	return spent
}

// within checks that a budget which an eviction has spent allowed that.
func (e effect) within(t *trial, spent *commit) {
	was := spent.before
	if was == nil || was.Budget == nil || spent.Budget == nil {
		return // of a history that does not tell
	}
	against := e.against(was.Event, spent.Event)
	t.expect(was.guards(e.prior), "an eviction was taken from a budget that does not cover the pod", against...)
	t.expect(was.Budget.Allowed > 0, "a pod was evicted whose budget allowed no disruption", against...)
	t.expect(was.Budget.Observed >= was.Generation, "a pod was evicted by what its budget had allowed before it was changed", against...)
	t.expect(spent.Budget.Allowed == was.Budget.Allowed-1, "a pod was evicted, and another number of disruptions than one was taken from its budget", against...)
}

// guards reports whether a version of a budget surely covers a pod.
func (c *commit) guards(pod *commit) bool {
	if c.Op == deleted || c.Budget == nil || c.Budget.Selector == "" && !c.Budget.All {
		return false
	}
	selector, err := labels.Parse(c.Budget.Selector)
	return err == nil && selector.Matches(labels.Set(pod.Labels))
}

// passes reports whether a budget lets a pod go without being spent: one that is not ready, if
// the budget says so or has as many that are healthy as it desires.
func (c *commit) passes(pod *commit) bool {
	b := c.Budget
	return !pod.Ready && (b.AlwaysAllow || b.Desired > 0 && b.Healthy >= b.Desired)
}

// reigning are the versions of an object that may have been looked at from an event on until a
// revision; false when none was surely there at the event.
func reigning(versions []*commit, from *history.Event, until int64) (looked []*commit, whole bool) {
	for _, v := range versions {
		switch {
		case v.Revision >= until:
			return looked, whole
		case before(v.Event, from):
			looked, whole = []*commit{v}, true
		default:
			looked = append(looked, v)
		}
	}
	return looked, whole
}
