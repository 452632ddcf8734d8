package sim

import (
	"slices"
	"time"
)

// User actions that make pods change owners.
const (
	// Unlabel removes the selected label from the Count-th pod of a set by name, or from the last.
	Unlabel ActionKind = "unlabel pod of"
	// Relabel restores the label of all pods that have lost it.
	Relabel       ActionKind = "relabel pods of"
	DeleteDaemons ActionKind = "delete daemonset"
)

// drawClaimChanges makes pods change owners in one of two runs. Labels are removed and restored. In
// a run with a DaemonSet, the DaemonSet is deleted and created again with the same name. It uses
// its own dice.
func drawClaimChanges(seed uint64, until time.Duration, mode Mode) []Action {
	if newDice(seed, "claims", 0).oneIn(2) {
		return nil
	}
	all := drawDaemonSetRecreation(seed, until)
	sets := []string{replicaName, statefulName, daemonName}
	for n := range 1 + newDice(seed, "claims", 1).below(6) {
		d := newDice(seed, "claim", n)
		off := Action{At: d.between(15*time.Second, until-lastCascade), Kind: Unlabel, Name: pick(d, sets...), Count: int32(d.below(3))}
		all = append(all, off, Action{At: off.At + drawAbsence(d), Kind: Relabel, Name: off.Name})
	}
	for _, set := range sets { // one that is left in the way of its set's next pod would never be calm
		for _, at := range []time.Duration{until, until + retried} {
			if mode == Liveness {
				all = append(all, Action{At: at, Kind: Relabel, Name: set})
			}
		}
	}
	return all
}

// drawAbsence draws how long an owner or a label is missing; some absences are too short to be
// noticed.
func drawAbsence(d *dice) time.Duration {
	return pick(d, d.between(0, 500*time.Millisecond), d.between(0, 15*time.Second), d.between(15*time.Second, 90*time.Second))
}

// drawDaemonSetRecreation deletes the DaemonSet of a run, with its pods or without, and creates it
// again.
func drawDaemonSetRecreation(seed uint64, until time.Duration) (all []Action) {
	if !slices.ContainsFunc(drawDaemonSetActions(seed, until), func(action Action) bool { return action.Kind == CreateDaemons }) {
		return nil
	}
	for n := range 1 + newDice(seed, "remade daemons", 0).below(3) {
		d := newDice(seed, "remade daemon", n)
		gone := Action{At: d.between(time.Minute, until-lastCascade), Kind: DeleteDaemons, Name: daemonName, Policy: pick(d, propagationPolicies()...)}
		all = append(all, gone, Action{
			At: gone.At + drawAbsence(d), Kind: CreateDaemons, Name: daemonName, Grace: drawGrace(d), App: drawApp(d), Shape: drawSetShape(d),
		})
	}
	return all
}
