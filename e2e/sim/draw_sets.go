package sim

import "time"

// daemonName is that of a DaemonSet.
const daemonName = "agent"

// moreSets are the deeds about sets that only some lives have.
func moreSets(seed uint64, until time.Duration) []Deed {
	return daemonDeeds(seed, until)
}

// daemonDeeds make a DaemonSet in every other life, and take pods from it.
func daemonDeeds(seed uint64, until time.Duration) []Deed {
	d := diceOf(seed, "daemons", 0)
	if !d.one(2) {
		return nil
	}
	all := []Deed{{At: 10 * time.Second, Do: CreateDaemons, Name: daemonName, Grace: grace(d), App: app(d), Shape: setShape(d)}}
	for n := range 2 + d.below(5) {
		all = append(all, taken(diceOf(seed, "daemon", n), daemonName, time.Minute, until-time.Minute))
	}
	return all
}

// taken is a pod that a user takes from a set, now and then by force.
func taken(d *dice, set string, from, until time.Duration) Deed {
	return Deed{
		At: d.between(from, until), Do: DeleteOneOf, Name: set, Count: int32(d.below(3)),
		Grace: pick(d, nil, nil, grace(d), new(int64(0))),
	}
}
