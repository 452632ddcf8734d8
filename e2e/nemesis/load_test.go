package nemesis

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto/kinds"
)

// load runs clients until their context ends.
type load struct {
	api    *podapi.Client
	ledger *Ledger
	seed   uint64
	nodes  []string
}

// client performs one request after the other.
type client struct {
	*load

	number int
	rand   *rand.Rand
}

// requestTimeout bounds how long a client waits for an answer, in wall time.
const requestTimeout = 6 * time.Second

// run runs every client; it returns when all have ended.
func (l *load) run(ctx context.Context) {
	var clients sync.WaitGroup
	defer clients.Wait()
	roles := []func(*client, context.Context){
		(*client).churnPods, (*client).churnPods, (*client).churnPods, (*client).removeFinalizers, (*client).churnSets, (*client).drainNodes, (*client).deleteCrowds,
	}
	for number, role := range roles {
		c := &client{load: l, number: number, rand: rand.New(rand.NewPCG(l.seed, uint64(number)+1))}
		clients.Go(func() {
			for ctx.Err() == nil {
				role(c, ctx)
				_ = sleep(ctx, time.Duration(20+c.rand.IntN(120))*time.Millisecond)
			}
		})
	}
}

func target(resource, name string) podapi.Target {
	kind, _ := kinds.ByResource(resource)
	t := podapi.Target{Kind: kind, Namespace: "default", Name: name}
	if resource == "nodes" {
		t.Namespace = ""
	}
	return t
}

// request performs a request and records the answer.
func (c *client) request(ctx context.Context, verb string, t podapi.Target, do func(context.Context) (any, error)) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	called := time.Now()
	answer, err := do(ctx)
	if err != nil {
		c.ledger.CountFailure(verb)
		return
	}
	result := Answer{Client: c.number, Verb: verb, Key: t.Namespace + "/" + t.Name, Called: called, Returned: time.Now()}
	if obj, ok := answer.(kinds.Object); ok && obj != nil {
		result.UID = string(obj.GetUID())
		result.Revision, _ = strconv.ParseInt(obj.GetResourceVersion(), 10, 64) // 0 for none
	}
	c.ledger.Add(result)
}

func (c *client) create(ctx context.Context, t podapi.Target, obj kinds.Object) {
	c.request(ctx, "create", t, func(ctx context.Context) (any, error) { return c.api.Create(ctx, t, obj, metav1.CreateOptions{}) })
}

func (c *client) patch(ctx context.Context, t podapi.Target, patch string) {
	c.request(ctx, "patch", t, func(ctx context.Context) (any, error) {
		return c.api.Patch(ctx, t, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	})
}

func (c *client) remove(ctx context.Context, t podapi.Target, options metav1.DeleteOptions) {
	c.request(ctx, "delete", t, func(ctx context.Context) (any, error) { return c.api.Delete(ctx, t, options) })
}

// churnPods creates pods with few names, deletes them in various ways, and creates them again.
func (c *client) churnPods(ctx context.Context) {
	name := fmt.Sprint("web-", c.rand.IntN(12))
	t := target("pods", name)
	switch c.rand.IntN(12) {
	case 0, 1, 2, 3, 4:
		c.create(ctx, t, c.randomPod(name))
	case 5, 6:
		c.remove(ctx, t, metav1.DeleteOptions{})
	case 7, 8, 9:
		c.remove(ctx, t, metav1.DeleteOptions{GracePeriodSeconds: new(int64(1 + c.rand.IntN(20)))})
	case 10:
		c.remove(ctx, t, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
	default:
		// Pods of the sets too, because a StatefulSet recreates its pods' names.
		c.remove(ctx, target("pods", fmt.Sprint("db-", c.rand.IntN(3))), metav1.DeleteOptions{GracePeriodSeconds: new(int64(c.rand.IntN(2) * 10))})
	}
}

// randomPod returns a pod with a script, a grace period, a volume, and sometimes a hook or a
// finalizer.
func (c *client) randomPod(name string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: c.spec()}
	pod.Annotations = map[string]string{"script.podfall.io/main": pick(c.rand, []string{
		"ignores TERM", "on TERM exits 0 after 1s", "on TERM exits 3 after 8s", "on TERM exits 0 after 0s",
	})}
	if c.rand.IntN(5) == 0 {
		pod.Finalizers = []string{"example.com/backup"}
	}
	return pod
}

func (c *client) spec() corev1.PodSpec {
	spec := corev1.PodSpec{
		TerminationGracePeriodSeconds: new(int64(1 + c.rand.IntN(25))),
		Containers:                    []corev1.Container{{Name: "main", Image: "registry.k8s.io/pause:3.10"}},
		Volumes:                       []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
	}
	spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	if c.rand.IntN(3) == 0 { // shorter than the grace, or the pod template would be invalid
		seconds := min(int64(1+c.rand.IntN(12)), *spec.TerminationGracePeriodSeconds-1)
		spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: seconds}}}
	}
	return spec
}

// removeFinalizers removes the finalizers that other clients have set.
func (c *client) removeFinalizers(ctx context.Context) {
	c.patch(ctx, target("pods", fmt.Sprint("web-", c.rand.IntN(12))), `{"metadata":{"finalizers":null}}`)
	_ = sleep(ctx, 200*time.Millisecond)
}

// churnSets creates a ReplicaSet and a StatefulSet, scales them, and sometimes deletes one.
func (c *client) churnSets(ctx context.Context) {
	resource, name := "replicasets.apps", "shop"
	if c.rand.IntN(2) == 0 {
		resource, name = "statefulsets.apps", "db"
	}
	t := target(resource, name)
	switch c.rand.IntN(8) {
	case 0:
		c.remove(ctx, t, metav1.DeleteOptions{PropagationPolicy: new(pick(c.rand, []metav1.DeletionPropagation{
			metav1.DeletePropagationBackground, metav1.DeletePropagationForeground,
		}))})
	case 1, 2, 3:
		c.create(ctx, t, c.set(name))
	default:
		c.patch(ctx, t, fmt.Sprintf(`{"spec":{"replicas":%d}}`, c.rand.IntN(4)))
	}
	_ = sleep(ctx, 200*time.Millisecond)
}

func (c *client) set(name string) kinds.Object {
	labels := map[string]string{"app": name}
	meta := metav1.ObjectMeta{Namespace: "default", Name: name, Labels: labels}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: c.spec()}
	selector, replicas := &metav1.LabelSelector{MatchLabels: labels}, new(int32(1+c.rand.IntN(3)))
	if name == "db" {
		return &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Replicas: replicas, Selector: selector, Template: template, ServiceName: name}}
	}
	return &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Replicas: replicas, Selector: selector, Template: template}}
}

// drainNodes cordons a node, evicts its pods, and uncordons it.
func (c *client) drainNodes(ctx context.Context) {
	node := target("nodes", pick(c.rand, c.nodes))
	c.patch(ctx, node, `{"spec":{"unschedulable":true}}`)
	within, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	list, err := c.api.List(within, target("pods", ""), metav1.ListOptions{FieldSelector: "spec.nodeName=" + node.Name})
	if err != nil {
		c.ledger.CountFailure("list")
		return
	}
	for _, item := range list.Items {
		t := target("pods", item.GetName())
		t.Subresource = "eviction"
		c.request(ctx, "evict", t, func(ctx context.Context) (any, error) {
			return c.api.Create(ctx, t, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: t.Name}}, metav1.CreateOptions{})
		})
	}
	c.patch(ctx, node, `{"spec":{"unschedulable":null}}`)
	_ = sleep(ctx, time.Duration(300+c.rand.IntN(1200))*time.Millisecond)
}
