package guarantees

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/podfall/podfall/internal/history"
)

const budgetResource = "poddisruptionbudgets.policy"

// checkEvictionBudget checks C9. A pod that a budget covers is evicted only if the budget allows a
// disruption, which the same operation takes from it, or if the budget passes unready pods. A pod
// that two budgets cover is never evicted. Pods that have not begun, have ended or are being
// deleted need no budget.
func checkEvictionBudget(h *clusterHistory, t *tally) {
	budgets := map[string][]*object{} // by namespace, sorted by name
	for of, one := range h.objects {
		if of.resource == budgetResource {
			budgets[one.namespace] = append(budgets[one.namespace], one)
		}
	}
	for _, all := range budgets {
		slices.SortFunc(all, func(a, b *object) int { return strings.Compare(a.name, b.name) })
	}
	for _, e := range h.effects() {
		if e.Verb != "create" || e.Subresource != "eviction" || e.prior == nil || e.prior.Deadline != nil || !e.startsDeletion() {
			continue
		}
		switch e.prior.Phase {
		case "Pending", "Succeeded", "Failed":
			continue
		}
		e.checkBudgets(t, budgets[e.prior.object.namespace])
	}
}

// startsDeletion reports whether an operation marks or removes its pod.
func (e effect) startsDeletion() bool {
	return slices.ContainsFunc(e.made, func(c *commit) bool { return c.Deadline != nil || c.Op == deleted })
}

// checkBudgets checks the eviction of a pod against the budgets of its namespace. The budget that
// was charged did not change between being read and being written. Of the others, any version since
// the request began may have been read.
func (e effect) checkBudgets(t *tally, budgets []*object) {
	var guards []*commit
	passes := false
	for _, one := range budgets {
		versions, complete := versionsBetween(one.versions, e.calls[0], e.made[0].Revision)
		if complete && !slices.ContainsFunc(versions, func(v *commit) bool { return !v.covers(e.prior) }) {
			guards = append(guards, versions[len(versions)-1])
			passes = slices.ContainsFunc(versions, func(v *commit) bool { return v.passesUnready(e.prior) })
		}
	}
	if len(guards) > 1 {
		t.expect(false, "a pod was evicted that more than one budget covers", e.evidence(guards[0].Event, guards[1].Event)...)
		return
	}
	if charged := e.chargedBudget(); charged != nil {
		e.checkChargedBudget(t, charged)
	} else if len(guards) == 1 {
		t.expect(passes, "a pod was evicted that a budget covers, and no disruption was taken from that", e.evidence(guards[0].Event)...)
	}
}

// chargedBudget returns the commit that charged a budget for the eviction; nil for none.
func (e effect) chargedBudget() (charged *commit) {
	for _, c := range e.commits {
		if c.Resource == budgetResource && c.Revision < e.made[0].Revision {
			charged = c
		}
	}
	return charged
}

// checkChargedBudget checks that the charged budget allowed the eviction.
func (e effect) checkChargedBudget(t *tally, charged *commit) {
	before := charged.replaced
	if before == nil || before.Budget == nil || charged.Budget == nil {
		return // an older release did not record budgets
	}
	against := e.evidence(before.Event, charged.Event)
	t.expect(before.covers(e.prior), "an eviction was taken from a budget that does not cover the pod", against...)
	t.expect(before.Budget.Allowed > 0, "a pod was evicted whose budget allowed no disruption", against...)
	t.expect(before.Budget.Observed >= before.Generation, "a pod was evicted by what its budget had allowed before it was changed", against...)
	t.expect(charged.Budget.Allowed == before.Budget.Allowed-1, "a pod was evicted, and another number of disruptions than one was taken from its budget", against...)
}

// covers reports whether a version of a budget surely covers a pod.
func (c *commit) covers(pod *commit) bool {
	if c.Op == deleted || c.Budget == nil || c.Budget.Selector == "" && !c.Budget.All {
		return false
	}
	selector, err := labels.Parse(c.Budget.Selector)
	return err == nil && selector.Matches(labels.Set(pod.Labels))
}

// passesUnready reports whether a budget lets an unready pod be evicted without a charge: the
// budget always allows it, or has as many healthy pods as it desires.
func (c *commit) passesUnready(pod *commit) bool {
	b := c.Budget
	return !pod.Ready && (b.AlwaysAllow || b.Desired > 0 && b.Healthy >= b.Desired)
}

// versionsBetween returns the versions of an object that may have been read between an event and a
// revision. complete is false if no version surely existed at the event.
func versionsBetween(versions []*commit, from *history.Event, until int64) (between []*commit, complete bool) {
	for _, v := range versions {
		switch {
		case v.Revision >= until:
			return between, complete
		case before(v.Event, from):
			between, complete = []*commit{v}, true
		default:
			between = append(between, v)
		}
	}
	return between, complete
}
