package sim

import (
	"slices"
	"time"
)

// daemonName is that of a DaemonSet.
const daemonName = "agent"

// drawOtherSets draws the actions on sets that only some runs have.
func drawOtherSets(seed uint64, until time.Duration) []Action {
	return slices.Concat(drawDaemonSetActions(seed, until), drawJobActions(seed, until), drawBudgetActions(seed, until), drawBudgetChanges(seed, until))
}

// drawDaemonSetActions creates a DaemonSet in one of three runs, and deletes pods of it.
func drawDaemonSetActions(seed uint64, until time.Duration) []Action {
	d := newDice(seed, "daemons", 0)
	if !d.oneIn(3) {
		return nil
	}
	all := []Action{{At: 10 * time.Second, Kind: CreateDaemons, Name: daemonName, Grace: drawGrace(d), App: drawApp(d), Shape: drawSetShape(d)}}
	for n := range 2 + d.below(5) {
		all = append(all, drawPodDeletion(newDice(seed, "daemon", n), daemonName, time.Minute, until-time.Minute))
	}
	return all
}

// drawBudgetActions gives sets a budget in one of three runs, and evicts their pods.
func drawBudgetActions(seed uint64, until time.Duration) (all []Action) {
	d := newDice(seed, "budgets", 0)
	if !d.oneIn(3) {
		return nil
	}
	for _, set := range []string{replicaName, statefulName} {
		if !d.oneIn(4) { // without one, nothing refuses an eviction
			all = append(all, Action{At: 11 * time.Second, Kind: CreateBudget, Name: set, Count: int32(d.below(3))})
		}
		for range d.below(8) {
			evicted := drawPodDeletion(d, set, 15*time.Second, until-time.Minute)
			evicted.Kind = EvictPodOf
			all = append(all, evicted)
			if d.oneIn(2) { // and another right after that
				evicted.At, evicted.Count = evicted.At+d.between(0, time.Second), evicted.Count+1
				all = append(all, evicted)
			}
		}
	}
	return all
}

// secondBudgetFor is how long a set has two budgets.
const secondBudgetFor = time.Minute

// drawBudgetChanges changes budgets, and evicts pods right after that, before the disruption
// controller has counted. It also gives some sets a second budget for a time: then no pod may be
// evicted. It uses its own dice.
func drawBudgetChanges(seed uint64, until time.Duration) (all []Action) {
	if !newDice(seed, "budgets", 0).oneIn(3) {
		return nil
	}
	for n, set := range []string{replicaName, statefulName} {
		d := newDice(seed, "guards", n)
		for range d.below(5) {
			changed := Action{
				At: d.between(time.Minute, until-2*time.Minute), Kind: ChangeBudget, Name: set, Count: int32(d.below(3)),
				Detail: pick(d, "", "AlwaysAllow", "IfHealthyBudget"),
			}
			all = append(all, changed, drawEviction(d, changed.At, set, 300*time.Millisecond), drawEviction(d, changed.At, set, secondBudgetFor))
		}
		if d.oneIn(2) {
			made := Action{At: d.between(time.Minute, until-2*time.Minute), Kind: CreateBudget, Name: set + secondSuffix, Count: int32(d.below(3))}
			gone := Action{At: made.At + secondBudgetFor, Kind: DeleteBudget, Name: made.Name}
			all = append(all, made, drawEviction(d, made.At, set, secondBudgetFor), drawEviction(d, made.At, set, secondBudgetFor), gone)
		}
	}
	return all
}

// drawEviction evicts a pod of a set within a time.
func drawEviction(d *dice, from time.Duration, set string, within time.Duration) Action {
	evicted := drawPodDeletion(d, set, from, from+within)
	evicted.Kind = EvictPodOf
	return evicted
}

// drawPodDeletion deletes a pod of a set, sometimes by force.
func drawPodDeletion(d *dice, set string, from, until time.Duration) Action {
	return Action{
		At: d.between(from, until), Kind: DeletePodOf, Name: set, Count: int32(d.below(3)),
		Grace: pick(d, nil, nil, drawGrace(d), new(int64(0))),
	}
}
