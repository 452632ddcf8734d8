package sim

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// deploymentName is that of a Deployment.
	deploymentName = "site"
	// versions are how many templates it has one after the other: it comes back to old ones.
	versions = 5
	// rolloutPause is between two things that users do to it.
	rolloutPause = 3 * time.Minute
	// pausedFrom is how long after all trouble one is paused for good.
	pausedFrom = 5 * time.Minute
)

// deploymentDeeds make a Deployment in a life of four, and roll it out again and again, often
// before it is rolled out; they draw from dice of their own.
func deploymentDeeds(seed uint64, until time.Duration, mode Mode, deeds []Deed) []Deed {
	if !diceOf(seed, "deployments", 0).one(4) {
		return nil
	}
	breaks := troubled(deeds)
	made := deploymentOf(seed, 0)
	made.At = 12 * time.Second
	all := []Deed{made}
	for n := 0; ; n++ {
		d := diceOf(seed, "rollout", n)
		at := 30*time.Second + time.Duration(n)*rolloutPause + d.between(0, rolloutPause)
		if at > until-lastCascade {
			break
		}
		all = append(all, rolloutDeeds(d, seed, at)...)
		if breaks && d.one(6) {
			all = append(all, Deed{At: at + d.between(0, 10*time.Second), Do: Crash, Name: Controllers, For: d.between(50*time.Millisecond, 20*time.Second)})
		}
	}
	all = append(all, rolloutsInShop(seed, deeds)...)
	if mode == Liveness {
		all = append(all, lastRollout(seed, until)...)
	}
	return all
}

// deploymentOf is the n-th Deployment of that name.
func deploymentOf(seed uint64, n int) Deed {
	d := diceOf(seed, "deployment", n)
	made := versionOf(seed, d.below(versions))
	made.Do, made.Count = CreateDeployment, int32(2+d.below(3))
	its := &made.Shape.Rollout
	its.Ready = pick[int32](d, 0, 0, 3)
	its.History = pick(d, nil, new(int32(0)), new(int32(1)), new(int32(3)))
	its.Deadline = pick(d, nil, new(int32(20)), new(int32(60)))
	if its.Recreate = recreates(seed); its.Recreate {
		return made
	}
	its.Surge, its.Unavailable = pick(d, "", "0", "1", "2", "50%", "100%"), pick(d, "", "1", "1", "2", "50%")
	if its.Surge != "0" && its.Surge != "" {
		its.Unavailable = pick(d, "0", its.Unavailable)
	}
	return made
}

// frail reports whether some versions of a life's Deployment are of an application that ends again
// and again. In the other lives its pods change hands: one that nobody takes back would end for ever.
func frail(seed uint64) bool { return diceOf(seed, "deployments", 1).one(2) }

// recreates reports whether the Deployments of a life are of the strategy Recreate. One of that strategy
// that has two sets with pods, and is of another size than they were made for, waits for ever: nobody
// scales them, and until somebody does nothing is rolled out, as upstream. So none of the other strategy
// is before it, and none leaves a set behind, which the next may adopt after it has made its own.
func recreates(seed uint64) bool { return diceOf(seed, "deployments", 2).one(4) }

// versionOf has a Deployment be of a version. The first is fine.
func versionOf(seed uint64, version int) Deed {
	d := diceOf(seed, "version", version)
	deed := Deed{Do: RollOut, Name: deploymentName, Grace: grace(d), App: app(d), Shape: setShape(diceOf(seed, "version", versions))}
	if version > 0 && frail(seed) && d.one(3) {
		deed.App = App{Runs: d.between(time.Second, 5*time.Second), Code: codeFails}
	}
	deed.Shape.Rollout.Version = version
	return deed
}

// rolloutDeeds are what users do to a Deployment in one go.
func rolloutDeeds(d *dice, seed uint64, at time.Duration) []Deed {
	rolled := versionOf(seed, d.below(versions))
	rolled.At = at
	scaled := Deed{At: at, Do: ScaleDeployment, Name: deploymentName, Count: int32(d.below(6))}
	soon := at + pick(d, d.between(0, time.Second), d.between(0, 30*time.Second))
	switch roll := d.below(100); {
	case roll < 25:
		again := versionOf(seed, d.below(versions)) // before the other is over
		again.At = soon
		return []Deed{rolled, again}
	case roll < 40:
		scaled.At = soon
		return []Deed{rolled, scaled}
	case roll < 60:
		evicted := taken(d, deploymentName, at, at+20*time.Second)
		evicted.Do = EvictOneOf
		return []Deed{rolled, taken(d, deploymentName, at, at+20*time.Second), evicted}
	case roll < 70:
		return []Deed{scaled}
	case roll < 80:
		return heldDeeds(d, rolled, scaled, soon)
	case roll < 85:
		return []Deed{{At: at, Do: RollBack, Name: deploymentName}}
	case roll < 92, frail(seed):
		gone := Deed{At: at, Do: DeleteDeployment, Name: deploymentName, Policy: pick(d, policies()...)}
		if gone.Policy == metav1.DeletePropagationOrphan && recreates(seed) {
			gone.Policy = metav1.DeletePropagationBackground
		}
		again := deploymentOf(seed, 1+d.below(3))
		again.At = at + whileAway(d)
		return []Deed{gone, again}
	}
	off := Deed{At: at, Do: Unlabel, Name: deploymentName, Count: int32(d.below(3))}
	return []Deed{rolled, off, {At: at + whileAway(d), Do: Relabel, Name: deploymentName}}
}

// heldDeeds pause a Deployment, some after all its pods were taken from it, roll it out and scale it soon
// after that, and let it go on.
func heldDeeds(d *dice, rolled, scaled Deed, soon time.Duration) []Deed {
	held := Deed{At: rolled.At, Do: PauseRollout, Name: deploymentName}
	all := []Deed{held, {At: held.At + whileAway(d), Do: ResumeRollout, Name: deploymentName}}
	rolled.At, scaled.At = soon, soon+d.between(0, time.Second)
	if d.one(2) {
		all = append(all, Deed{At: held.At - d.between(0, 15*time.Second), Do: ScaleDeployment, Name: deploymentName})
	}
	return append(all, rolled, scaled)
}

// rolloutsInShop are the Deployments of the namespace that comes and goes.
func rolloutsInShop(seed uint64, deeds []Deed) (all []Deed) {
	for n, opens := range deeds {
		if opens.Do != CreateNamespace {
			continue
		}
		d := diceOf(seed, "rollout in shop", n)
		made, rolled := deploymentOf(seed, d.below(4)), versionOf(seed, d.below(versions))
		made.Name, rolled.Name = shop+"/"+made.Name, shop+"/"+rolled.Name
		made.At = opens.At + d.between(0, time.Minute)
		rolled.At = made.At + d.between(0, time.Minute)
		all = append(all, made, rolled)
	}
	return all
}

// lastRollout brings a Deployment to a good end. Some are paused later, and a version that comes
// then has to wait, unless there are no pods: its set is the one that is scaled then, if it is there
// from before, so it must be fine.
func lastRollout(seed uint64, until time.Duration) (all []Deed) {
	for _, at := range []time.Duration{until, until + retried} { // it may come late, when its user was not answered
		good := versionOf(seed, 0)
		good.At = at
		all = append(all, good, Deed{At: at, Do: ResumeRollout, Name: deploymentName}, Deed{At: at, Do: Relabel, Name: deploymentName})
	}
	d := diceOf(seed, "last rollout", 0)
	if until/3 < 2*pausedFrom || frail(seed) || d.one(3) {
		return all
	}
	waits := versionOf(seed, 1+d.below(versions-1))
	waits.At = until + pausedFrom + time.Minute
	return append(
		all, Deed{At: until + pausedFrom, Do: PauseRollout, Name: deploymentName}, waits,
		Deed{At: waits.At + d.between(0, time.Minute), Do: ScaleDeployment, Name: deploymentName, Count: int32(d.below(6))},
	)
}
