package sim

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/analysis/why/gather"
	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/internal/inspect"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver/store"
	"github.com/podfall/podfall/services/controllers/explain"
	"github.com/podfall/podfall/services/kubelet"
)

// What observers of a cluster are told. The management connection is no link of the network:
// it is never cut, and takes no time here. Who is down, or stands still, does not answer.

// inspectable is a process that can describe its state.
type inspectable interface {
	// inspect is told the time, and what its clock shows.
	inspect(now, shown time.Time) any
}

var errSilent = errors.New("it does not answer")

// manage fills in what a process says of itself: the management connection, without JSON.
func (w *World) manage(_ context.Context, process string, said any) error {
	p := w.processes[process]
	if p == nil || p.running == nil || p.paused {
		return errSilent
	}
	asked, is := p.running.(inspectable)
	if !is {
		return errSilent
	}
	reflect.ValueOf(said).Elem().Set(reflect.ValueOf(asked.inspect(w.now, p.clock.ApplySkew(w.now))))
	return nil
}

// storeReader is the apiserver for observers: it reads the apiserver's disk while the apiserver is
// up.
type storeReader struct{ *World }

func (r storeReader) snapshot() (*store.Snapshot, error) {
	if p := r.processes[APIServer]; p == nil || p.running == nil || p.paused {
		return nil, ErrNoAnswer
	}
	kept, _ := r.Persisted(APIServer, diskStore).(stored)
	if kept.image == nil {
		return nil, ErrNoAnswer
	}
	return kept.image.Snapshot(), nil
}

// Get implements gather.API.
func (r storeReader) Get(_ context.Context, target podapi.Target, _ metav1.GetOptions) (kinds.Object, error) {
	snapshot, err := r.snapshot()
	if err != nil {
		return nil, err
	}
	resource := target.Kind.GroupResource()
	if record := snapshot.Get(store.Key{Resource: resource.String(), Namespace: target.Namespace, Name: target.Name}); record != nil {
		return record.Object, nil
	}
	return nil, apierrors.NewNotFound(resource, target.Name)
}

// List implements gather.API.
func (r storeReader) List(_ context.Context, target podapi.Target, _ metav1.ListOptions) (*podapi.List, error) {
	snapshot, err := r.snapshot()
	if err != nil {
		return nil, err
	}
	list := &podapi.List{ResourceVersion: strconv.FormatInt(snapshot.Revision(), 10)}
	for record := range snapshot.Scan(target.Kind.GroupResource().String(), target.Namespace, "") {
		list.Items = append(list.Items, record.Object)
	}
	return list, nil
}

// observers runs the rounds of the explain controller in the controllers' process.
type observers struct {
	rounds *explain.Rounds
	began  time.Time
	// catchUp has the bubble's time, which the rounds go by, be the world's.
	catchUp func()
}

// The alarms of its rounds.
const (
	lookOverdue = "overdue"
	lookUnknown = "ghosts"
)

// explainer is the controllers' explain controller; it tells through note.
func (w *World) explainer(note func(history.Fact)) *explain.Rounds {
	return &explain.Rounds{
		Observer: gather.Observer{API: storeReader{w}, Ask: w.manage, Clock: w.processes[Controllers].clock},
		Event:    func(*corev1.Pod, string) {}, Record: note, Log: slog.New(slog.DiscardHandler),
	}
}

// tick is the next of an observer's ticks.
func (e *observers) tick(now time.Time, period time.Duration) time.Time {
	return now.Add(period - now.Sub(e.began)%period)
}

// observe schedules the rounds while there is something to observe.
func (c *controllers) observe(old, now *corev1.Pod) {
	e := &c.observing
	if now == nil {
		e.rounds.PodRemoved(old)
	} else if now.DeletionTimestamp != nil {
		c.out.Wake(lookOverdue, e.tick(c.now, explain.ExplainPeriod))
	}
	c.watchUnknownPods()
}

// watchUnknownPods schedules the next round, if there are unknown pods to look for.
func (c *controllers) watchUnknownPods() {
	if c.observing.rounds.HasUnknownPods(c.nodeNames()) {
		c.out.Wake(lookUnknown, c.observing.tick(c.now, explain.UnknownPodsPeriod))
	}
}

// nodeNames are the names of all nodes that it knows.
func (c *controllers) nodeNames() []string {
	var names []string
	for _, node := range c.nodes.all() {
		names = append(names, node.Name)
	}
	return names
}

// runRound runs one of the rounds.
func (c *controllers) runRound(what string) {
	if what == lookOverdue {
		c.explainOverdue()
		return
	}
	c.checkUnknownPods()
}

// explainOverdue looks at the pods that are overdue.
func (c *controllers) explainOverdue() {
	var marked []*corev1.Pod
	for _, pod := range c.pods.all() {
		if pod.DeletionTimestamp != nil {
			marked = append(marked, pod)
		}
	}
	c.observing.catchUp()
	c.observing.rounds.Explain(backgroundContext(), marked)
	if len(marked) > 0 {
		c.out.Wake(lookOverdue, c.observing.tick(c.now, explain.ExplainPeriod))
	}
}

// checkUnknownPods looks at pods that left the API too early.
func (c *controllers) checkUnknownPods() {
	c.observing.catchUp()
	c.observing.rounds.CheckUnknownPods(backgroundContext(), explain.Views{
		Pod:   func(namespace, called string) (*corev1.Pod, bool) { return c.pods.get(name{namespace, called}) },
		Nodes: c.nodeNames,
	})
	c.watchUnknownPods()
}

// controllerNames returns the product's names of the controllers of this process.
func controllerNames() []string {
	return []string{
		cronJobController, daemonController, deploymentController, "disruption-controller", "explain-controller", "garbage-collector-controller", "job-controller", "namespace-controller",
		"node-lifecycle-controller", attachController, binderController, "pod-garbage-collector-controller", "replicaset-controller", "scheduler",
		"statefulset-controller", "taint-eviction-controller", "ttl-after-finished-controller",
	}
}

func (c *controllers) inspect(_, shown time.Time) any {
	return inspect.Controllers{
		Self:    inspect.Self{Process: Controllers, Boot: c.client.Boot, Began: c.out.ClockTime(c.observing.began), Now: shown},
		Running: controllerNames(),
	}
}

func (p *apiserverProcess) inspect(_, shown time.Time) any {
	return inspect.APIServer{Self: inspect.Self{Process: APIServer, Now: shown}, Revision: p.disk.synced}
}

func (r *runtimeProcess) inspect(now, shown time.Time) any {
	ahead := shown.Sub(now)
	said := inspect.Runtime{Self: inspect.Self{Process: "runtime", Boot: r.boot, Now: shown}, ClockOffset: ahead}
	said.Containers = make([]inspect.Container, 0, len(r.containers))
	for _, c := range r.containers {
		box := c.box.record
		said.Containers = append(said.Containers, inspect.Container{
			ID: c.ID, Name: c.Request.Name, Namespace: box.PodNamespace, Pod: box.PodName, UID: box.PodUid,
			Alive: c.alive(), Scripted: true, Code: c.status.ExitCode, Unreachable: c.status.Unreachable,
			Times: inspect.Times{Started: c.Events.Start, Signaled: c.Events.Stop, Killed: c.Events.Kill, Exited: c.status.FinishedAt}.Shift(ahead),
		})
	}
	return said
}

func (k *kubeletProcess) inspect(now, shown time.Time) any {
	said := inspect.Kubelet{
		Self: inspect.Self{Process: "kubelet/" + k.of.node, Boot: k.incarnation.boot, Began: k.incarnation.at, Now: shown},
		Node: k.of.node, Problems: k.runtime.views.Problems(now, k.of.timing.Relist), PodsRevision: k.api.set.TakenRevision(),
	}
	for _, view := range k.workers.All() {
		said.Pods = append(said.Pods, kubelet.WorkerReport(view, k.volumes.stays(view.UID)))
	}
	k.api.contacts.Fill(&said)
	return said
}

// methodOf returns the CRI name of a request, and the id that it is about.
func methodOf(do any) (method, id string) {
	switch do := do.(type) {
	case RunSandbox:
		return "RunPodSandbox", ""
	case StopSandbox:
		return "StopPodSandbox", do.ID
	case RemoveSandbox:
		return "RemovePodSandbox", do.ID
	case CreateContainer:
		return "CreateContainer", ""
	case StartContainer:
		return "StartContainer", do.ID
	case StopContainer:
		return "StopContainer", do.ID
	case RemoveContainer:
		return "RemoveContainer", do.ID
	case Exec:
		return "ExecSync", do.ID
	case Reach:
		return "Reach", do.ID
	}
	return "ListPodSandbox", ""
}
