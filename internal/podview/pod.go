package podview

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/proto/kinds"
)

// The words of the STATUS column that are in no pod field.
const (
	terminating = "Terminating"
	completed   = "Completed"
	nodeLost    = "NodeLost"
)

func podPrinter() printer {
	return newPrinter(
		View.podCells,
		nameColumn(), textColumn("Ready", "The aggregate readiness state of this pod for accepting traffic."), textColumn("Status", "The aggregate status of the containers in this pod."), textColumn("Restarts", "The number of times the containers in this pod have been restarted and when the last container in this pod has restarted."), ageColumn(),
		wideOnly(textColumn("IP", corev1.PodStatus{}.SwaggerDoc()["podIP"])), wideOnly(textColumn("Node", corev1.PodSpec{}.SwaggerDoc()["nodeName"])), wideOnly(textColumn("Nominated Node", corev1.PodStatus{}.SwaggerDoc()["nominatedNodeName"])), wideOnly(textColumn("Readiness Gates", corev1.PodSpec{}.SwaggerDoc()["readinessGates"])),
	)
}

// podCells returns the row of PRN-01 and, for -o wide, PRN-14.
func (v View) podCells(pod *corev1.Pod) []any {
	count := countContainers(pod)
	ip := ""
	if len(pod.Status.PodIPs) > 0 {
		ip = pod.Status.PodIPs[0].IP
	}
	return []any{
		pod.Name,
		fmt.Sprintf("%d/%d", count.ready, count.all),
		v.overallStatus(pod, count.status),
		v.formatRestarts(count),
		v.objectAge(pod),
		orNone(ip),
		orNone(pod.Spec.NodeName),
		orNone(pod.Status.NominatedNodeName),
		readinessGates(pod),
	}
}

// PodStatus returns the STATUS column of a pod's row.
func (v View) PodStatus(pod *corev1.Pod) string {
	return v.overallStatus(pod, countContainers(pod).status)
}

// overallStatus returns the STATUS column, given the containers' status (PRN-10, PRN-11). Which
// pods being deleted are Terminating depends on the release.
func (v View) overallStatus(pod *corev1.Pod, containers string) string {
	switch {
	case pod.DeletionTimestamp == nil:
		return containers
	case pod.Status.Reason == nodeLost:
		return "Unknown"
	case v.Compat.TerminatingUntilGone || !isTerminal(pod.Status.Phase):
		return terminating
	default:
		return containers
	}
}

// formatRestarts returns the RESTARTS column (PRN-12).
func (v View) formatRestarts(c containerCount) string {
	if c.restarts == 0 || c.lastRestart.IsZero() {
		return strconv.Itoa(c.restarts)
	}
	return fmt.Sprintf("%d (%s ago)", c.restarts, v.Since(c.lastRestart))
}

// containerCount is the sum over a pod's containers.
type containerCount struct {
	ready, all  int
	restarts    int
	lastRestart time.Time
	// status is the STATUS column of a pod that is not being deleted.
	status string
}

// add counts the restarts of one container.
func (c *containerCount) add(status corev1.ContainerStatus) {
	c.restarts += int(status.RestartCount)
	if last := status.LastTerminationState.Terminated; last != nil && last.FinishedAt.After(c.lastRestart) {
		c.lastRestart = last.FinishedAt.Time
	}
}

// countContainers counts a pod's containers (PRN-02 to PRN-06, PRN-12).
func countContainers(pod *corev1.Pod) containerCount {
	sidecars := sidecarNames(pod)
	count := containerCount{all: len(pod.Spec.Containers) + len(sidecars), status: baseStatus(pod)}
	running := count // the count if all init containers are done
	initializing := false
	for i, status := range pod.Status.InitContainerStatuses {
		count.add(status)
		if sidecars[status.Name] {
			running.add(status)
		}
		word, pending := initStatus(status, sidecars[status.Name])
		if pending {
			count.status = word
			if word == "" {
				count.status = fmt.Sprintf("Init:%d/%d", i, len(pod.Spec.InitContainers))
			}
			initializing = true
			break
		}
		if status.Ready && !hasSucceeded(status) {
			count.ready++
		}
	}
	if initializing && !conditionTrue(pod, corev1.PodInitialized) {
		return count
	}
	running.ready = count.ready
	running.status = count.status
	countRegular(&running, pod)
	return running
}

// baseStatus returns the status before the containers are considered (PRN-03).
func baseStatus(pod *corev1.Pod) string {
	word := string(pod.Status.Phase)
	if pod.Status.Reason != "" {
		word = pod.Status.Reason
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonSchedulingGated {
			return corev1.PodReasonSchedulingGated
		}
	}
	return word
}

// hasSucceeded reports whether a container has ended with code 0.
func hasSucceeded(status corev1.ContainerStatus) bool {
	return status.State.Terminated != nil && status.State.Terminated.ExitCode == 0
}

// initStatus reports whether an init container blocks the pod, and its status word. An empty word
// means the count of finished init containers (PRN-04).
func initStatus(status corev1.ContainerStatus, sidecar bool) (word string, pending bool) {
	switch ended, waiting := status.State.Terminated, status.State.Waiting; {
	case hasSucceeded(status):
		return "", false
	case sidecar && status.Started != nil && *status.Started:
		return "", false
	case ended != nil:
		return "Init:" + terminatedStatus(ended), true
	case waiting != nil && waiting.Reason != "" && waiting.Reason != "PodInitializing":
		return "Init:" + waiting.Reason, true
	default:
		return "", true
	}
}

// countRegular counts the regular containers; the first container determines the status (PRN-05,
// PRN-06).
func countRegular(count *containerCount, pod *corev1.Pod) {
	failure := ""
	alive := false
	for _, status := range slices.Backward(pod.Status.ContainerStatuses) {
		count.add(status)
		switch ended, waiting := status.State.Terminated, status.State.Waiting; {
		case waiting != nil && waiting.Reason != "":
			count.status = waiting.Reason
		case ended != nil:
			count.status = terminatedStatus(ended)
			if ended.ExitCode != 0 {
				failure = count.status
			}
		case status.Ready && status.State.Running != nil:
			alive = true
			count.ready++
		}
	}
	if count.status != completed {
		return
	}
	switch {
	case alive && conditionTrue(pod, corev1.PodReady):
		count.status = "Running"
	case failure != "":
		count.status = failure
	case alive:
		count.status = "NotReady"
	}
}

// terminatedStatus returns the status word of a terminated container.
func terminatedStatus(ended *corev1.ContainerStateTerminated) string {
	switch {
	case ended.Reason != "":
		return ended.Reason
	case ended.Signal != 0:
		return fmt.Sprintf("Signal:%d", ended.Signal)
	default:
		return fmt.Sprintf("ExitCode:%d", ended.ExitCode)
	}
}

// sidecarNames returns the restartable init containers.
func sidecarNames(pod *corev1.Pod) map[string]bool {
	names := map[string]bool{}
	for _, c := range pod.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			names[c.Name] = true
		}
	}
	return names
}

func readinessGates(pod *corev1.Pod) string {
	if len(pod.Spec.ReadinessGates) == 0 {
		return none
	}
	open := 0
	for _, gate := range pod.Spec.ReadinessGates {
		if conditionTrue(pod, gate.ConditionType) {
			open++
		}
	}
	return fmt.Sprintf("%d/%d", open, len(pod.Spec.ReadinessGates))
}

func conditionTrue(pod *corev1.Pod, kind corev1.PodConditionType) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == kind {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func isTerminal(phase corev1.PodPhase) bool {
	return phase == corev1.PodSucceeded || phase == corev1.PodFailed
}

func phaseOf(obj kinds.Object) (corev1.PodPhase, bool) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return "", false
	}
	return pod.Status.Phase, true
}

// rowConditions returns the Completed condition, by which clients may hide rows (PRN-15).
func rowConditions(phase corev1.PodPhase) []metav1.TableRowCondition {
	if !isTerminal(phase) {
		return nil
	}
	message := "The pod has completed successfully."
	if phase == corev1.PodFailed {
		message = "The pod failed."
	}
	return []metav1.TableRowCondition{{
		Type: metav1.RowCompleted, Status: metav1.ConditionTrue, Reason: string(phase), Message: message,
	}}
}
