package sim

import (
	"slices"
	"time"
)

// What users do to have pods change hands.
const (
	// Unlabel takes the label that a set selects its pods by off one of them: the Count-th by
	// name, as far as there are so many.
	Unlabel What = "unlabel pod of"
	// Relabel gives it back to all that have lost it.
	Relabel       What = "relabel pods of"
	DeleteDaemons What = "delete daemonset"
)

// claimDeeds have pods of sets change hands in a life of two: their labels are taken off and
// put on again, and in a life that has a DaemonSet that is deleted, and made again under its
// name. They draw from dice of their own.
func claimDeeds(seed uint64, until time.Duration, mode Mode) []Deed {
	if diceOf(seed, "claims", 0).one(2) {
		return nil
	}
	all := remadeDaemons(seed, until)
	sets := []string{replicaName, statefulName, daemonName}
	for n := range 1 + diceOf(seed, "claims", 1).below(6) {
		d := diceOf(seed, "claim", n)
		off := Deed{At: d.between(15*time.Second, until-lastCascade), Do: Unlabel, Name: pick(d, sets...), Count: int32(d.below(3))}
		all = append(all, off, Deed{At: off.At + whileAway(d), Do: Relabel, Name: off.Name})
	}
	for _, set := range sets { // one that is left in the way of its set's next pod would never be calm
		for _, at := range []time.Duration{until, until + retried} {
			if mode == Liveness {
				all = append(all, Deed{At: at, Do: Relabel, Name: set})
			}
		}
	}
	return all
}

// whileAway is how long an owner or a label is gone: so short that nobody notices, or not.
func whileAway(d *dice) time.Duration {
	return pick(d, d.between(0, 500*time.Millisecond), d.between(0, 15*time.Second), d.between(15*time.Second, 90*time.Second))
}

// remadeDaemons deletes the DaemonSet of a life, with its pods or without, and makes it again.
func remadeDaemons(seed uint64, until time.Duration) (all []Deed) {
	if !slices.ContainsFunc(daemonDeeds(seed, until), func(deed Deed) bool { return deed.Do == CreateDaemons }) {
		return nil
	}
	for n := range 1 + diceOf(seed, "remade daemons", 0).below(3) {
		d := diceOf(seed, "remade daemon", n)
		gone := Deed{At: d.between(time.Minute, until-lastCascade), Do: DeleteDaemons, Name: daemonName, Policy: pick(d, policies()...)}
		all = append(all, gone, Deed{
			At: gone.At + whileAway(d), Do: CreateDaemons, Name: daemonName, Grace: grace(d), App: app(d), Shape: setShape(d),
		})
	}
	return all
}
