package sim

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Script is everything that decides a run. In a drawn script the network decides by the seed. A
// recorded script lists every deviation from a fault-free network, so that each can be left out.
type Script struct {
	Seed     uint64        `json:"seed"`
	Nodes    int           `json:"nodes"`
	Duration time.Duration `json:"lasts"`
	// FaultsEnd is when all faults end; 0 is never.
	FaultsEnd time.Duration `json:"calm,omitempty"`
	NetFaults FaultRates    `json:"trouble,omitzero"`
	// Actions are the user actions and the fault injections.
	Actions []Action `json:"deeds"`
	// Recorded means that the network does only what Deviations and Jitters say.
	Recorded   bool        `json:"written,omitempty"`
	Deviations []Deviation `json:"deviations,omitempty"`
	Jitters    []Window    `json:"jitters,omitempty"`
}

// Action is a user action or a fault injection at a time after the start.
type Action struct {
	At   time.Duration `json:"at"`
	Kind ActionKind    `json:"do"`
	// Name is the name of a pod, a set, a node or a process.
	Name string `json:"name"`
	// Grace is the grace period of the pod or of the delete, in seconds.
	Grace *int64 `json:"grace,omitempty"`
	// Count is the size of a set, the changes that a compaction keeps, the number of webhooks, or
	// the HTTP code of a denial.
	Count int32 `json:"count,omitempty"`
	// For is how long a fault lasts, or the delay of a slow disk.
	For time.Duration `json:"for,omitempty"`
	// App is what the pods' application does. Finalizer gives the pod a finalizer.
	App       App           `json:"app,omitzero"`
	PreStop   time.Duration `json:"preStop,omitempty"`
	Finalizer bool          `json:"finalizer,omitempty"`
	// Detail is the direction of a cut ("in", "out", or both if empty), or a parameter of the kind
	// of action.
	Detail string `json:"ways,omitempty"`
	// Shape describes the optional parts of the pods.
	Shape Shape `json:"shape,omitzero"`
	// Policy is the propagation policy of a delete.
	Policy metav1.DeletionPropagation `json:"policy,omitempty"`
}

// ActionKind is a kind of action.
type ActionKind string

// User actions.
const (
	CreatePod       ActionKind = "create pod"
	DeletePod       ActionKind = "delete pod"
	ForceDelete     ActionKind = "force-delete pod"
	AddFinalizer    ActionKind = "add finalizer to pod"
	RemoveFinalizer ActionKind = "remove finalizer of pod"
	CreateReplicas  ActionKind = "create replicaset"
	CreateStateful  ActionKind = "create statefulset"
	ScaleReplicas   ActionKind = "scale replicaset"
	ScaleStateful   ActionKind = "scale statefulset"
	OutOfService    ActionKind = "taint out of service"
	BackInService   ActionKind = "untaint node"
	DeleteNode      ActionKind = "delete node"
)

// Compact makes the apiserver forget its history except the end.
const Compact ActionKind = "compact history"

// Fault injections.
const (
	CutNode  ActionKind = "cut"
	Crash    ActionKind = "crash"
	Reboot   ActionKind = "reboot"
	Pause    ActionKind = "pause"
	SlowDisk ActionKind = "slow disk"
	FailDisk ActionKind = "fail disk"
)

// isFault reports whether the action injects a fault.
func (w ActionKind) isFault() bool {
	return slices.Contains([]ActionKind{CutNode, Crash, Reboot, Pause, SlowDisk, FailDisk, FaultAtPoint, SecondKubelet, WebhookFails, SkewClock}, w)
}

// String returns the action as a line of a story.
func (d Action) String() string {
	text := fmt.Sprintf("%s: %s %s", formatClock(d.At), d.Kind, d.Name)
	if d.Grace != nil {
		text += fmt.Sprintf(", grace %d s", *d.Grace)
	}
	if d.Policy != "" {
		text += ", " + string(d.Policy)
	}
	if d.Kind == Compact {
		return text + fmt.Sprintf("but for the last %d changes", d.Count)
	}
	switch {
	case d.Kind == DeletePodOf, d.Kind == EvictPodOf, d.Kind == Unlabel:
		text += fmt.Sprintf(", number %d", d.Count)
	case d.Kind == CreateBudget, d.Kind == ChangeBudget:
		text += fmt.Sprintf(", at least %d", d.Count)
	case d.Kind == CreateJob, d.Kind == CreateCronJob:
		text += fmt.Sprintf(", %d completions", d.Count)
	case d.Kind == CreateWebhook:
		text += fmt.Sprintf(", %d webhooks", d.Count)
	case d.Kind == WebhookDenies && d.Count > 0:
		text += fmt.Sprintf(", with code %d", d.Count)
	case d.Count > 0:
		text += fmt.Sprintf(", %d replicas", d.Count)
	}
	if d.Detail != "" && d.Kind == CutNode {
		text += ", " + d.Detail + " only"
	} else if d.Detail != "" {
		text += ", " + d.Detail
	}
	if d.For > 0 {
		text += fmt.Sprintf(", for %v", d.For)
	}
	if args := d.App.Args(); len(args) > 0 {
		text += ", application " + strings.Join(args, " ")
	}
	if d.PreStop > 0 {
		text += fmt.Sprintf(", preStop %v", d.PreStop)
	}
	if d.Finalizer {
		text += ", with a finalizer"
	}
	if shape := d.Shape.String(); shape != "" {
		text += ", shape " + shape
	}
	return text
}

// formatClock formats a time since the start.
func formatClock(at time.Duration) string {
	return fmt.Sprintf("%02d:%02d.%03d", int(at.Minutes()), int(at.Seconds())%60, at.Milliseconds()%1000)
}

func (s *Script) sort() {
	slices.SortStableFunc(s.Actions, func(a, b Action) int { return cmp.Compare(a.At, b.At) })
}

// NodeNames returns the names of the nodes.
func (s *Script) NodeNames() []string {
	names := make([]string, s.Nodes)
	for i := range names {
		names[i] = fmt.Sprintf("node-%d", i+1)
	}
	return names
}

// hasFaults reports whether an action injects a fault.
func hasFaults(actions []Action) bool {
	return slices.ContainsFunc(actions, func(action Action) bool { return action.Kind.isFault() })
}

// followedResources returns the resources that the controllers follow. Deployments and CronJobs are
// among them only if the script creates some.
func (s *Script) followedResources() []string {
	all := []string{
		"nodes", "pods", "leases.coordination.k8s.io", "replicasets.apps", "statefulsets.apps", "namespaces",
		"daemonsets.apps", "jobs.batch", "poddisruptionbudgets.policy",
		claimsResource, volumesResource, attachmentsResource,
	}
	for _, sometimes := range []struct {
		made     ActionKind
		resource string
	}{{CreateDeployment, deploymentsResource}, {CreateCronJob, cronJobsResource}} {
		if slices.ContainsFunc(s.Actions, func(action Action) bool { return action.Kind == sometimes.made }) {
			all = append(all, sometimes.resource)
		}
	}
	return all
}

// WithoutFaults returns the script without faults, and without users that mark nodes as out of
// service.
func (s Script) WithoutFaults() Script {
	s.NetFaults = FaultRates{}
	s.Actions = slices.DeleteFunc(slices.Clone(s.Actions), func(d Action) bool {
		return d.Kind.isFault() || d.Kind == OutOfService || d.Kind == BackInService || d.Kind == DeleteNode
	})
	return s
}
