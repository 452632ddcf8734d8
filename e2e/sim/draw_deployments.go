package sim

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	deploymentName = "site"
	// templateVersions is how many templates a Deployment has in turn; it returns to old ones.
	templateVersions = 5
	// rolloutPause is the mean time between two user actions on the Deployment.
	rolloutPause = 3 * time.Minute
	// pausedFrom is how long after the end of faults a Deployment is paused for good.
	pausedFrom = 5 * time.Minute
)

// drawDeploymentActions creates a Deployment in one of four runs and rolls it out again and again,
// often before the last rollout is complete. It uses its own dice.
func drawDeploymentActions(seed uint64, until time.Duration, mode Mode, actions []Action) []Action {
	if !newDice(seed, "deployments", 0).oneIn(4) {
		return nil
	}
	breaks := hasFaults(actions)
	made := drawDeployment(seed, 0)
	made.At = 12 * time.Second
	all := []Action{made}
	for n := 0; ; n++ {
		d := newDice(seed, "rollout", n)
		at := 30*time.Second + time.Duration(n)*rolloutPause + d.between(0, rolloutPause)
		if at > until-lastCascade {
			break
		}
		all = append(all, drawRollout(d, seed, at)...)
		if breaks && d.oneIn(6) {
			all = append(all, Action{At: at + d.between(0, 10*time.Second), Kind: Crash, Name: Controllers, For: d.between(50*time.Millisecond, 20*time.Second)})
		}
	}
	all = append(all, drawDeploymentsInShop(seed, actions)...)
	if mode == Liveness {
		all = append(all, drawLastRollout(seed, until)...)
	}
	return all
}

// drawDeployment returns the n-th Deployment of that name.
func drawDeployment(seed uint64, n int) Action {
	d := newDice(seed, "deployment", n)
	made := setVersion(seed, d.below(templateVersions))
	made.Kind, made.Count = CreateDeployment, int32(2+d.below(3))
	its := &made.Shape.Rollout
	its.Ready = pick[int32](d, 0, 0, 3)
	its.History = pick(d, nil, new(int32(0)), new(int32(1)), new(int32(3)))
	its.Deadline = pick(d, nil, new(int32(20)), new(int32(60)))
	if its.Recreate = usesRecreate(seed); its.Recreate {
		return made
	}
	its.Surge, its.Unavailable = pick(d, "", "0", "1", "2", "50%", "100%"), pick(d, "", "1", "1", "2", "50%")
	if its.Surge != "0" && its.Surge != "" {
		its.Unavailable = pick(d, "0", its.Unavailable)
	}
	return made
}

// hasCrashingVersions reports whether some versions of the run's Deployment crash again and again.
// In other runs its pods change owners: a crashing pod without an owner would crash for ever.
func hasCrashingVersions(seed uint64) bool { return newDice(seed, "deployments", 1).oneIn(2) }

// usesRecreate reports whether the Deployments of a run use the strategy Recreate. With that
// strategy, a Deployment that has two sets with pods, and was resized since, waits for ever, as
// upstream: its sets are not scaled, and nothing is rolled out until a user scales them. So no
// Deployment of the other strategy comes before, and none leaves a set behind that the next could
// adopt.
func usesRecreate(seed uint64) bool { return newDice(seed, "deployments", 2).oneIn(4) }

// setVersion gives a Deployment a version. The first version is healthy.
func setVersion(seed uint64, version int) Action {
	d := newDice(seed, "version", version)
	action := Action{Kind: RollOut, Name: deploymentName, Grace: drawGrace(d), App: drawApp(d), Shape: drawSetShape(newDice(seed, "version", templateVersions))}
	if version > 0 && hasCrashingVersions(seed) && d.oneIn(3) {
		action.App = App{Runs: d.between(time.Second, 5*time.Second), Code: codeFails}
	}
	action.Shape.Rollout.Version = version
	return action
}

// drawRollout draws one burst of user actions on a Deployment.
func drawRollout(d *dice, seed uint64, at time.Duration) []Action {
	rolled := setVersion(seed, d.below(templateVersions))
	rolled.At = at
	scaled := Action{At: at, Kind: ScaleDeployment, Name: deploymentName, Count: int32(d.below(6))}
	soon := at + pick(d, d.between(0, time.Second), d.between(0, 30*time.Second))
	switch roll := d.below(100); {
	case roll < 25:
		again := setVersion(seed, d.below(templateVersions)) // before the other is over
		again.At = soon
		return []Action{rolled, again}
	case roll < 40:
		scaled.At = soon
		return []Action{rolled, scaled}
	case roll < 60:
		evicted := drawPodDeletion(d, deploymentName, at, at+20*time.Second)
		evicted.Kind = EvictPodOf
		return []Action{rolled, drawPodDeletion(d, deploymentName, at, at+20*time.Second), evicted}
	case roll < 70:
		return []Action{scaled}
	case roll < 80:
		return drawPausedRollout(d, rolled, scaled, soon)
	case roll < 85:
		return []Action{{At: at, Kind: RollBack, Name: deploymentName}}
	case roll < 92, hasCrashingVersions(seed):
		gone := Action{At: at, Kind: DeleteDeployment, Name: deploymentName, Policy: pick(d, propagationPolicies()...)}
		if gone.Policy == metav1.DeletePropagationOrphan && usesRecreate(seed) {
			gone.Policy = metav1.DeletePropagationBackground
		}
		again := drawDeployment(seed, 1+d.below(3))
		again.At = at + drawAbsence(d)
		return []Action{gone, again}
	}
	off := Action{At: at, Kind: Unlabel, Name: deploymentName, Count: int32(d.below(3))}
	return []Action{rolled, off, {At: at + drawAbsence(d), Kind: Relabel, Name: deploymentName}}
}

// drawPausedRollout pauses a Deployment, sometimes after all its pods were deleted, rolls it out
// and scales it soon after, and resumes it.
func drawPausedRollout(d *dice, rolled, scaled Action, soon time.Duration) []Action {
	held := Action{At: rolled.At, Kind: PauseRollout, Name: deploymentName}
	all := []Action{held, {At: held.At + drawAbsence(d), Kind: ResumeRollout, Name: deploymentName}}
	rolled.At, scaled.At = soon, soon+d.between(0, time.Second)
	if d.oneIn(2) {
		all = append(all, Action{At: held.At - d.between(0, 15*time.Second), Kind: ScaleDeployment, Name: deploymentName})
	}
	return append(all, rolled, scaled)
}

// drawDeploymentsInShop draws the Deployments of the second namespace.
func drawDeploymentsInShop(seed uint64, actions []Action) (all []Action) {
	for n, opens := range actions {
		if opens.Kind != CreateNamespace {
			continue
		}
		d := newDice(seed, "rollout in shop", n)
		made, rolled := drawDeployment(seed, d.below(4)), setVersion(seed, d.below(templateVersions))
		made.Name, rolled.Name = shop+"/"+made.Name, shop+"/"+rolled.Name
		made.At = opens.At + d.between(0, time.Minute)
		rolled.At = made.At + d.between(0, time.Minute)
		all = append(all, made, rolled)
	}
	return all
}

// drawLastRollout brings a Deployment to a complete rollout. Some Deployments are paused later, and
// a later version then has to wait unless there are no pods. In that case the existing set of that
// version is scaled, so it must be healthy.
func drawLastRollout(seed uint64, until time.Duration) (all []Action) {
	for _, at := range []time.Duration{until, until + retried} { // it may come late, when its user was not answered
		good := setVersion(seed, 0)
		good.At = at
		all = append(all, good, Action{At: at, Kind: ResumeRollout, Name: deploymentName}, Action{At: at, Kind: Relabel, Name: deploymentName})
	}
	d := newDice(seed, "last rollout", 0)
	if until/3 < 2*pausedFrom || hasCrashingVersions(seed) || d.oneIn(3) {
		return all
	}
	waits := setVersion(seed, 1+d.below(templateVersions-1))
	waits.At = until + pausedFrom + time.Minute
	return append(
		all, Action{At: until + pausedFrom, Kind: PauseRollout, Name: deploymentName}, waits,
		Action{At: waits.At + d.between(0, time.Minute), Kind: ScaleDeployment, Name: deploymentName, Count: int32(d.below(6))},
	)
}
