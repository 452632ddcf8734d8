package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/e2e/stage"
	"github.com/podfall/podfall/proto/kinds"
)

// createOwned creates a ConfigMap with owners; a "!" after the name sets blockOwnerDeletion.
func (r *rig) createOwned(name string, owners ...kinds.Object) *corev1.ConfigMap {
	r.Helper()
	obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: strings.TrimSuffix(name, "!")}}
	for _, owner := range owners {
		ref := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: owner.GetName(), UID: owner.GetUID()}
		if strings.HasSuffix(name, "!") {
			ref.BlockOwnerDeletion = new(true)
		}
		obj.OwnerReferences = append(obj.OwnerReferences, ref)
	}
	stored, ok := r.create("configmaps", obj).(*corev1.ConfigMap)
	if !ok {
		r.Fatal("no ConfigMap")
	}
	return stored
}

// describeOwned describes a ConfigMap's finalizers and owners.
func describeOwned(obj kinds.Object, kind watch.EventType) string {
	text := obj.GetName()
	if kind == watch.Deleted {
		return text + " is gone"
	}
	if obj.GetDeletionTimestamp() != nil {
		text += " terminating"
	}
	if finalizers := obj.GetFinalizers(); len(finalizers) > 0 {
		text += " " + strings.Join(finalizers, ",")
	}
	for _, owner := range obj.GetOwnerReferences() {
		text += " of " + owner.Name
	}
	return text
}

func playGarbage(t *testing.T, test func(*rig)) {
	t.Helper()
	play(t, stage.Config{Nodes: 1, Controllers: []string{"garbagecollector"}}, func(r *rig) {
		r.watch("configmaps", describeOwned)
		r.noteEvents("OwnerRefInvalidNamespace")
		test(r)
	})
}

func policy(p metav1.DeletionPropagation) metav1.DeleteOptions {
	return metav1.DeleteOptions{PropagationPolicy: &p}
}

// TestBackground removes the owner, then its dependents and theirs. A dependent with another owner
// only loses the reference (CTL-35).
func TestBackground(t *testing.T) {
	playGarbage(t, func(r *rig) {
		owner, other := r.createOwned("owner"), r.createOwned("other")
		a := r.createOwned("a", owner)
		r.createOwned("b", a)
		r.createOwned("shared", owner, other)
		r.resetNotes()
		r.delete("configmaps owner", policy(metav1.DeletePropagationBackground))
		time.Sleep(time.Minute)
		r.wantNotes(
			`0s      a is gone`,
			`0s      b is gone`,
			`0s      owner is gone`,
			`0s      shared of other`,
		)
	})
}

// TestForeground keeps the owner until its blocking dependents are gone.
func TestForeground(t *testing.T) {
	playGarbage(t, func(r *rig) {
		owner := r.createOwned("owner")
		r.createOwned("free", owner)
		a := r.createOwned("a!", owner)
		r.createOwned("b!", a)
		r.patch("configmaps b", map[string]any{"metadata": map[string]any{"finalizers": []string{"example.com/hold"}}})
		r.Settle()
		r.resetNotes()
		r.delete("configmaps owner", policy(metav1.DeletePropagationForeground))
		time.Sleep(time.Minute)
		r.patch("configmaps b", map[string]any{"metadata": map[string]any{"finalizers": nil}})
		time.Sleep(time.Minute)
		r.wantNotes(
			`0s      a terminating foregroundDeletion of owner`,
			`0s      b terminating example.com/hold of a`,
			`0s      free is gone`,
			`0s      owner terminating foregroundDeletion`,
			`1m0s    a is gone`,
			`1m0s    b is gone`,
			`1m0s    owner is gone`,
		)
	})
}

// TestOrphan keeps the dependents, without the reference.
func TestOrphan(t *testing.T) {
	playGarbage(t, func(r *rig) {
		owner := r.createOwned("owner")
		r.createOwned("a", owner)
		r.createOwned("b!", owner)
		r.resetNotes()
		r.delete("configmaps owner", policy(metav1.DeletePropagationOrphan))
		time.Sleep(time.Minute)
		r.wantNotes(
			`0s      a`,
			`0s      b`,
			`0s      owner is gone`,
			`0s      owner terminating orphan`,
		)
	})
}

// TestInvalidOwners has an owner that never existed, one in another namespace, and two objects that
// own each other.
func TestInvalidOwners(t *testing.T) {
	playGarbage(t, func(r *rig) {
		r.resetNotes()
		ghost := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "ghost", UID: "no-such-uid"}}
		r.createOwned("dangling", ghost)
		r.create("namespaces", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}})
		far := r.create("configmaps", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "far"}})
		r.createOwned("misplaced", far)
		one := r.createOwned("one")
		r.createOwned("two!", one)
		two := get[*corev1.ConfigMap](r, "configmaps two")
		r.patch("configmaps one", map[string]any{"metadata": map[string]any{"ownerReferences": []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "ConfigMap", Name: "two", UID: two.UID, BlockOwnerDeletion: new(true)},
		}}})
		time.Sleep(time.Minute)
		r.delete("configmaps one", policy(metav1.DeletePropagationForeground))
		time.Sleep(time.Minute)
		r.wantNotes(
			`0s      dangling is gone`,
			`0s      dangling of ghost`,
			`0s      event Warning ConfigMap/misplaced OwnerRefInvalidNamespace: ownerRef [v1/ConfigMap, namespace: default, name: far, uid: UID] does not exist in namespace "default" (garbage-collector-controller)`,
			`0s      far`,
			`0s      misplaced is gone`,
			`0s      misplaced of far`,
			`0s      one`,
			`0s      one of two`,
			`0s      two of one`,
			`1m0s    one is gone`,
			`1m0s    one terminating foregroundDeletion of two`,
			`1m0s    two is gone`,
			`1m0s    two terminating foregroundDeletion of one`,
		)
	})
}

// TestThousandDependents deletes an owner with a thousand dependents, in the time of a few round
// trips each.
func TestThousandDependents(t *testing.T) {
	play(t, stage.Config{Nodes: 1, Controllers: []string{"garbagecollector"}}, func(r *rig) {
		owner := r.createOwned("owner")
		for i := range 1000 {
			r.createOwned(fmt.Sprintf("d-%d", i), owner)
		}
		r.delete("configmaps owner", metav1.DeleteOptions{})
		took := r.until("all are gone", func() bool { return len(r.list("configmaps default/")) == 0 })
		if took > 10*time.Second {
			t.Errorf("took %v", took)
		}
	})
}
