package sim

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What users delete with all that hangs on it, and make again.
const (
	CreateNamespace What = "create namespace"
	DeleteNamespace What = "delete namespace"
	DeleteReplicas  What = "delete replicaset"
	DeleteStateful  What = "delete statefulset"
)

// policies are the ways in which what depends on an object goes with it, or stays.
func policies() []metav1.DeletionPropagation {
	return []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan}
}

const (
	// cascadePause is between two deletes of sets.
	cascadePause = 6 * time.Minute
	// lastCascade is how long before the end, or the calm, the last of them is.
	lastCascade = 3 * time.Minute
)

// cascades are the sets that users of every other life delete, with what depends on them or
// without, and make again under their names; where anything breaks, some of them while the
// controllers are down, which then know the owner from its dependents only. It draws from dice
// of its own.
func cascades(seed uint64, until time.Duration, deeds []Deed) []Deed {
	breaks := troubled(deeds)
	if diceOf(seed, "cascades", 0).one(2) {
		return nil
	}
	var all []Deed
	for n := 0; ; n++ {
		d := diceOf(seed, "cascade", n)
		at := 2*time.Minute + time.Duration(n)*cascadePause + d.between(0, cascadePause)
		if at > until-lastCascade {
			return all
		}
		gone := Deed{At: at, Do: DeleteReplicas, Name: replicaName, Policy: pick(d, policies()...)}
		made := Deed{Do: CreateReplicas, Name: replicaName, Count: int32(1 + d.below(3)), Grace: grace(d), App: app(d), Shape: setShape(d)}
		if d.one(2) {
			gone.Do, gone.Name, made.Do, made.Name = DeleteStateful, statefulName, CreateStateful, statefulName
		}
		made.At = at + pick(d, d.between(0, 500*time.Millisecond), d.between(0, 15*time.Second), d.between(15*time.Second, 90*time.Second))
		all = append(all, gone, made)
		if breaks && d.one(3) {
			all = append(all, Deed{At: at + d.between(-time.Second, time.Second), Do: Crash, Name: Controllers, For: d.between(time.Second, 20*time.Second)})
		}
	}
}

// place is the namespace of what a deed is about, and its name there: a name alone is in the
// first namespace, and shop/ant is ant in shop.
func (d Deed) place() (within, called string) {
	if within, called, is := strings.Cut(d.Name, "/"); is {
		return within, called
	}
	return namespace, d.Name
}

const (
	// shop is a second namespace, that comes and goes.
	shop = "shop"
	// shopPause is between two of its beginnings.
	shopPause = 8 * time.Minute
	// lastShop is how long before the end, or the calm, the last of it begins.
	lastShop = 6 * time.Minute
)

// shops is the second namespace of a life of three: pods and a set are made in it, some of
// them held, and it is deleted while there is still something made in it. It draws from dice
// of its own.
func shops(seed uint64, until time.Duration, mode Mode) []Deed {
	if !diceOf(seed, "shops", 0).one(3) {
		return nil
	}
	var all []Deed
	for n := 0; ; n++ {
		d := diceOf(seed, "shop", n)
		opens := 90*time.Second + time.Duration(n)*shopPause + d.between(0, shopPause/2)
		if opens > until-lastShop {
			break
		}
		made := shopFor(d, opens)
		all = append(append(all, made...), setsInShop(diceOf(seed, "sets in shop", n), made)...)
	}
	for _, at := range []time.Duration{until, until + retried} { // a pod may come late, when its user was not answered
		for _, pod := range podNames() {
			if mode == Liveness {
				all = append(all, Deed{At: at, Do: RemoveFinalizer, Name: shop + "/" + pod})
			}
		}
	}
	return all
}

// setsInShop are the sets that one time of it has beside a ReplicaSet; pods are taken from them,
// some are deleted before it is, and some come too late.
func setsInShop(d *dice, made []Deed) (all []Deed) {
	opens := made[slices.IndexFunc(made, func(deed Deed) bool { return deed.Do == CreateNamespace })].At
	closes := made[slices.IndexFunc(made, func(deed Deed) bool { return deed.Do == DeleteNamespace })].At
	within := func() time.Duration { return d.between(opens, closes+5*time.Second) }
	for _, kind := range []struct {
		set  Deed
		gone What
	}{
		{Deed{Do: CreateStateful, Name: statefulName, Count: int32(1 + d.below(3))}, DeleteStateful},
		{Deed{Do: CreateDaemons, Name: daemonName}, DeleteDaemons},
		{Deed{Do: CreateJob, Name: "task", Count: int32(1 + d.below(5))}, DeleteJob},
	} {
		set := kind.set
		if d.one(3) {
			continue
		}
		set.At, set.Name, set.Grace, set.App, set.Shape = within(), shop+"/"+set.Name, grace(d), app(d), setShape(d)
		if set.Do == CreateJob {
			set.App.Runs, set.App.Code = d.between(time.Second, time.Minute), 0
			demand(d, &set)
		}
		all = append(all, set)
		for range d.below(3) {
			one := taken(d, set.Name, opens, closes+5*time.Second)
			one.Do = pick(d, DeleteOneOf, DeleteOneOf, Unlabel)
			all = append(all, one)
		}
		if d.one(3) {
			all = append(all, Deed{At: within(), Do: kind.gone, Name: set.Name, Policy: pick(d, policies()...)})
		}
	}
	return append(all, Deed{At: within(), Do: ScaleStateful, Name: shop + "/" + statefulName, Count: int32(d.below(4))})
}

// shopFor is one time of it, of four minutes at most.
func shopFor(d *dice, opens time.Duration) []Deed {
	closes := opens + d.between(10*time.Second, 2*time.Minute)
	all := []Deed{
		{At: opens, Do: CreateNamespace, Name: shop},
		{
			At: opens + d.between(0, 5*time.Second), Do: CreateReplicas, Name: shop + "/" + replicaName, Count: int32(1 + d.below(3)),
			Grace: grace(d), App: app(d), Shape: setShape(d),
		},
		{At: closes, Do: DeleteNamespace, Name: shop},
	}
	for _, pod := range podNames() {
		deed := Deed{Do: CreatePod, Name: shop + "/" + pod, Grace: grace(d), App: app(d), Finalizer: d.one(4), Shape: setShape(d)}
		deed.At = opens + d.between(0, closes-opens+5*time.Second) // some come too late
		all = append(all, deed)
		if d.one(3) {
			all = append(all, Deed{At: closes + d.between(-5*time.Second, 10*time.Second), Do: pick(d, DeletePod, ForceDelete), Name: deed.Name})
		}
		if deed.Finalizer {
			all = append(all, Deed{At: closes + pick(d, d.between(0, 90*time.Second), 3*time.Minute), Do: RemoveFinalizer, Name: deed.Name})
		}
	}
	return all
}
