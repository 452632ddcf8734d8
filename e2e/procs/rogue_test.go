package procs

import (
	"fmt"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	layouts "github.com/podfall/podfall/cmd/podfall/cluster"
	"github.com/podfall/podfall/internal/bus"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
)

// TestT7CompromisedNode uses the key of a node without a kubelet on the bus. It can only change the
// node's own objects and read what its pods refer to, and receives nothing from the other node.
func TestT7CompromisedNode(t *testing.T) {
	t.Parallel()
	c := up(t, "--nodes", "2")
	c.apply(`
apiVersion: v1
kind: Secret
metadata: {name: theirs}
stringData: {password: sesame}
---
apiVersion: v1
kind: Secret
metadata: {name: mine}
stringData: {password: sesame}
`)
	for name, node := range map[string]string{"mine": "node-1", "theirs": "node-2"} {
		c.apply(fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %[1]s, labels: {app: web}}
spec:
  nodeName: %[2]s
  containers: [{name: main, image: none, envFrom: [{secretRef: {name: %[1]s}}]}]
`, name, node))
		c.must("wait", "--for=condition=Ready", "pod/"+name, waitFlag)
	}
	admin := c.dial()
	theirs := mustGet[*corev1.Pod](t, admin, pods("theirs"))
	c.kill("kubelet/node-1")
	before := initialInventory(t, admin)
	t.Run("calls", func(t *testing.T) { c.attackAsNode(t, theirs) })
	t.Run("subjects", func(t *testing.T) { c.eavesdrop(t) })
	c.must("up", "--detach")
	c.wantUnharmed(admin, before, c.pids())
}

// mustGet reads an object from the API.
func mustGet[T kinds.Object](t *testing.T, api client, target podapi.Target) T {
	t.Helper()
	obj, err := api.Get(t.Context(), target, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	found, ok := obj.(T)
	if !ok {
		t.Fatalf("%s is a %T", target.Name, obj)
	}
	return found
}

// targetOf returns the target of an object.
func targetOf(resource, namespace, name string) podapi.Target {
	kind, _ := kinds.ByResource(resource)
	return podapi.Target{Kind: kind, Namespace: namespace, Name: name}
}

// attackAsNode requests as node-1, in every way that a client has, what does not belong to it.
func (c *cluster) attackAsNode(t *testing.T, theirs *corev1.Pod) {
	t.Helper()
	ctx := t.Context()
	rogue := c.asNode(t)
	own := mustGet[*corev1.Pod](t, rogue, pods("mine"))
	if _, err := rogue.Get(ctx, targetOf("secrets", "default", "mine"), metav1.GetOptions{}); err != nil {
		t.Errorf("what its own pod refers to: %v", err)
	}
	status := func(pod *corev1.Pod, change func(*corev1.Pod)) error {
		changed := pod.DeepCopy()
		change(changed)
		at := pods(pod.Name)
		at.Subresource = "status"
		_, err := rogue.Update(ctx, at, changed, metav1.UpdateOptions{})
		return err
	}
	create := func(change func(*corev1.Pod)) error {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "new"}}
		pod.Spec.NodeName, pod.Spec.Containers = "node-1", []corev1.Container{{Name: "main", Image: "none"}}
		change(pod)
		_, err := rogue.Create(ctx, pods(""), pod, metav1.CreateOptions{})
		return err
	}
	patch := func(at podapi.Target, text string) error {
		_, err := rogue.Patch(ctx, at, types.MergePatchType, []byte(text), metav1.PatchOptions{})
		return err
	}
	get := func(at podapi.Target) error { _, err := rogue.Get(ctx, at, metav1.GetOptions{}); return err }
	list := func(at podapi.Target) error { _, err := rogue.List(ctx, at, metav1.ListOptions{}); return err }
	remove := func(at podapi.Target) error {
		now := int64(0)
		_, err := rogue.Delete(ctx, at, metav1.DeleteOptions{GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &theirs.UID}})
		return err
	}
	mirror := map[string]string{corev1.MirrorPodAnnotationKey: "x"}
	for what, err := range map[string]error{
		"read another's pod":    get(pods("theirs")),
		"list all pods":         list(pods("")),
		"list all secrets":      list(targetOf("secrets", "default", "")),
		"read another's secret": get(targetOf("secrets", "default", "theirs")),
		"write its own secret":  patch(targetOf("secrets", "default", "mine"), `{"data":null}`),
		"end another's pod":     remove(pods("theirs")),
		"end all pods": func() error {
			_, err := rogue.DeleteCollection(ctx, pods(""), metav1.DeleteOptions{}, metav1.ListOptions{})
			return err
		}(),
		"confirm another's pod":      status(theirs, func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }),
		"label its own pod":          status(own, func(p *corev1.Pod) { p.Labels = map[string]string{"app": "other"} }),
		"change its own pod's image": patch(pods("mine"), `{"spec":{"containers":[{"name":"main","image":"evil"}]}}`),
		"create a pod":               create(func(*corev1.Pod) {}),
		"create a pod for another":   create(func(p *corev1.Pod) { p.Annotations, p.Spec.NodeName = mirror, "node-2" }),
		"create one that reads": create(func(p *corev1.Pod) {
			p.Annotations, p.Spec.ImagePullSecrets = mirror, []corev1.LocalObjectReference{{Name: "theirs"}}
		}),
		"bind a pod":                c.createSub(rogue, "pods", "theirs", "binding", &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: "node-1"}}),
		"evict another's pod":       c.createSub(rogue, "pods", "theirs", "eviction", &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}}),
		"a token that nobody bound": c.createSub(rogue, "serviceaccounts", "default", "token", &authenticationv1.TokenRequest{}),
		"taint another node":        patch(targetOf("nodes", "", "node-2"), `{"spec":{"unschedulable":true}}`),
		"lift its own taints":       patch(targetOf("nodes", "", "node-1"), `{"spec":{"taints":[{"key":"k","effect":"NoSchedule"}]}}`),
		"remove another node":       remove(targetOf("nodes", "", "node-2")),
		"write another's lease":     patch(targetOf("leases.coordination.k8s.io", "kube-node-lease", "node-2"), `{"spec":{"renewTime":null}}`),
		"make a lease of another name": func() error {
			_, err := rogue.Create(ctx, targetOf("leases.coordination.k8s.io", "kube-node-lease", ""), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-node-lease", Name: "node-3"}}, metav1.CreateOptions{})
			return err
		}(),
		"list workloads": list(targetOf("deployments.apps", "default", "")),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v, want 403", what, err)
		}
	}
}

// createSub posts to a subresource in the namespace default.
func (c *cluster) createSub(as client, resource, name, subresource string, obj kinds.Object) error {
	at := targetOf(resource, "default", name)
	at.Subresource = subresource
	_, err := as.Create(c.t.Context(), at, obj, metav1.CreateOptions{})
	return err
}

// asNode connects as a new kubelet of node-1, over its node's link.
func (c *cluster) asNode(t *testing.T) client {
	t.Helper()
	layout, id := layouts.Layout{Root: c.data}, proto.Node("node-1")
	addresses, err := layout.Addresses()
	if err != nil {
		t.Fatal(err)
	}
	seed, err := bus.LoadSeed(layout.Keys(), id)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := bus.Dial(t.Context(), bus.Config{URLs: []string{addresses.Links["node-1"]}, Identity: id, Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return client{podapi.New(conn, podapi.Config{Boot: proto.NewBoot(time.Now(), [4]byte{1})})}
}

// eavesdrop publishes and subscribes to other identities' subjects on the bus.
func (c *cluster) eavesdrop(t *testing.T) {
	t.Helper()
	layout := layouts.Layout{Root: c.data}
	addresses, err := layout.Addresses()
	if err != nil {
		t.Fatal(err)
	}
	data := validCall(proto.VerbDelete, "theirs").encode(t)
	rogue := func() *rawConn { return connectRaw(t, addresses.Links["node-1"], layout.Keys(), proto.Node("node-1")) }
	for _, subject := range []string{
		"api.node:node-2.delete.pods.default.theirs", "api.client:admin.delete.pods.default.theirs", "api.apiserver.delete.pods.default.theirs",
		"watch.cluster.forged", "watch.node.node-2.forged", "r.node:node-2.apiserver.forged", "mgmt.fault", "$SYS.REQ.SERVER.PING",
	} {
		s := rogue()
		s.wantRefused(strings.ToLower("Permissions Violation"), func() error { return lower(s.nc.Publish(subject, data)) })
	}
	for _, subject := range []string{">", "api.>", "r.>", "r.node:node-2.>", "watch.>", "watch.cluster.*", "watch.node.node-2.>", "watch.node.*.*"} {
		s := rogue()
		s.wantRefused(strings.ToLower("Permissions Violation"), func() error {
			_, err := s.nc.SubscribeSync(subject)
			return lower(err)
		})
	}
}
