package sim

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Cascading deletions by users, and the creations between them.
const (
	CreateNamespace ActionKind = "create namespace"
	DeleteNamespace ActionKind = "delete namespace"
	DeleteReplicas  ActionKind = "delete replicaset"
	DeleteStateful  ActionKind = "delete statefulset"
)

// propagationPolicies returns the propagation policies.
func propagationPolicies() []metav1.DeletionPropagation {
	return []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan}
}

const (
	// cascadePause is the mean time between two deletions of sets.
	cascadePause = 6 * time.Minute
	// lastCascade is how long before the end, or the end of faults, the last such deletion is.
	lastCascade = 3 * time.Minute
)

// drawCascades makes users of every other run delete sets, with dependents or without, and create
// them again with the same names. In runs with faults some deletions happen while the controllers
// are down: they then know the owner from its dependents only. It uses its own dice.
func drawCascades(seed uint64, until time.Duration, actions []Action) []Action {
	breaks := hasFaults(actions)
	if newDice(seed, "cascades", 0).oneIn(2) {
		return nil
	}
	var all []Action
	for n := 0; ; n++ {
		d := newDice(seed, "cascade", n)
		at := 2*time.Minute + time.Duration(n)*cascadePause + d.between(0, cascadePause)
		if at > until-lastCascade {
			return all
		}
		gone := Action{At: at, Kind: DeleteReplicas, Name: replicaName, Policy: pick(d, propagationPolicies()...)}
		made := Action{Kind: CreateReplicas, Name: replicaName, Count: int32(1 + d.below(3)), Grace: drawGrace(d), App: drawApp(d), Shape: drawSetShape(d)}
		if d.oneIn(2) {
			gone.Kind, gone.Name, made.Kind, made.Name = DeleteStateful, statefulName, CreateStateful, statefulName
		}
		made.At = at + pick(d, d.between(0, 500*time.Millisecond), d.between(0, 15*time.Second), d.between(15*time.Second, 90*time.Second))
		all = append(all, gone, made)
		if breaks && d.oneIn(3) {
			all = append(all, Action{At: at + d.between(-time.Second, time.Second), Kind: Crash, Name: Controllers, For: d.between(time.Second, 20*time.Second)})
		}
	}
}

// namespacedName returns the namespace and the name of the object. A bare name is in the first
// namespace; shop/ant is ant in shop.
func (d Action) namespacedName() (within, called string) {
	if within, called, is := strings.Cut(d.Name, "/"); is {
		return within, called
	}
	return namespace, d.Name
}

const (
	// shop is a second namespace that is created and deleted repeatedly.
	shop = "shop"
	// shopPause is the mean time between two creations of the namespace.
	shopPause = 8 * time.Minute
	// lastShop is how long before the end, or the end of faults, the last creation is.
	lastShop = 6 * time.Minute
)

// drawShops adds the second namespace to one of three runs. Pods and a set are created in the
// namespace, some with finalizers, and the namespace is deleted while users still create objects in
// it. It uses its own dice.
func drawShops(seed uint64, until time.Duration, mode Mode) []Action {
	if !newDice(seed, "shops", 0).oneIn(3) {
		return nil
	}
	var all []Action
	for n := 0; ; n++ {
		d := newDice(seed, "shop", n)
		opens := 90*time.Second + time.Duration(n)*shopPause + d.between(0, shopPause/2)
		if opens > until-lastShop {
			break
		}
		made := drawShop(d, opens)
		all = append(append(all, made...), drawSetsInShop(newDice(seed, "sets in shop", n), made)...)
	}
	for _, at := range []time.Duration{until, until + retried} { // a pod may come late, when its user was not answered
		for _, pod := range podNames() {
			if mode == Liveness {
				all = append(all, Action{At: at, Kind: RemoveFinalizer, Name: shop + "/" + pod})
			}
		}
	}
	return all
}

// drawSetsInShop draws the sets besides a ReplicaSet: pods are deleted from them, some sets are
// deleted before the namespace is, and some are created too late.
func drawSetsInShop(d *dice, made []Action) (all []Action) {
	opens := made[slices.IndexFunc(made, func(action Action) bool { return action.Kind == CreateNamespace })].At
	closes := made[slices.IndexFunc(made, func(action Action) bool { return action.Kind == DeleteNamespace })].At
	within := func() time.Duration { return d.between(opens, closes+5*time.Second) }
	for _, kind := range []struct {
		set  Action
		gone ActionKind
	}{
		{Action{Kind: CreateStateful, Name: statefulName, Count: int32(1 + d.below(3))}, DeleteStateful},
		{Action{Kind: CreateDaemons, Name: daemonName}, DeleteDaemons},
		{Action{Kind: CreateJob, Name: "task", Count: int32(1 + d.below(5))}, DeleteJob},
	} {
		set := kind.set
		if d.oneIn(3) {
			continue
		}
		set.At, set.Name, set.Grace, set.App, set.Shape = within(), shop+"/"+set.Name, drawGrace(d), drawApp(d), drawSetShape(d)
		if set.Kind == CreateJob {
			set.App.Runs, set.App.Code = d.between(time.Second, time.Minute), 0
			drawJobOptions(d, &set)
		}
		all = append(all, set)
		for range d.below(3) {
			one := drawPodDeletion(d, set.Name, opens, closes+5*time.Second)
			one.Kind = pick(d, DeletePodOf, DeletePodOf, Unlabel)
			all = append(all, one)
		}
		if d.oneIn(3) {
			all = append(all, Action{At: within(), Kind: kind.gone, Name: set.Name, Policy: pick(d, propagationPolicies()...)})
		}
	}
	return append(all, Action{At: within(), Kind: ScaleStateful, Name: shop + "/" + statefulName, Count: int32(d.below(4))})
}

// drawShop draws one lifetime of the namespace, of at most four minutes.
func drawShop(d *dice, opens time.Duration) []Action {
	closes := opens + d.between(10*time.Second, 2*time.Minute)
	all := []Action{
		{At: opens, Kind: CreateNamespace, Name: shop},
		{
			At: opens + d.between(0, 5*time.Second), Kind: CreateReplicas, Name: shop + "/" + replicaName, Count: int32(1 + d.below(3)),
			Grace: drawGrace(d), App: drawApp(d), Shape: drawSetShape(d),
		},
		{At: closes, Kind: DeleteNamespace, Name: shop},
	}
	for _, pod := range podNames() {
		action := Action{Kind: CreatePod, Name: shop + "/" + pod, Grace: drawGrace(d), App: drawApp(d), Finalizer: d.oneIn(4), Shape: drawSetShape(d)}
		action.At = opens + d.between(0, closes-opens+5*time.Second) // some come too late
		all = append(all, action)
		if d.oneIn(3) {
			all = append(all, Action{At: closes + d.between(-5*time.Second, 10*time.Second), Kind: pick(d, DeletePod, ForceDelete), Name: action.Name})
		}
		if action.Finalizer {
			all = append(all, Action{At: closes + pick(d, d.between(0, 90*time.Second), 3*time.Minute), Kind: RemoveFinalizer, Name: action.Name})
		}
	}
	return all
}
