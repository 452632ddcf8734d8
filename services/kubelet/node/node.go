// Package node registers the node, reports its status, and renews its lease. It is told the state
// of the runtime, and checks nothing itself.
package node

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/internal/task"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
)

// API is the part of the apiserver that a node uses.
type API interface {
	Create(ctx context.Context, target podapi.Target, obj kinds.Object, opts metav1.CreateOptions) (kinds.Object, error)
	Get(ctx context.Context, target podapi.Target, opts metav1.GetOptions) (kinds.Object, error)
	Update(ctx context.Context, target podapi.Target, obj kinds.Object, opts metav1.UpdateOptions) (kinds.Object, error)
}

// Timing holds the intervals of reports.
type Timing struct {
	// LeaseDuration is how long a lease is valid; it is renewed every LeaseRenew (KBL-80).
	LeaseDuration, LeaseRenew time.Duration
	// Compute is the interval at which the status is computed. Report is the interval of updates in
	// which only the heartbeat has changed.
	Compute, Report time.Duration
	// Retry is the time between two attempts to register.
	Retry time.Duration
}

// Config holds what a Node uses.
type Config struct {
	API API
	Driver
	Timing   Timing
	Name     string
	Labels   map[string]string
	Capacity corev1.ResourceList
	Boot     proto.Boot
	Health   Health
	// Volumes are those that are attached to the node.
	Volumes Volumes
	Nodes   kinds.Kind
	Leases  kinds.Kind
	Log     *slog.Logger
}

// Driver is what a Node runs on: the wall clock if Clock is nil, goroutines if Tasks is.
type Driver struct {
	Clock task.Clock
	Tasks task.Scheduler
}

// Volumes are the attachable volumes of the node's pods.
type Volumes interface {
	// InUse returns the volumes that must not be detached. InUseChanges is readable when they have
	// changed. Reported says that the API knows them.
	InUse() []corev1.UniqueVolumeName
	InUseChanges() <-chan struct{}
	Reported(names []corev1.UniqueVolumeName)
}

// Health is the health of the node.
type Health interface {
	// Problems returns why the node is not ready, or nothing.
	Problems() []string
	// Pressures returns the pressures that the node is under.
	Pressures() []corev1.NodeConditionType
}

// Node reports one node.
type Node struct {
	cfg       Config
	reportNow chan struct{}
	current   atomic.Pointer[corev1.Node]
	object    *corev1.Node
	lease     *coordinationv1.Lease
	reported  time.Time
}

// leaseNamespace is where the nodes' leases are.
const leaseNamespace = "kube-node-lease"

// New returns a node that reports nothing yet.
func New(cfg Config) *Node {
	if cfg.Clock == nil {
		cfg.Clock = clock.Clock{}
	}
	cfg.Tasks = task.OrGoroutines(cfg.Tasks)
	return &Node{cfg: cfg, reportNow: make(chan struct{}, 1)}
}

// ReportNow causes the status to be reported at once. It never blocks.
func (n *Node) ReportNow() {
	select {
	case n.reportNow <- struct{}{}:
	default:
	}
}

// Current returns the node as the API last showed it; nil before it is registered. It is safe for
// concurrent use, and the result must not be changed.
func (n *Node) Current() *corev1.Node { return n.current.Load() }

// Register creates the Node object, or takes over an existing one. It retries until ctx ends.
func (n *Node) Register(ctx context.Context) error {
	for {
		err := n.register(ctx)
		if err == nil {
			return nil
		}
		n.cfg.Log.WarnContext(ctx, "register the node", "node", n.cfg.Name, "err", err)
		if err := n.cfg.Clock.Sleep(ctx, n.cfg.Timing.Retry); err != nil {
			return err
		}
	}
}

func (n *Node) register(ctx context.Context) error {
	obj, err := n.cfg.API.Create(ctx, n.target(""), n.cfg.NewObject(n.cfg.Clock.Now()), metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		obj, err = n.cfg.API.Get(ctx, n.target(""), metav1.GetOptions{})
	}
	if err != nil {
		return fmt.Errorf("register node %s: %w", n.cfg.Name, err)
	}
	return n.setObject(obj)
}

// Run reports the status and renews the lease until ctx ends, each in a task of its own: a
// report that is not answered holds up no lease. Register comes first.
func (n *Node) Run(ctx context.Context) error {
	tasks := n.cfg.Tasks.Group()
	defer tasks.Wait()
	tasks.Go(func() { n.renewLeases(ctx) })
	n.log(ctx, "report the node's status", n.Report(ctx))
	next := n.cfg.Clock.Steady().Add(n.cfg.Timing.Compute)
	for {
		computing, cancel := n.cfg.Clock.Timeout(ctx, next.Sub(n.cfg.Clock.Steady()))
		err := n.cfg.Tasks.Wait(computing, n.reportNow, n.cfg.Volumes.InUseChanges())
		cancel()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			next = n.cfg.Clock.Steady().Add(n.cfg.Timing.Compute)
			err = n.fetch(ctx)
		}
		if err == nil {
			err = n.Report(ctx)
		}
		n.log(ctx, "report the node's status", err)
	}
}

// renewLeases renews the lease until ctx ends.
func (n *Node) renewLeases(ctx context.Context) {
	for next := n.cfg.Clock.Steady(); ; {
		n.log(ctx, "renew the node's lease", n.renew(ctx))
		next = later(next.Add(n.cfg.Timing.LeaseRenew), n.cfg.Clock.Steady())
		if n.cfg.Clock.Sleep(ctx, next.Sub(n.cfg.Clock.Steady())) != nil {
			return
		}
	}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func (n *Node) log(ctx context.Context, what string, err error) {
	if err != nil && ctx.Err() == nil {
		n.cfg.Log.WarnContext(ctx, "the node could not speak", "node", n.cfg.Name, "doing", what, "err", err)
	}
}

// fetch takes what others have written to the node, as upstream's kubelet does by a watch. Once the
// node is connected again, a Ready that the node lifecycle controller has made Unknown differs from
// the kubelet's, and is reported at once.
func (n *Node) fetch(ctx context.Context) error {
	obj, err := n.cfg.API.Get(ctx, n.target(""), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil // Report sees it when it writes
	}
	if err != nil {
		return fmt.Errorf("look at node %s: %w", n.cfg.Name, err)
	}
	return n.setObject(obj)
}

// Report updates the node's status if it has changed, or if the last report is old.
func (n *Node) Report(ctx context.Context) error {
	now, shown := n.cfg.Clock.Steady(), n.cfg.Clock.Now()
	for range 3 {
		wanted, changed := n.cfg.Status(n.object.Status, shown)
		if !changed && now.Sub(n.reported) < n.cfg.Timing.Report {
			n.cfg.Volumes.Reported(n.object.Status.VolumesInUse)
			return nil
		}
		update := *n.object
		update.Status = wanted
		obj, err := n.cfg.API.Update(ctx, n.target("status"), &update, metav1.UpdateOptions{})
		if err == nil {
			n.reported = now
			n.cfg.Volumes.Reported(wanted.VolumesInUse)
			return n.setObject(obj)
		}
		switch {
		case apierrors.IsNotFound(err): // the node was deleted: register it again
			return n.register(ctx)
		case !apierrors.IsConflict(err):
			return fmt.Errorf("report node %s: %w", n.cfg.Name, err)
		}
		if obj, err = n.cfg.API.Get(ctx, n.target(""), metav1.GetOptions{}); err != nil {
			return fmt.Errorf("report node %s: %w", n.cfg.Name, err)
		}
		if err := n.setObject(obj); err != nil {
			return err
		}
	}
	return fmt.Errorf("report node %s: it changes faster than it can be written", n.cfg.Name)
}

func (n *Node) setObject(obj kinds.Object) error {
	node, ok := obj.(*corev1.Node)
	if !ok {
		return fmt.Errorf("node %s: the API answered with a %T", n.cfg.Name, obj)
	}
	n.object = node
	n.current.Store(node)
	return nil
}

func (n *Node) target(subresource string) podapi.Target {
	return podapi.Target{Kind: n.cfg.Nodes, Name: n.cfg.Name, Subresource: subresource}
}

// NewObject returns the node as it registers itself.
func (cfg Config) NewObject(now time.Time) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: cfg.Name, Labels: cfg.Labels,
	}}
	node.Status, _ = cfg.Status(corev1.NodeStatus{}, now)
	return node
}

// Status returns the node's present status, and whether more than the heartbeat differs from the
// API's.
func (cfg Config) Status(old corev1.NodeStatus, now time.Time) (corev1.NodeStatus, bool) {
	status := *old.DeepCopy()
	status.Capacity = cfg.Capacity.DeepCopy()
	status.Allocatable = cfg.Capacity.DeepCopy()
	status.Addresses = []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: HostIP},
		{Type: corev1.NodeHostName, Address: cfg.Name},
	}
	status.NodeInfo = corev1.NodeSystemInfo{
		BootID: string(cfg.Boot), KubeletVersion: "v1.37.0", ContainerRuntimeVersion: "podfall://1",
		OSImage: "podfall", OperatingSystem: cfg.Labels[corev1.LabelOSStable], Architecture: cfg.Labels[corev1.LabelArchStable],
	}
	status.VolumesInUse = cfg.Volumes.InUse()
	status.Conditions = nil
	for _, c := range append(pressureConditions(cfg.Health.Pressures()), cfg.readyCondition()) {
		status.Conditions = append(status.Conditions, stampCondition(c, old.Conditions, now))
	}
	for _, c := range old.Conditions {
		if find(status.Conditions, c.Type) == nil {
			status.Conditions = append(status.Conditions, c)
		}
	}
	return status, !kinds.Equal(withoutHeartbeats(old), withoutHeartbeats(status))
}

// HostIP is the address of every emulated node: they share one machine.
const HostIP = "127.0.0.1"

func (cfg Config) readyCondition() corev1.NodeCondition {
	problems := cfg.Health.Problems()
	switch len(problems) {
	case 0:
		return corev1.NodeCondition{
			Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", Message: "kubelet is posting ready status",
		}
	case 1:
		return corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Reason: "KubeletNotReady", Message: problems[0]}
	}
	return corev1.NodeCondition{
		Type: corev1.NodeReady, Status: corev1.ConditionFalse, Reason: "KubeletNotReady", Message: "[" + strings.Join(problems, ", ") + "]",
	}
}

// pressureConditions returns the three pressure conditions.
func pressureConditions(under []corev1.NodeConditionType) []corev1.NodeCondition {
	conditions := []corev1.NodeCondition{
		{
			Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse,
			Reason: "KubeletHasSufficientMemory", Message: "kubelet has sufficient memory available",
		},
		{
			Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse,
			Reason: "KubeletHasNoDiskPressure", Message: "kubelet has no disk pressure",
		},
		{
			Type: corev1.NodePIDPressure, Status: corev1.ConditionFalse,
			Reason: "KubeletHasSufficientPID", Message: "kubelet has sufficient PID available",
		},
	}
	short := [][2]string{
		{"KubeletHasInsufficientMemory", "kubelet has insufficient memory available"},
		{"KubeletHasDiskPressure", "kubelet has disk pressure"},
		{"KubeletHasInsufficientPID", "kubelet has insufficient PID available"},
	}
	for i := range conditions {
		if c := &conditions[i]; slices.Contains(under, c.Type) {
			c.Status, c.Reason, c.Message = corev1.ConditionTrue, short[i][0], short[i][1]
		}
	}
	return conditions
}

// stampCondition sets the times of a condition: the heartbeat is now, the transition the old one
// unless the status has changed.
func stampCondition(c corev1.NodeCondition, old []corev1.NodeCondition, now time.Time) corev1.NodeCondition {
	c.LastHeartbeatTime = metav1.Time{Time: now.Truncate(time.Second)}
	c.LastTransitionTime = c.LastHeartbeatTime
	if was := find(old, c.Type); was != nil && was.Status == c.Status {
		c.LastTransitionTime = was.LastTransitionTime
	}
	return c
}

func find(conditions []corev1.NodeCondition, kind corev1.NodeConditionType) *corev1.NodeCondition {
	for i := range conditions {
		if conditions[i].Type == kind {
			return &conditions[i]
		}
	}
	return nil
}

// withoutHeartbeats returns a status without its heartbeats.
func withoutHeartbeats(status corev1.NodeStatus) corev1.NodeStatus {
	status.Conditions = slices.Clone(status.Conditions)
	for i := range status.Conditions {
		status.Conditions[i].LastHeartbeatTime = metav1.Time{}
	}
	return status
}
