package why

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/proto/kinds"
)

// Object is the evidence about an object other than a pod.
type Object struct {
	// Now is the observer's time on the cluster's clock.
	Now time.Time
	// What is kind/name: namespace/shop.
	What string
	// Object is nil if the API has none.
	Object kinds.Object
	// Below holds the reports of what the object may wait for: its pods, its dependents, its
	// content.
	Below []Report
	// Node is more evidence if the object is a node.
	Node Node
	Telemetry
}

// ExplainObject returns what an object waits for.
func ExplainObject(o Object) Report {
	report := Report{Object: o.What, Findings: []Finding{}, Sources: o.sources(o.Now)}
	if report.AllSilent() {
		o.Telemetry = Telemetry{}
	}
	o.Telemetry, o.Node, o.Now = o.onAPIServerClock(o.Node, o.Now)
	report.At = o.Now
	if o.Object == nil {
		report.State = "the API has no such object"
		return report
	}
	report.UID, report.Namespace = string(o.Object.GetUID()), o.Object.GetNamespace()
	f := &findings{}
	report.State = "it is not being deleted"
	if deleted := o.Object.GetDeletionTimestamp(); deleted != nil {
		report.Deleted, report.State = deleted.Time, "terminating "+lastingFor(o.Now, deleted.Time)
	}
	_, namespace := o.Object.(*corev1.Namespace)
	for _, below := range o.Below {
		if below.Blocked() && (!namespace || !report.Deleted.IsZero()) { // a namespace that stays waits for nothing
			report.Below = append(report.Below, below)
		}
	}
	switch obj := o.Object.(type) {
	case *corev1.Namespace:
		o.checkNamespace(f, obj, report.Below)
	case *corev1.Node:
		o.checkNode(f, obj)
		checkFinalizers(f, obj, o.Now, o.Telemetry, obj.GetFinalizers())
	case *corev1.PersistentVolumeClaim, *corev1.PersistentVolume:
		o.checkStorage(f)
	default:
		o.checkWorkload(f, report.Below)
	}
	report.Findings = append(report.Findings, f.all...)
	return report
}

// checkNamespace handles a namespace, which waits for its content. Its conditions say what is left.
func (o Object) checkNamespace(f *findings, namespace *corev1.Namespace, below []Report) {
	if namespace.DeletionTimestamp == nil {
		return
	}
	var left []string
	since := time.Time{}
	for _, c := range namespace.Status.Conditions {
		switch c.Type { //nolint:exhaustive // the others are about failures of discovery
		case corev1.NamespaceContentRemaining, corev1.NamespaceFinalizersRemaining, corev1.NamespaceDeletionContentFailure:
			if c.Status == corev1.ConditionTrue {
				left, since = append(left, c.Message), c.LastTransitionTime.Time
			}
		}
	}
	for _, report := range below {
		left = append(left, report.Object+": "+strings.Join(report.IDs(), ", "))
	}
	// Content that is being deleted in time is no unusual blocker.
	if len(left) > 0 && (len(below) > 0 || o.Now.Sub(namespace.DeletionTimestamp.Time) > usualStopTime) {
		f.add(cause("namespace-content"), since, left...)
	}
}

// checkStorage handles claims and volumes, which wait for their users.
func (o Object) checkStorage(f *findings) {
	deleted := o.Object.GetDeletionTimestamp()
	if deleted == nil {
		return
	}
	var other []string
	for _, finalizer := range o.Object.GetFinalizers() {
		switch finalizer {
		case claimProtection:
			evidence := []string{"finalizer " + finalizer}
			for _, report := range o.Below {
				evidence = append(evidence, "used by "+report.Object)
			}
			if o.Now.Sub(deleted.Time) > stepPatience {
				f.add(cause("claim-in-use"), deleted.Time, evidence...)
			}
		case volumeProtection:
			if o.Now.Sub(deleted.Time) > stepPatience {
				f.add(cause("volume-bound"), deleted.Time, "finalizer "+finalizer)
			}
		default:
			other = append(other, finalizer)
		}
	}
	checkFinalizers(f, o.Object, o.Now, o.Telemetry, other)
}

// checkWorkload handles a workload, which waits for its pods, and in the foreground for all its
// dependents.
func (o Object) checkWorkload(f *findings, below []Report) {
	for _, report := range below { // blockers of its pods block the workload
		for _, finding := range report.Findings {
			if finding.Blocks {
				f.add(cause(finding.Name), finding.Since, withPrefix(report.Object+": ", finding.Evidence)...).Maybe = finding.Maybe
			}
		}
	}
	if o.Object.GetDeletionTimestamp() != nil && len(below) == 0 {
		o.checkDependents(f)
	}
}

func withPrefix(prefix string, texts []string) []string {
	all := make([]string, 0, len(texts))
	for _, text := range texts {
		all = append(all, prefix+text)
	}
	return all
}

// checkDependents reports whether an object that is deleted in the foreground still waits for
// dependents.
func (o Object) checkDependents(f *findings) {
	for _, finalizer := range o.Object.GetFinalizers() {
		if finalizer == metav1.FinalizerDeleteDependents && len(o.Below) > 0 {
			if runs, known := o.controllerRuns(garbageCollector); runs || !known {
				if o.Now.Sub(o.Object.GetDeletionTimestamp().Time) > usualStopTime {
					f.add(cause("dependents-remain"), o.Object.GetDeletionTimestamp().Time, fmt.Sprintf("%d dependents are left", len(o.Below)))
				}
				return
			}
		}
	}
	checkFinalizers(f, o.Object, o.Now, o.Telemetry, o.Object.GetFinalizers())
}

// checkNode handles a Node object: what its silence means for its pods.
func (o Object) checkNode(f *findings, node *corev1.Node) {
	o.Node.Node = node
	checkNodeSilence(f, o.Node, o.Telemetry, o.Now)
}

// The controllers whose absence keeps objects.
const (
	garbageCollector = "garbage-collector-controller"
	jobController    = "job-controller"
	podCollector     = "pod-garbage-collector-controller"
)

// The finalizers of the cluster's own controllers.
const (
	jobTracking      = "batch.kubernetes.io/job-tracking"
	claimProtection  = "kubernetes.io/pvc-protection"
	volumeProtection = "kubernetes.io/pv-protection"
)

// controllerOf returns the controller that removes a finalizer; empty for foreign finalizers.
func controllerOf(finalizer string) string {
	switch finalizer {
	case metav1.FinalizerDeleteDependents, metav1.FinalizerOrphanDependents:
		return garbageCollector
	case jobTracking:
		return jobController
	}
	return ""
}

// checkFinalizers names what some of an object's finalizers wait for. A finalizer that a DELETE warns of
// is named at once. The cluster's own controllers have a moment to remove theirs.
func checkFinalizers(f *findings, obj kinds.Object, now time.Time, t Telemetry, names []string) {
	deleted := obj.GetDeletionTimestamp()
	if deleted == nil {
		return
	}
	for _, finalizer := range names {
		if usualFinalizer(finalizer) && now.Sub(deleted.Time) < stepPatience {
			continue
		}
		evidence := "finalizer " + finalizer
		switch controllerOf(finalizer) {
		case garbageCollector:
			t.addControllerEvidence(f.add(cause("garbage-collector-down"), deleted.Time, evidence), garbageCollector)
		case jobController:
			t.addControllerEvidence(f.add(cause("job-controller-down"), deleted.Time, evidence), jobController)
		default:
			t.addForeignFinalizer(f, obj, evidence)
		}
	}
}

// addForeignFinalizer reports a finalizer of an unknown controller. Only a refusal of its removal
// can be seen.
func (t Telemetry) addForeignFinalizer(f *findings, obj kinds.Object, evidence string) {
	since := obj.GetDeletionTimestamp().Time
	if refused := t.refusals(obj); len(refused) > 0 {
		f.add(cause("finalizer-removal-refused"), since, append([]string{evidence}, refused...)...)
		return
	}
	f.add(cause("finalizer-not-removed"), since, evidence, "no write that would remove it was refused")
}

// addControllerEvidence adds how it was found that a controller does not remove its finalizer.
func (t Telemetry) addControllerEvidence(finding *Finding, controller string) {
	runs, known := t.controllerRuns(controller)
	switch {
	case !known:
		finding.Maybe = []string{"STK-02"}
	case !runs && t.Controllers.IsSilent():
		finding.Evidence = append(finding.Evidence, "the controllers' process does not answer: "+t.Controllers.Err)
	case !runs:
		finding.Evidence = append(finding.Evidence, "the "+controller+" is not among the controllers that run")
	default:
		finding.Evidence = append(finding.Evidence, "the "+controller+" is started, and has not done its work")
	}
}

// refusals returns the writes of the object that the apiserver refused lately, without the
// kubelet's.
func (t Telemetry) refusals(obj kinds.Object) []string {
	if t.APIServer.Report == nil {
		return nil
	}
	key := obj.GetName()
	if obj.GetNamespace() != "" {
		key = obj.GetNamespace() + "/" + key
	}
	var found []string
	for _, r := range t.APIServer.Report.Refused {
		if r.Key != key || (r.Verb != "update" && r.Verb != "patch") || r.UID != "" && r.UID != string(obj.GetUID()) || strings.HasPrefix(r.Requester, "node:") {
			continue
		}
		if r.Last.Before(obj.GetDeletionTimestamp().Add(-time.Second)) && obj.GetDeletionGracePeriodSeconds() != nil {
			continue
		}
		found = append(found, fmt.Sprintf("%s: %s %s was refused %d times: %d %s", r.Requester, r.Verb, r.Resource, r.Count, r.Code, r.Message))
	}
	return found
}
