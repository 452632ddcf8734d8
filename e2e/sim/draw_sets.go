package sim

import (
	"slices"
	"time"
)

// daemonName is that of a DaemonSet.
const daemonName = "agent"

// moreSets are the deeds about sets that only some lives have.
func moreSets(seed uint64, until time.Duration) []Deed {
	return slices.Concat(daemonDeeds(seed, until), jobDeeds(seed, until), budgetDeeds(seed, until), guardDeeds(seed, until))
}

// daemonDeeds make a DaemonSet in a life of three, and take pods from it.
func daemonDeeds(seed uint64, until time.Duration) []Deed {
	d := diceOf(seed, "daemons", 0)
	if !d.one(3) {
		return nil
	}
	all := []Deed{{At: 10 * time.Second, Do: CreateDaemons, Name: daemonName, Grace: grace(d), App: app(d), Shape: setShape(d)}}
	for n := range 2 + d.below(5) {
		all = append(all, taken(diceOf(seed, "daemon", n), daemonName, time.Minute, until-time.Minute))
	}
	return all
}

// budgetDeeds give sets a budget in a life of three, and evict their pods.
func budgetDeeds(seed uint64, until time.Duration) (all []Deed) {
	d := diceOf(seed, "budgets", 0)
	if !d.one(3) {
		return nil
	}
	for _, set := range []string{replicaName, statefulName} {
		if !d.one(4) { // without one, nothing refuses an eviction
			all = append(all, Deed{At: 11 * time.Second, Do: CreateBudget, Name: set, Count: int32(d.below(3))})
		}
		for range d.below(8) {
			evicted := taken(d, set, 15*time.Second, until-time.Minute)
			evicted.Do = EvictOneOf
			all = append(all, evicted)
			if d.one(2) { // and another right after that
				evicted.At, evicted.Count = evicted.At+d.between(0, time.Second), evicted.Count+1
				all = append(all, evicted)
			}
		}
	}
	return all
}

// secondFor is how long a set has two budgets.
const secondFor = time.Minute

// guardDeeds change the budgets of the lives that have some, and evict pods right after that, when
// nobody has counted yet; and they give some sets a second one for a time, in which no pod may
// be evicted. They draw from dice of their own.
func guardDeeds(seed uint64, until time.Duration) (all []Deed) {
	if !diceOf(seed, "budgets", 0).one(3) {
		return nil
	}
	for n, set := range []string{replicaName, statefulName} {
		d := diceOf(seed, "guards", n)
		for range d.below(5) {
			changed := Deed{
				At: d.between(time.Minute, until-2*time.Minute), Do: ChangeBudget, Name: set, Count: int32(d.below(3)),
				Ways: pick(d, "", "AlwaysAllow", "IfHealthyBudget"),
			}
			all = append(all, changed, evictedSoon(d, changed.At, set, 300*time.Millisecond), evictedSoon(d, changed.At, set, secondFor))
		}
		if d.one(2) {
			made := Deed{At: d.between(time.Minute, until-2*time.Minute), Do: CreateBudget, Name: set + second, Count: int32(d.below(3))}
			gone := Deed{At: made.At + secondFor, Do: DeleteBudget, Name: made.Name}
			all = append(all, made, evictedSoon(d, made.At, set, secondFor), evictedSoon(d, made.At, set, secondFor), gone)
		}
	}
	return all
}

// evictedSoon is a pod of a set that is evicted within some time.
func evictedSoon(d *dice, from time.Duration, set string, within time.Duration) Deed {
	evicted := taken(d, set, from, from+within)
	evicted.Do = EvictOneOf
	return evicted
}

// taken is a pod that a user takes from a set, now and then by force.
func taken(d *dice, set string, from, until time.Duration) Deed {
	return Deed{
		At: d.between(from, until), Do: DeleteOneOf, Name: set, Count: int32(d.below(3)),
		Grace: pick(d, nil, nil, grace(d), new(int64(0))),
	}
}
