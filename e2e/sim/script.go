package sim

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Script is all that decides a life. One that is drawn from a seed has the network decide
// by that seed; one that is written has everything in it that deviates from a day without
// trouble, so that it can be played without the rest.
type Script struct {
	Seed  uint64        `json:"seed"`
	Nodes int           `json:"nodes"`
	Lasts time.Duration `json:"lasts"`
	// Calm is when all trouble ends; never when zero.
	Calm    time.Duration `json:"calm,omitempty"`
	Trouble Trouble       `json:"trouble,omitzero"`
	// Deeds are what users do and what breaks.
	Deeds []Deed `json:"deeds"`
	// Written says that the network does only what Deviations and Jitters say.
	Written    bool        `json:"written,omitempty"`
	Deviations []Deviation `json:"deviations,omitempty"`
	Jitters    []Window    `json:"jitters,omitempty"`
}

// Deed is something that a user does, or that breaks.
type Deed struct {
	At time.Duration `json:"at"`
	Do What          `json:"do"`
	// Name is a pod's, a set's, a node's or a process's.
	Name string `json:"name"`
	// Grace is a pod's own grace period, or that of a delete; in seconds.
	Grace *int64 `json:"grace,omitempty"`
	// Count is how many pods a set is to have, how many changes a compaction leaves, how many
	// webhooks there are, or the code that one denies with.
	Count int32 `json:"count,omitempty"`
	// For is how long it stays broken, or how slow a disk is.
	For time.Duration `json:"for,omitempty"`
	// App is what the pods' application does, and Finalizer has a pod held.
	App       App           `json:"app,omitzero"`
	PreStop   time.Duration `json:"preStop,omitempty"`
	Finalizer bool          `json:"finalizer,omitempty"`
	// Ways are the directions of a cut: "in", "out" or both when empty; or what else there is
	// to say of a kind of deed.
	Ways string `json:"ways,omitempty"`
	// Shape is what else the pods have.
	Shape Shape `json:"shape,omitzero"`
	// Policy is what becomes of what depends on what is deleted.
	Policy metav1.DeletionPropagation `json:"policy,omitempty"`
}

// What is a kind of deed.
type What string

// What users do.
const (
	CreatePod       What = "create pod"
	DeletePod       What = "delete pod"
	ForceDelete     What = "force-delete pod"
	AddFinalizer    What = "add finalizer to pod"
	RemoveFinalizer What = "remove finalizer of pod"
	CreateReplicas  What = "create replicaset"
	CreateStateful  What = "create statefulset"
	ScaleReplicas   What = "scale replicaset"
	ScaleStateful   What = "scale statefulset"
	OutOfService    What = "taint out of service"
	BackInService   What = "untaint node"
	DeleteNode      What = "delete node"
)

// Compact has the apiserver forget its history, all but its end.
const Compact What = "compact history"

// What breaks.
const (
	CutNode  What = "cut"
	Crash    What = "crash"
	Reboot   What = "reboot"
	Pause    What = "pause"
	SlowDisk What = "slow disk"
	DiskFail What = "fail disk"
)

// fault reports whether a deed breaks something.
func (w What) fault() bool {
	return slices.Contains([]What{CutNode, Crash, Reboot, Pause, SlowDisk, DiskFail, BreakPoint, Twin, HookBreaks, Mislead}, w)
}

// String is the deed in a story.
func (d Deed) String() string {
	text := fmt.Sprintf("%s: %s %s", clockOf(d.At), d.Do, d.Name)
	if d.Grace != nil {
		text += fmt.Sprintf(", grace %d s", *d.Grace)
	}
	if d.Policy != "" {
		text += ", " + string(d.Policy)
	}
	if d.Do == Compact {
		return text + fmt.Sprintf("but for the last %d changes", d.Count)
	}
	switch {
	case d.Do == DeleteOneOf, d.Do == EvictOneOf, d.Do == Unlabel:
		text += fmt.Sprintf(", number %d", d.Count)
	case d.Do == CreateBudget, d.Do == ChangeBudget:
		text += fmt.Sprintf(", at least %d", d.Count)
	case d.Do == CreateJob, d.Do == CreateCronJob:
		text += fmt.Sprintf(", %d completions", d.Count)
	case d.Do == CreateHook:
		text += fmt.Sprintf(", %d webhooks", d.Count)
	case d.Do == HookDenies && d.Count > 0:
		text += fmt.Sprintf(", with code %d", d.Count)
	case d.Count > 0:
		text += fmt.Sprintf(", %d replicas", d.Count)
	}
	if d.Ways != "" && d.Do == CutNode {
		text += ", " + d.Ways + " only"
	} else if d.Ways != "" {
		text += ", " + d.Ways
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

// clockOf is a time since the beginning.
func clockOf(at time.Duration) string {
	return fmt.Sprintf("%02d:%02d.%03d", int(at.Minutes()), int(at.Seconds())%60, at.Milliseconds()%1000)
}

func (s *Script) sort() {
	slices.SortStableFunc(s.Deeds, func(a, b Deed) int { return cmp.Compare(a.At, b.At) })
}

// NodeNames are those of a life.
func (s *Script) NodeNames() []string {
	names := make([]string, s.Nodes)
	for i := range names {
		names[i] = fmt.Sprintf("node-%d", i+1)
	}
	return names
}

// troubled reports whether something breaks among the deeds.
func troubled(deeds []Deed) bool {
	return slices.ContainsFunc(deeds, func(deed Deed) bool { return deed.Do.fault() })
}

// resources are all that the controllers follow in a life: Deployments and CronJobs only where
// some are made.
func (s *Script) resources() []string {
	all := []string{
		"nodes", "pods", "leases.coordination.k8s.io", "replicasets.apps", "statefulsets.apps", "namespaces",
		"daemonsets.apps", "jobs.batch", "poddisruptionbudgets.policy",
		claimsResource, volumesResource, attachmentsResource,
	}
	for _, sometimes := range []struct {
		made     What
		resource string
	}{{CreateDeployment, deploymentsResource}, {CreateCronJob, cronJobsResource}} {
		if slices.ContainsFunc(s.Deeds, func(deed Deed) bool { return deed.Do == sometimes.made }) {
			all = append(all, sometimes.resource)
		}
	}
	return all
}

// Quiet is the same life when nothing breaks, and nobody says of a node that it is broken.
func (s Script) Quiet() Script {
	s.Trouble = Trouble{}
	s.Deeds = slices.DeleteFunc(slices.Clone(s.Deeds), func(d Deed) bool {
		return d.Do.fault() || d.Do == OutOfService || d.Do == BackInService || d.Do == DeleteNode
	})
	return s
}
