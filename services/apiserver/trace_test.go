package apiserver_test

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/proto"
)

func held(p *corev1.Pod) { p.Finalizers = []string{"a.b/c"} }

// trace runs story against an apiserver in a bubble: user is a client, node the kubelet
// of n1.
func trace(t *testing.T, name string, story func(user, node *client)) {
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newHarness(t)
			story(s.client("client:me"), s.client(proto.Node("n1")))
		})
	})
}

func TestTraces(t *testing.T) {
	trace(t, "TRC-01 API side: three rounds", func(user, node *client) {
		w := user.watch(metav1.ListOptions{})
		pod := user.create()
		user.bind()
		node.phase(corev1.PodRunning)
		w.expect("ADDED gen=1 Pending", "MODIFIED gen=1 Pending", "MODIFIED gen=1 Running")
		user.delete(metav1.DeleteOptions{})
		w.expect("MODIFIED +30s grace=30 gen=2 Running")
		time.Sleep(2 * time.Second)
		node.phase(corev1.PodSucceeded)
		w.expect("MODIFIED +30s grace=30 gen=2 Succeeded")
		confirm := grace(0)
		confirm.Preconditions = &metav1.Preconditions{UID: &pod.UID}
		last := node.delete(confirm)
		w.expect("MODIFIED +2s grace=0 gen=2 Succeeded", "DELETED +2s grace=0 gen=2 Succeeded")
		if last.ResourceVersion != strconv.FormatInt(w.last, 10) {
			user.t.Errorf("the answer is of revision %s, the DELETED of %d (API-44)", last.ResourceVersion, w.last)
		}
		w.expectNone()
	})
	trace(t, "TRC-08 unscheduled", func(user, _ *client) {
		user.create()
		w := user.watch(metav1.ListOptions{})
		user.delete(metav1.DeleteOptions{})
		w.expect("MODIFIED +0s grace=0 gen=2 Pending", "DELETED +0s grace=0 gen=2 Pending")
	})
	trace(t, "TRC-09 terminal, plain delete", func(user, node *client) {
		user.create()
		user.bind()
		node.phase(corev1.PodSucceeded)
		w := user.watch(metav1.ListOptions{})
		user.delete(metav1.DeleteOptions{})
		w.expect("MODIFIED +0s grace=0 gen=2 Succeeded", "DELETED +0s grace=0 gen=2 Succeeded")
	})
	trace(t, "TRC-10 a finalizer outlasts the kubelet", func(user, node *client) {
		pod := user.create(held)
		user.bind()
		node.phase(corev1.PodRunning)
		w := user.watch(metav1.ListOptions{})
		user.delete(metav1.DeleteOptions{})
		time.Sleep(4 * time.Second)
		node.phase(corev1.PodSucceeded)
		confirm := grace(0)
		confirm.Preconditions = &metav1.Preconditions{UID: &pod.UID}
		node.delete(confirm)
		w.expect("MODIFIED +30s grace=30 gen=2 Running [a.b/c]", "MODIFIED +30s grace=30 gen=2 Succeeded [a.b/c]",
			"MODIFIED +4s grace=0 gen=2 Succeeded [a.b/c]")
		node.delete(confirm) // API-52: nothing more to do
		w.expectNone()
		time.Sleep(10 * time.Minute)
		user.finalize()
		w.expect("DELETED +4s grace=0 gen=2 Succeeded [a.b/c]")
		w.expectNone()
	})
	trace(t, "TRC-11 the finalizer goes first", func(user, node *client) {
		user.create(held)
		user.bind()
		node.phase(corev1.PodRunning)
		w := user.watch(metav1.ListOptions{})
		user.delete(metav1.DeleteOptions{})
		user.finalize()
		w.expect("MODIFIED +30s grace=30 gen=2 Running [a.b/c]", "MODIFIED +30s grace=30 gen=2 Running")
		w.expectNone()
		time.Sleep(time.Second)
		node.delete(grace(0))
		w.expect("MODIFIED +1s grace=0 gen=2 Running", "DELETED +1s grace=0 gen=2 Running")
	})
	trace(t, "TRC-12 a second delete, longer and shorter", func(user, _ *client) {
		user.create()
		user.bind()
		w := user.watch(metav1.ListOptions{})
		first := user.delete(grace(20))
		time.Sleep(time.Second)
		longer := user.delete(grace(60))
		if longer.ResourceVersion != first.ResourceVersion || *longer.DeletionGracePeriodSeconds != 20 {
			user.t.Errorf("longer: revision %s grace %d", longer.ResourceVersion, *longer.DeletionGracePeriodSeconds)
		}
		user.delete(grace(10))
		w.expect("MODIFIED +20s grace=20 gen=2 Pending", "MODIFIED +10s grace=10 gen=2 Pending")
		w.expectNone()
	})
	trace(t, "TRC-24 a name that was taken again", func(user, node *client) {
		old := user.create()
		user.bind()
		user.delete(grace(0))
		renewed := user.create()
		user.bind()
		w := user.watch(metav1.ListOptions{})
		confirm := grace(0)
		confirm.Preconditions = &metav1.Preconditions{UID: &old.UID}
		_, err := node.api.Delete(node.t.Context(), pods("p", ""), confirm)
		want := `Operation cannot be fulfilled on Pod "p": the UID in the precondition (` + string(old.UID) +
			`) does not match the UID in record (` + string(renewed.UID) + `). The object might have been deleted and then recreated`
		if !apierrors.IsConflict(err) || err.Error() != want {
			user.t.Errorf("\n got %v\nwant %s", err, want)
		}
		w.expectNone()
		if user.get().UID != renewed.UID {
			user.t.Error("the new pod was touched")
		}
	})
	trace(t, "TRC-27 a watch that selects Running", func(user, node *client) {
		user.create()
		user.bind()
		node.phase(corev1.PodRunning)
		w := user.watch(metav1.ListOptions{FieldSelector: "status.phase=Running"})
		node.phase(corev1.PodSucceeded)
		user.delete(metav1.DeleteOptions{})
		w.expect("DELETED gen=1 Running")
		w.expectNone()
	})
	trace(t, "TD-034 a pod as its node sees it", func(user, node *client) {
		w := node.watch(metav1.ListOptions{FieldSelector: "spec.nodeName=n1", ResourceVersion: "0"})
		user.create()
		user.bind()
		user.delete(grace(31))
		w.expect("ADDED gen=1 Pending", "MODIFIED +31s grace=31 gen=2 Pending")
	})
}

// TestRestart is a pod that outlives its apiserver, and a watch that resumes.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newHarness(t)
		user := s.client("client:me")
		user.create()
		user.bind()
		w := user.watch(metav1.ListOptions{})
		user.delete(metav1.DeleteOptions{})
		s.halt()
		s.cfg.Boot = "boot-2"
		s.start()
		user.delete(grace(0))
		w.expect("MODIFIED +30s grace=30 gen=2 Pending")
		for _, kind := range []string{"MODIFIED", "DELETED"} {
			event := <-w.events.ResultChan()
			if string(event.Type) != kind || *asPod(t, event.Object).DeletionGracePeriodSeconds != 0 {
				t.Errorf("%s", w.describe(event))
			}
		}
		w.expectNone()
	})
}
