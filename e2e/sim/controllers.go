package sim

import (
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/controllers/garbage"
	"github.com/podfall/podfall/services/controllers/nodelifecycle"
	"github.com/podfall/podfall/services/controllers/podgc"
	"github.com/podfall/podfall/services/controllers/scheduler"
	"github.com/podfall/podfall/services/controllers/view"
	"github.com/podfall/podfall/services/controllers/workload"
)

// Controllers is the name of the process of the controllers.
const Controllers = "controllers"

// controllers is that process: the views are followers', and what is done about them is
// decided by the product's own Decide functions.
//
//	controllers_sets.go   ReplicaSets and StatefulSets
//	controllers_pods.go   the scheduler, the pod garbage collector, taint eviction
//	controllers_nodes.go  the node lifecycle
//	controllers_daemons.go  DaemonSets
//	controllers_deployments.go  Deployments
//	controllers_jobs.go   Jobs
//	controllers_cronjobs.go  CronJobs
//	controllers_budgets.go  PodDisruptionBudgets
//	controllers_claims.go  whose pods are whose
//	controllers_writes.go  what those of sets write alike
//	controllers_garbage.go  the garbage collector
//	controllers_namespaces.go  the end of namespaces
//	controllers_binder.go  whose volume is whose
//	controllers_disks.go  what is attached where
//
// A thing to look at is an alarm by the name of its controller and object. While a look is
// under way, which takes requests, another one waits.
type controllers struct {
	client Client
	now    time.Time
	out    Out

	followed
	copies
	workQueue
	scheduling *scheduler.State
	expected   *workload.Expectations
	missed     map[string]time.Time // podgc's
	lifecycle
	evictions map[name]eviction
	observing observers
}

// followed holds the resources that the controllers follow.
type followed struct {
	resources []string
	followers []*Follower
}

func (f followed) includes(resource string) bool { return slices.Contains(f.resources, resource) }

// copies are the views.
type copies struct {
	pods       *copyOf[*corev1.Pod]
	nodes      *copyOf[*corev1.Node]
	leases     *copyOf[*coordinationv1.Lease]
	replicas   *copyOf[*appsv1.ReplicaSet]
	stateful   *copyOf[*appsv1.StatefulSet]
	daemons    daemonState
	rollouts   *copyOf[*appsv1.Deployment]
	jobs       jobState
	budgets    *copyOf[*policyv1.PodDisruptionBudget]
	namespaces *copyOf[*corev1.Namespace]
	disks      diskViews
	// graph holds the owners and dependents among all objects.
	graph *garbage.Graph
}

// workQueue holds the keys that controllers work on.
type workQueue struct {
	busy, again map[string]bool
	failures    map[string]int
	due         map[string]time.Time
}

type lifecycle struct {
	health map[string]*nodelifecycle.Health
	zones  *nodelifecycle.Zones
	timing nodelifecycle.Timing
}

// newControllers is an incarnation of the controllers, which observe that world, and follow those
// resources.
func newControllers(w *World, resources []string) *controllers {
	c := &controllers{
		followed:   followed{resources: resources},
		workQueue:  workQueue{busy: map[string]bool{}, again: map[string]bool{}, failures: map[string]int{}, due: map[string]time.Time{}},
		scheduling: scheduler.NewState(), expected: workload.NewExpectations(), evictions: map[name]eviction{},
		lifecycle: lifecycle{health: map[string]*nodelifecycle.Health{}, zones: nodelifecycle.NewZones(), timing: nodelifecycle.Default()},
	}
	c.graph, c.namespaces = garbage.NewGraph(), newCopy(c.namespaceChanged)
	c.observing.catchUp = w.catchUp
	c.observing.rounds = w.explainer(func(fact history.Fact) { c.out.Note("", fact) })
	c.pods, c.nodes = newCopy(c.podChanged), newCopy(c.nodeChanged)
	c.leases = newCopy(func(_, _ *coordinationv1.Lease) {})
	c.replicas = newCopy(c.replicaSetChanged)
	c.daemons = c.newDaemons()
	c.rollouts = c.newRollouts()
	c.jobs = c.newJobs()
	c.budgets = c.newBudgets()
	c.disks = c.newDisks()
	c.stateful = newCopy(func(old, now *appsv1.StatefulSet) { c.enqueue(lookStatefulSet, nameOf(view.Either(old, now))) })
	return c
}

// The controllers' looks.
const (
	lookReplicaSet  = "replicaset"
	lookStatefulSet = "statefulset"
	lookEviction    = "tainteviction"
	lookTaints      = "taints"
	lookSchedule    = "schedule"
	lookGarbage     = "podgc"
	lookNodes       = "nodes"
	lookTurn        = "turn"
	lookDependent   = "dependent"
	lookOrphans     = "orphans"
	lookNamespace   = "namespace"
)

func (c *controllers) Step(now time.Time, in Input, out Out) {
	c.now, c.out = now, out
	if c.client.Step(now, in, out) {
		return
	}
	for _, f := range c.followers {
		if f.Step(now, in, out) {
			return
		}
	}
	switch in := in.(type) {
	case Boot:
		c.boot(in)
	case Alarm:
		c.handleAlarm(in.Key)
	case Message, Called, Answered:
	}
}

// clockTime returns the reading of the process's clock, for timestamps of objects.
func (c *controllers) clockTime() time.Time { return c.out.ClockTime(c.now) }

func (c *controllers) boot(in Boot) {
	c.client = newClient(proto.Controllers, in)
	c.observing.began = c.now
	for _, follow := range []struct {
		resource string
		sink     podapi.Sink
	}{
		{"nodes", c.nodes},
		{"pods", c.pods},
		{"leases.coordination.k8s.io", c.leases},
		{"replicasets.apps", c.replicas},
		{"statefulsets.apps", c.stateful},
		{"daemonsets.apps", c.daemons.sets},
		{"jobs.batch", c.jobs.objects},
		{cronJobsResource, c.jobs.cron},
		{"poddisruptionbudgets.policy", c.budgets},
		{"namespaces", c.namespaces},
		{claimsResource, c.disks.claims},
		{volumesResource, c.disks.volumes},
		{attachmentsResource, c.disks.attachments},
		{deploymentsResource, c.rollouts},
	} {
		if !c.includes(follow.resource) {
			continue
		}
		f := &Follower{Key: "copy of " + follow.resource, Client: &c.client, Target: podapi.Target{Kind: kindOfResource(follow.resource)}, Sink: follow.sink}
		f.Sink = c.monitored(f)
		c.followers = append(c.followers, f)
		f.Start(c.now, c.out)
	}
	c.out.Wake(lookGarbage, c.now)
	c.out.Wake(lookNodes, c.now)
}

// synced reports whether all views are synced. Nothing is decided before.
func (c *controllers) synced() bool {
	return c.pods.synced && c.nodes.synced && c.leases.synced && c.replicas.synced && c.stateful.synced &&
		c.daemons.sets.synced && c.jobs.objects.synced && c.jobs.cron.synced && c.budgets.synced && c.namespaces.synced && c.rollouts.synced &&
		c.disks.claims.synced && c.disks.volumes.synced && c.disks.attachments.synced
}

// enqueue queues an object for its controller.
func (c *controllers) enqueue(what string, of name) { c.enqueueAfter(what, of, 0) }

func (c *controllers) enqueueAfter(what string, of name, after time.Duration) {
	c.wake(what+" "+of.String(), c.now.Add(after))
}

// wake queues a key for a time, or for the earlier time that it already waits for, as the product's
// loops do.
func (c *controllers) wake(key string, at time.Time) {
	if due, waits := c.due[key]; waits && due.Before(at) {
		return
	}
	c.due[key] = at
	c.out.Wake(key, at)
}

// unsyncedDelay is how long a key waits for the views.
const unsyncedDelay = 500 * time.Millisecond

// postpone requeues a key that cannot be handled yet.
func (c *controllers) postpone(key string) bool {
	if !c.synced() {
		c.wake(key, c.now.Add(unsyncedDelay))
		return true
	}
	if c.busy[key] {
		c.again[key] = true
	}
	return c.busy[key]
}

func (c *controllers) handleAlarm(key string) {
	delete(c.due, key)
	if c.postpone(key) {
		return
	}
	var of name
	what, rest, _ := strings.Cut(key, " ")
	of.Namespace, of.Name, _ = strings.Cut(rest, "/")
	switch what {
	case lookReplicaSet:
		c.syncReplicaSet(key, of)
	case lookStatefulSet:
		c.syncStatefulSet(key, of)
	case lookDaemonSet:
		c.syncDaemonSet(key, of)
	case lookDeployment:
		c.syncDeployment(key, of)
	case lookJob, lookOutlived, lookUncounted, lookCronJob:
		c.alarmOfJob(what, key, of)
	case lookBudget:
		c.syncBudget(key, of)
	case lookDisrupted:
		c.syncDisrupted(key, of)
	case lookEviction:
		c.syncEviction(key, of)
	case lookTaints:
		c.syncTaints(key, of.Name)
	case lookSchedule:
		c.schedule()
	case lookGarbage:
		c.collectPods()
		c.out.Wake(lookGarbage, c.now.Add(podgc.Period))
	case lookNodes:
		c.monitorNodes()
		c.out.Wake(lookNodes, c.now.Add(c.timing.Period))
	case lookTurn:
		c.taintQueued()
	case lookDependent:
		c.syncDependent(key, types.UID(of.Name))
	case lookOrphans:
		c.syncOrphans(key, types.UID(of.Name))
	case lookNamespace:
		c.syncNamespace(key, of)
	case lookOverdue, lookUnknown:
		c.runRound(what)
	case lookClaim, lookAttach, lookDriver:
		c.syncDisks(what, key, of)
	}
}

// start marks a key as under way. The returned function ends it; after a failure the key is
// requeued with back-off.
func (c *controllers) start(key string) (done func(failed error)) {
	c.busy[key] = true
	return func(failed error) {
		delete(c.busy, key)
		switch {
		case failed != nil:
			c.failures[key]++
			c.wake(key, c.now.Add(min(time.Second<<min(c.failures[key]-1, 6), 30*time.Second)))
		case c.again[key]:
			c.wake(key, c.now)
		}
		if failed == nil {
			delete(c.failures, key)
		}
		delete(c.again, key)
	}
}

// write carries out what a controller has decided, and notes that it has.
func (c *controllers) write(controller string, ask Ask, read kinds.Object, then func(Outcome)) {
	key := ask.Target.Name
	if key == "" && ask.Object != nil {
		key = ask.Object.GetName()
	}
	if ask.Target.Namespace != "" {
		key = ask.Target.Namespace + "/" + key
	}
	decided := history.Decide{
		Controller: controller, Action: string(ask.Verb), Resource: ask.Target.Kind.GroupResource().String(), Key: key,
	}
	if read != nil {
		decided.ReadRevision = read.GetResourceVersion()
	}
	if ask.Verb != proto.VerbGet && ask.Verb != proto.VerbList {
		ask.Fact = decided
	}
	err := c.client.Do(c.now, c.out, ask, func(now time.Time, got Outcome, out Out) {
		c.now, c.out = now, out
		if then != nil {
			then(got)
		}
	})
	if err != nil {
		panic("sim: a controller's request: " + err.Error()) // a mistake in the simulator
	}
}

func targetOf(resource string, obj metav1.Object, subresource string) podapi.Target {
	return podapi.Target{Kind: kindOfResource(resource), Namespace: obj.GetNamespace(), Name: obj.GetName(), Subresource: subresource}
}

// afterAll calls then with the first error once n requests are answered; at once if n is 0.
func afterAll(n int, then func(error)) (one func(error)) {
	if n == 0 {
		then(nil)
		return nil
	}
	var first error
	return func(err error) {
		if first == nil {
			first = err
		}
		if n--; n == 0 {
			then(first)
		}
	}
}
