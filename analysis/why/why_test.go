package why

import (
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/inspect"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// stuckPod is the evidence of a pod with a grace period of 30 s that was deleted some time ago. Its
// node is well and has just begun the stop.
func stuckPod(ago time.Duration, change ...func(*Pod)) Pod {
	marked := now.Add(-ago)
	p := Pod{
		Now: now, Namespace: "default", Name: "web",
		Pod: &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "default", Name: "web", UID: "u1", Generation: 2, CreationTimestamp: metav1.NewTime(marked.Add(-time.Hour)),
				DeletionTimestamp: &metav1.Time{Time: marked.Add(30 * time.Second)}, DeletionGracePeriodSeconds: new(int64(30)),
			},
			Spec:   corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{{Name: "main"}}},
			Status: corev1.PodStatus{Phase: corev1.PodRunning, ObservedGeneration: 2},
		},
		Node: Node{Node: node(corev1.ConditionTrue, "KubeletReady", "kubelet is posting ready status"), Lease: lease(5 * time.Second)},
	}
	p.Kubelet = inspect.Answer[inspect.Kubelet]{At: now, Report: &inspect.Kubelet{
		Self: inspect.Self{Began: marked.Add(-time.Hour), Now: now}, Node: "node-1",
		API: inspect.Contact{Last: now.Add(-time.Second)}, Runtime: inspect.Contact{Last: now},
		Pods: []inspect.PodWorker{{Namespace: "default", Name: "web", UID: "u1", State: "Stopping", Marked: true, Grace: 30, Step: inspect.StepStop, Since: marked}},
	}}
	p.Runtime = inspect.Answer[inspect.Runtime]{At: now, Report: &inspect.Runtime{
		Self: inspect.Self{Now: now}, Node: "node-1",
		Containers: []inspect.Container{{ID: "c1", Name: "main", Namespace: "default", Pod: "web", UID: "u1", Alive: true, Times: inspect.Times{Started: marked.Add(-time.Hour), Signaled: marked}}},
	}}
	p.Controllers = inspect.Answer[inspect.Controllers]{At: now, Report: &inspect.Controllers{Running: []string{garbageCollector, jobController, podCollector}}}
	p.APIServer = inspect.Answer[inspect.APIServer]{At: now, Report: &inspect.APIServer{Self: inspect.Self{Now: now}}}
	for _, f := range change {
		f(&p)
	}
	return p
}

func node(ready corev1.ConditionStatus, reason, message string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node-1"},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: ready, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(now.Add(-time.Minute)),
		}}},
	}
}

func lease(ago time.Duration) *coordinationv1.Lease {
	return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: now.Add(-ago)}}}
}

// The changes that cases are made of.

func finished(p *Pod) {
	p.Pod.DeletionGracePeriodSeconds, p.Pod.Status.Phase = new(int64(0)), corev1.PodSucceeded
	p.Pod.DeletionTimestamp = &metav1.Time{Time: now.Add(-20 * time.Second)}
	ended(p)
	p.Kubelet.Report.Pods = nil
}

func ended(p *Pod) {
	p.Runtime.Report.Containers[0].Alive, p.Runtime.Report.Containers[0].Exited = false, now.Add(-30*time.Second)
}

func cleaning(step, failure string) func(*Pod) {
	return func(p *Pod) {
		ended(p)
		p.Pod.Status.Phase = corev1.PodSucceeded
		w := &p.Kubelet.Report.Pods[0]
		w.State, w.Step, w.Since, w.Err = "Stopped", step, now.Add(-30*time.Second), failure
	}
}

func finalizer(name string) func(*Pod) { return func(p *Pod) { p.Pod.Finalizers = []string{name} } }

func silentNode(p *Pod) {
	p.Node.Node = node(corev1.ConditionUnknown, "NodeStatusUnknown", "Kubelet stopped posting node status.")
	p.Node.Lease = lease(90 * time.Second)
}

func cut(p *Pod) {
	silentNode(p)
	p.Kubelet.Report.API = inspect.Contact{Last: now.Add(-90 * time.Second), Failing: now.Add(-80 * time.Second), Err: "no answer"}
}

func unheard(p *Pod) {
	p.Kubelet.Report.Pods[0].Marked, p.Kubelet.Report.Pods[0].State, p.Kubelet.Report.Pods[0].Step = false, "Syncing", ""
	p.Runtime.Report.Containers[0].Signaled = time.Time{}
}

// deadLinkOf has the bus report that a node's link has carried nothing for a second.
func deadLinkOf(node string) func(*Pod) {
	return func(p *Pod) {
		p.Bus = inspect.Answer[inspect.Bus]{At: now, Report: &inspect.Bus{Self: inspect.Self{Now: now}, Links: []inspect.Link{
			{Member: "apiserver"}, {Member: node, Silent: "either way", Since: now.Add(-time.Second)},
		}}}
	}
}

func kubeletDown(p *Pod) {
	silentNode(p)
	p.Kubelet = inspect.Answer[inspect.Kubelet]{At: now, Err: "no responder"}
}

// runtimeGoneErr is the error of a kubelet whose runtime ended while it stopped a container.
const runtimeGoneErr = `failed to "KillContainer" for "main" with KillContainerError: "rpc error: code = Unavailable desc = the runtime does not answer"`

func failing(text string) func(*Pod) {
	return func(p *Pod) {
		w := &p.Kubelet.Report.Pods[0]
		w.Err, w.Failed, w.First, w.Step = text, 2, now.Add(-20*time.Second), ""
	}
}

func refused(code int32, message string) func(*Pod) {
	return func(p *Pod) {
		p.Kubelet.Report.Refused = []inspect.Refusal{{
			Verb: "delete", Resource: "pods", Key: "default/web", UID: "u1", Code: code, Message: message,
			First: now.Add(-20 * time.Second), Last: now.Add(-2 * time.Second), Count: 3,
		}}
		p.Kubelet.Report.Pods[0].State, p.Kubelet.Report.Pods[0].Step = "Confirming", ""
		ended(p)
	}
}

func event(reason, message string) func(*Pod) {
	return func(p *Pod) {
		p.Events = append(p.Events, corev1.Event{Reason: reason, Message: message, LastTimestamp: metav1.NewTime(now), InvolvedObject: corev1.ObjectReference{UID: "u1"}})
	}
}

func withoutTelemetry(p *Pod) { p.Telemetry = Telemetry{} }

// TestEveryCause has, for each cause about pods, evidence from which only that cause is found.
func TestEveryCause(t *testing.T) {
	minute := time.Minute
	cases := []struct {
		id, name string
		evidence Pod
	}{
		{"STK-01", "finalizer-not-removed", stuckPod(minute, finished, finalizer("ex.io/x"))},
		{"STK-02", "finalizer-removal-refused", stuckPod(minute, finished, finalizer("ex.io/x"), func(p *Pod) {
			p.APIServer.Report.Refused = []inspect.Refusal{{Requester: "client:operator", Verb: "patch", Resource: "pods", Key: "default/web", Code: 403, Message: "forbidden", Last: now, Count: 4}}
		})},
		{"STK-03", "garbage-collector-down", stuckPod(minute, finished, finalizer("foregroundDeletion"), func(p *Pod) { p.Controllers.Report.Running = []string{jobController} })},
		{"STK-03", "garbage-collector-down", stuckPod(minute, finished, finalizer("orphan"))},
		{"STK-04", "job-controller-down", stuckPod(minute, finished, finalizer("batch.kubernetes.io/job-tracking"), func(p *Pod) {
			p.Controllers = inspect.Answer[inspect.Controllers]{At: now, Err: "no responder"}
		})},
		{"STK-05", "kubelet-down", stuckPod(minute, kubeletDown)},
		{"STK-06", "node-cut-off", stuckPod(minute, cut, unheard)},
		{"STK-06", "node-cut-off", stuckPod(minute, silentNode, withoutTelemetry)},
		{"STK-06", "node-cut-off", stuckPod(time.Second, unheard, deadLinkOf("node-1"))},
		{"STK-06", "node-cut-off", stuckPod(10*time.Second, deadLinkOf("node-1"))},
		{"STK-07", "node-cut-off-after-cleanup", stuckPod(time.Second, ended, deadLinkOf("node-1"))},
		{"STK-07", "node-cut-off-after-cleanup", stuckPod(minute, cut, ended)},
		{"STK-08", "evicted-from-silent-node", stuckPod(minute, cut, unheard, func(p *Pod) {
			p.Pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByTaintManager"}}
		})},
		{"STK-09", "runtime-down", stuckPod(minute, func(p *Pod) {
			p.Kubelet.Report.Runtime = inspect.Contact{Failing: now.Add(-20 * time.Second), Err: "Unavailable"}
		})},
		{"STK-09", "runtime-down", stuckPod(minute, withoutTelemetry, func(p *Pod) {
			p.Node.Node = node(corev1.ConditionFalse, "KubeletNotReady", "container runtime is down")
		})},
		{"STK-09", "runtime-down", stuckPod(minute, func(p *Pod) {
			p.Runtime = inspect.Answer[inspect.Runtime]{At: now, Err: "no responder"}
			p.Kubelet.Report.Calls = []inspect.Call{{Method: "ListContainers", Since: now.Add(-20 * time.Second)}}
		})},
		{"STK-09", "runtime-down", stuckPod(minute, failing(runtimeGoneErr))},
		{"STK-10", "runtime-listing-hangs", stuckPod(5*minute, func(p *Pod) {
			p.Kubelet.Report.Calls = []inspect.Call{{Method: "ListContainers", Since: now.Add(-4 * minute)}}
			p.Kubelet.Report.Problems = []string{"PLEG is not healthy: pleg was last seen active 4m0s ago"}
		})},
		{"STK-11", "stop-hangs", stuckPod(minute, func(p *Pod) {
			p.Kubelet.Report.Calls = []inspect.Call{{Method: "StopContainer", ID: "c1", Since: now.Add(-minute)}}
			p.Runtime.Report.Containers[0].Signaled = time.Time{}
		})},
		{"STK-11", "stop-hangs", stuckPod(5*minute, failing(`failed to "KillContainer" for "main" with KillContainerError: "rpc error: code = DeadlineExceeded desc = context deadline exceeded"`))},
		{"STK-12", "process-unkillable", stuckPod(minute, func(p *Pod) { p.Runtime.Report.Containers[0].Killed = now.Add(-28 * time.Second) })},
		{"STK-12", "process-unkillable", stuckPod(5*minute, failing(`[failed to "KillContainer" for "main" with KillContainerError: "an error occurs during waiting for container c1 to be killed", failed to "KillPodSandbox" for "u1" with KillPodSandboxError: "failed to stop container c1"]`))},
		{"STK-13", "runtime-lies", stuckPod(minute, failing("detected running containers after a successful KillPod, CRI violation: [c1]"))},
		{"STK-14", "sandbox-teardown-fails", stuckPod(minute, ended, failing(`failed to "KillPodSandbox" for "u1" with KillPodSandboxError: "failed to destroy network for sandbox"`))},
		{"STK-14", "sandbox-teardown-fails", stuckPod(minute, ended, func(p *Pod) {
			p.Kubelet.Report.Calls = []inspect.Call{{Method: "StopPodSandbox", ID: "s1", Since: now.Add(-20 * time.Second)}}
		})},
		{"STK-15", "volume-unmount-fails", stuckPod(minute, cleaning(inspect.StepUnmount, ""))},
		{"STK-15", "volume-unmount-fails", stuckPod(5*minute, cleaning("", "unmount volumes of pod default/web: mounted volumes=[data]: busy"))},
		{"STK-16", "volume-mounted-twice", stuckPod(minute, cleaning("", "unmount volumes of pod default/web: volume data is mounted twice"))},
		{"STK-17", "volume-directory-not-empty", stuckPod(minute, cleaning(inspect.StepRemoveDirs, ""))},
		{"STK-18", "cgroup-busy", stuckPod(minute, cleaning("", "destroy cgroup of pod u1: device or resource busy"))},
		{"STK-19", "device-unprepare-fails", stuckPod(minute, ended, failing("unprepare dynamic resources: driver error"))},
		{"STK-20", "long-grace", stuckPod(10*minute, func(p *Pod) {
			p.Pod.DeletionTimestamp, p.Pod.DeletionGracePeriodSeconds = &metav1.Time{Time: now.Add(50 * minute)}, new(int64(3600))
			p.Kubelet.Report.Pods[0].Grace = 3600
		})},
		{"STK-21", "shorter-grace-ignored", stuckPod(minute, func(p *Pod) {
			p.Kubelet.Report.Pods[0].Grace = 600
		})},
		{"STK-22", "start-in-progress", stuckPod(minute, func(p *Pod) {
			p.Pod.Status.Phase, p.Kubelet.Report.Pods[0].Step, p.Runtime.Report.Containers = corev1.PodPending, inspect.StepSync, nil
		}, event("Pulling", `Pulling image "huge"`))},
		{"STK-23", "webhook-refuses-kubelet", stuckPod(minute, refused(500, `failed calling webhook "pods.example.com": timeout`))},
		{"STK-24", "kubelet-unauthorised", stuckPod(minute, refused(401, "Unauthorized"))},
		{"STK-25", "node-object-gone", stuckPod(minute, func(p *Pod) {
			p.Node, p.Kubelet, p.Controllers.Report.Running = Node{}, inspect.Answer[inspect.Kubelet]{}, nil
		})},
		{"STK-25", "node-object-gone", stuckPod(2*minute, withoutTelemetry, func(p *Pod) { p.Node = Node{} })},
		{"STK-26", "kubelet-restarts", stuckPod(minute, func(p *Pod) { p.Kubelet.Report.Began = now.Add(-5 * time.Second) })},
		{"STK-27", "store-does-not-write", stuckPod(minute, func(p *Pod) { p.APIServer.Report.Writing = now.Add(-30 * time.Second) })},
		{"STK-27", "store-does-not-write", stuckPod(minute, refused(504, "the store has not written before the deadline of the request; it may have taken effect or not"))},
		{"STK-27", "store-does-not-write", stuckPod(minute, refused(503, "the apiserver is ending, because its disk did not take a commit; the request may have taken effect or not"))},
		{"requests-late", "requests-late", stuckPod(minute, refused(504, "the deadline of the request has passed; it may have taken effect or not"))},
		{"requests-late", "requests-late", stuckPod(minute, refused(504, "the request came 12s after its deadline and has changed nothing"))},
		{"apiserver-fails", "apiserver-fails", stuckPod(minute, refused(500, "this request made the apiserver panic; its log says how"))},
		{"STK-28", "sidecar-does-not-stop", stuckPod(20*time.Second, func(p *Pod) {
			always := corev1.ContainerRestartPolicyAlways
			p.Pod.Spec.InitContainers = []corev1.Container{{Name: "proxy", RestartPolicy: &always}}
			side := p.Runtime.Report.Containers[0]
			side.ID, side.Name = "c2", "proxy"
			ended(p)
			p.Runtime.Report.Containers[0].Exited = now.Add(-15 * time.Second)
			p.Runtime.Report.Containers = append(p.Runtime.Report.Containers, side)
		})},
		{"STK-29", "clock-skew", stuckPod(5*time.Second, func(p *Pod) { p.APIServer.Report.Now = now.Add(-time.Hour) })},
		{"STK-29", "clock-skew", stuckPod(0, func(p *Pod) { // the node is not cut off
			p.Now, p.Node.Lease = now.Add(time.Hour), lease(5*time.Second)
			p.Pod.DeletionTimestamp = &metav1.Time{Time: p.Now.Add(30 * time.Second)}
			p.APIServer.At = p.Now
		})},
		{"STK-30", "created-again", stuckPod(0, func(p *Pod) {
			p.Pod.DeletionTimestamp, p.Pod.DeletionGracePeriodSeconds, p.Pod.UID = nil, nil, "u2"
			p.Pod.OwnerReferences = []metav1.OwnerReference{{Controller: new(true), Name: "web"}}
		})},
		{"STK-32", "orphaned-volume", stuckPod(minute, func(p *Pod) {
			cleaning(inspect.StepUnmount, "")(p)
			p.Kubelet.Report.Pods[0].Removed, p.Pod = true, nil
		})},
		{"STK-33", "watch-silent", stuckPod(minute, unheard)},
		{"STK-34", "rejected-pod", stuckPod(20*time.Second, func(p *Pod) {
			p.Kubelet.Report.Pods, p.Runtime.Report.Containers = nil, nil
			p.Pod.Status.Phase, p.Pod.Status.Reason = corev1.PodFailed, "OutOfcpu"
		})},
	}
	seen := map[string]bool{"STK-31": true} // TestNamespace
	for _, c := range cases {
		seen[c.id] = true
		checkOtherClocks(t, c.id+" "+c.name, c.evidence)
		report := ExplainPod(c.evidence)
		if got := report.IDs(); !slices.Equal(got, []string{strings.ToLower(c.id)}) {
			t.Errorf("%s: named %v: %+v", c.id, got, report.Findings)
			continue
		}
		f := report.Findings[0]
		if f.Name != c.name || len(f.Evidence) == 0 || f.Who == "" || f.Unblocks == "" || f.Forcing == "" {
			t.Errorf("%s: want %s with evidence, who, unblocks and forcing: %+v", c.id, c.name, f)
		}
		if want := c.id != "STK-29" && c.id != "STK-30"; report.Blocked() != want {
			t.Errorf("%s: blocked is %v, want %v", c.id, report.Blocked(), want)
		}
	}
	for _, c := range Causes() {
		if c.ID != "" && !seen[c.ID] {
			t.Errorf("%s has no case", c.ID)
		}
	}
}

// TestHealthy finds nothing at any moment of a healthy deletion, with telemetry or without.
func TestHealthy(t *testing.T) {
	for name, p := range map[string]Pod{
		"another node's link":                    stuckPod(10*time.Second, deadLinkOf("node-2")),
		"just marked, unheard":                   stuckPod(time.Second, unheard),
		"unheard, and silent since":              stuckPod(6*time.Second, unheard, func(p *Pod) { p.Kubelet.Report.API.Last = now.Add(-8 * time.Second) }),
		"unheard, and asked while it was marked": stuckPod(6*time.Second, unheard, func(p *Pod) { p.Kubelet.Report.API.Last = now.Add(-5 * time.Second) }),
		"unheard, by an apiserver that does not answer": stuckPod(6*time.Second, unheard, func(p *Pod) {
			p.APIServer = inspect.Answer[inspect.APIServer]{At: now, Err: "no responder"}
		}),
		"stopping":                 stuckPod(10 * time.Second),
		"at the end of its grace":  stuckPod(31 * time.Second),
		"just killed":              stuckPod(32*time.Second, func(p *Pod) { p.Runtime.Report.Containers[0].Killed = now.Add(-time.Second) }),
		"cleaning":                 stuckPod(5*time.Second, cleaning(inspect.StepUnmount, ""), func(p *Pod) { p.Kubelet.Report.Pods[0].Since = now.Add(-time.Second) }),
		"confirming":               stuckPod(6*time.Second, ended, func(p *Pod) { p.Kubelet.Report.Pods[0].State, p.Kubelet.Report.Pods[0].Step = "Confirming", "" }),
		"finalizer just now":       stuckPod(6*time.Second, finished, finalizer("batch.kubernetes.io/job-tracking"), func(p *Pod) { p.Pod.DeletionTimestamp = &metav1.Time{Time: now} }),
		"finalizer while it stops": stuckPod(20*time.Second, finalizer("ex.io/x")),
		"not deleted":              stuckPod(0, func(p *Pod) { p.Pod.DeletionTimestamp, p.Pod.DeletionGracePeriodSeconds = nil, nil }),
		"gone":                     stuckPod(0, func(p *Pod) { p.Pod = nil; p.Kubelet.Report.Pods = nil; p.Runtime.Report.Containers = nil }),
		"stopping anew, by a runtime that is back": stuckPod(time.Minute, failing(runtimeGoneErr), func(p *Pod) {
			p.Kubelet.Report.Pods[0].Step, p.Kubelet.Report.Pods[0].Since = inspect.StepStop, now.Add(-20*time.Second)
			p.Runtime.Report.Containers[0].Signaled = now.Add(-20 * time.Second)
			p.Kubelet.Report.Calls = []inspect.Call{{Method: "StopContainer", ID: "c1", Since: now.Add(-20 * time.Second)}}
		}),
		"stopping after a cut": stuckPod(10*time.Minute, func(p *Pod) {
			p.Kubelet.Report.Pods[0].Since, p.Runtime.Report.Containers[0].Signaled = now.Add(-25*time.Second), now.Add(-25*time.Second)
		}),
		"confirming after a cut": stuckPod(10*time.Minute, ended, func(p *Pod) {
			p.Kubelet.Report.Pods[0].State, p.Kubelet.Report.Pods[0].Step, p.Kubelet.Report.Pods[0].Since = "Confirming", "", now.Add(-2*time.Second)
		}),
		"apiserver heard late": stuckPod(5*time.Second, func(p *Pod) {
			p.APIServer.Report.Now, p.APIServer.RoundTrip = now.Add(-12*time.Second), 8*time.Second
		}),
		"nothing told":            stuckPod(20*time.Second, withoutTelemetry),
		"sidecar stops":           stuckPod(3*time.Second, ended),
		"starting a moment":       stuckPod(2*time.Second, func(p *Pod) { p.Kubelet.Report.Pods[0].Step = inspect.StepSync }),
		"node gone, collector on": stuckPod(30*time.Second, func(p *Pod) { p.Node, p.Kubelet = Node{}, inspect.Answer[inspect.Kubelet]{} }),
	} {
		checkOtherClocks(t, name, p)
		if report := ExplainPod(p); len(report.Findings) > 0 || report.Blocked() {
			t.Errorf("%s: %+v", name, report.Findings)
		}
	}
}

// TestRefusedByAnotherClock reports what a kubelet was refused although the apiserver's clock is
// unknown and the observer's is an hour behind.
func TestRefusedByAnotherClock(t *testing.T) {
	p := stuckPod(time.Minute, refused(401, "Unauthorized"))
	p.APIServer, p.Now = inspect.Answer[inspect.APIServer]{At: now, Err: "no responder"}, now.Add(-time.Hour)
	if got := ExplainPod(p).IDs(); !slices.Contains(got, "stk-24") {
		t.Errorf("named %v, want stk-24", got)
	}
}

// TestLastingFor formats times that lie in the future by the observer's clock.
func TestLastingFor(t *testing.T) {
	for since, want := range map[time.Duration]string{
		-time.Minute: "for 1m0s", time.Second: "for 0s", time.Hour: "for an unknown time",
	} {
		if got := lastingFor(now, now.Add(since)); got != want {
			t.Errorf("%v from now: %q, want %q", since, got, want)
		}
	}
}

// TestUnexplained reports an overdue pod for which there is no explanation.
func TestUnexplained(t *testing.T) {
	report := ExplainPod(stuckPod(5*time.Minute, ended, func(p *Pod) { p.Kubelet.Report.Pods[0].State = "Confirming" }))
	if got := report.IDs(); !slices.Equal(got, []string{"unexplained"}) {
		t.Errorf("named %v, want unexplained", got)
	}
}

// TestObjects explains objects other than pods.
func TestObjects(t *testing.T) {
	deleted := metav1.ObjectMeta{Name: "x", UID: "x", DeletionTimestamp: &metav1.Time{Time: now.Add(-time.Minute)}}
	with := func(finalizers ...string) metav1.ObjectMeta {
		meta := deleted
		meta.Finalizers = finalizers
		return meta
	}
	pod := ExplainPod(stuckPod(time.Minute, cut, unheard))
	fine := Report{Object: "pod/web"}
	for _, c := range []struct {
		name     string
		evidence Object
		ids      []string
	}{
		{"namespace", Object{Object: &corev1.Namespace{ObjectMeta: deleted, Status: corev1.NamespaceStatus{Conditions: []corev1.NamespaceCondition{
			{Type: corev1.NamespaceContentRemaining, Status: corev1.ConditionTrue, Message: "Some resources are remaining: pods. has 1 resource instances"},
		}}}, Below: []Report{pod}}, []string{"stk-31"}},
		{"namespace whose content is on its way out", Object{Object: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{Time: now.Add(-5 * time.Second)}}, Status: corev1.NamespaceStatus{Conditions: []corev1.NamespaceCondition{
			{Type: corev1.NamespaceContentRemaining, Status: corev1.ConditionTrue, Message: "pods"},
		}}}, Below: []Report{fine}}, nil},
		{"claim", Object{Object: &corev1.PersistentVolumeClaim{ObjectMeta: with("kubernetes.io/pvc-protection")}, Below: []Report{fine}}, []string{"claim-in-use"}},
		{"volume", Object{Object: &corev1.PersistentVolume{ObjectMeta: with("kubernetes.io/pv-protection")}}, []string{"volume-bound"}},
		{"workload", Object{Object: &corev1.ReplicationController{}, Below: []Report{pod}}, []string{"stk-06"}},
		{"workload in the foreground", Object{Object: &corev1.ReplicationController{ObjectMeta: with("foregroundDeletion")}, Below: []Report{fine}, Telemetry: stuckPod(0).Telemetry}, []string{"dependents-remain"}},
		{"workload without a collector", Object{Object: &corev1.ReplicationController{ObjectMeta: with("foregroundDeletion")}}, []string{"stk-03"}},
		{"node", Object{Object: node(corev1.ConditionUnknown, "NodeStatusUnknown", ""), Telemetry: stuckPod(time.Minute, kubeletDown).Telemetry, Below: []Report{pod}}, []string{"stk-05"}},
		{"node with orphans", Object{Object: node(corev1.ConditionTrue, "", ""), Node: Node{Lease: lease(time.Second)}, Telemetry: stuckPod(time.Minute, cleaning(inspect.StepUnmount, ""), func(p *Pod) {
			p.Kubelet.Report.Pods[0].Removed = true
		}).Telemetry}, []string{"stk-32"}},
		{"healthy node", Object{Object: node(corev1.ConditionTrue, "", ""), Node: Node{Lease: lease(time.Second)}, Telemetry: stuckPod(0).Telemetry}, nil},
		{"nothing", Object{}, nil},
	} {
		c.evidence.Now = now
		if got := ExplainObject(c.evidence).IDs(); !slices.Equal(got, c.ids) {
			t.Errorf("%s: named %v, want %v", c.name, got, c.ids)
		}
	}
}

// TestFinalizerIsNamedAtOnce asks about pods within their grace, and about other objects that have just
// been deleted: why names a finalizer that a DELETE warns of as soon as nothing else keeps the object.
func TestFinalizerIsNamedAtOnce(t *testing.T) {
	within := func(change ...func(*Pod)) Pod {
		return stuckPod(2*time.Second, append(change, finalizer("ex.io/x"))...)
	}
	terminated := func(state corev1.ContainerState) func(*Pod) {
		return func(p *Pod) {
			p.Telemetry = Telemetry{}
			p.Pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: state}}
		}
	}
	for name, c := range map[string]struct {
		pod   Pod
		named bool
	}{
		"its containers run":                 {within(), false},
		"its containers have ended":          {within(ended), true},
		"its phase is an end":                {within(cleaning(inspect.StepUnmount, "")), true},
		"the node has just confirmed":        {within(finished, func(p *Pod) { p.Pod.DeletionTimestamp = &metav1.Time{Time: now} }), true},
		"by its status, a container runs":    {within(terminated(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})), false},
		"by its status, all have terminated": {within(terminated(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}})), true},
		"its sandbox is another pod's":       {within(ended, func(p *Pod) { p.Runtime.Report.Containers[0].UID = "u0" }), false},
		"it is of a controller":              {stuckPod(2*time.Second, ended, finalizer("batch.kubernetes.io/job-tracking")), false},
	} {
		got := ExplainPod(c.pod)
		if named := got.Blocked() && slices.Contains(got.IDs(), "stk-01"); named != c.named {
			t.Errorf("%s: %q, %v; want it named: %t", name, got.State, got.IDs(), c.named)
		}
	}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: "data", DeletionTimestamp: &metav1.Time{Time: now.Add(-time.Second)}, Finalizers: []string{claimProtection, "ex.io/x"},
	}}
	got := ExplainObject(Object{Now: now, What: "persistentvolumeclaim/data", Object: claim})
	if len(got.Findings) != 1 || got.Findings[0].ID != "STK-01" || !slices.Equal(got.Findings[0].Evidence[:1], []string{"finalizer ex.io/x"}) {
		t.Errorf("a claim that has just been deleted: %+v", got.Findings)
	}
}

// TestWarnings warns of what will stay, and of nothing else.
func TestWarnings(t *testing.T) {
	pod := func(finalizers ...string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Finalizers: finalizers}, Spec: corev1.PodSpec{NodeName: "node-1"}}
	}
	ready, silent := node(corev1.ConditionTrue, "KubeletReady", ""), node(corev1.ConditionUnknown, "NodeStatusUnknown", "")
	for _, c := range []struct {
		name  string
		pod   *corev1.Pod
		node  *corev1.Node
		force bool
		want  []string
	}{
		{"healthy", pod(), ready, false, nil},
		{"healthy, forced", pod(), ready, true, nil},
		{"finalizer", pod("ex.io/x"), ready, true, []string{"it stays until its finalizers are removed, forced or not: ex.io/x"}},
		{"silent node", pod(), silent, false, []string{"node node-1 is not ready (NodeStatusUnknown): the pod stays until the node is back; see podfall why pod/web"}},
		{"silent node, forced", pod(), silent, true, []string{"node node-1 is not ready (NodeStatusUnknown): the object goes, and its containers may run on there; see podfall truth"}},
		{"no node", pod(), nil, false, []string{"node node-1 is not in the API any more: the pod stays until the node is back; see podfall why pod/web"}},
		{"unscheduled", &corev1.Pod{}, nil, false, nil},
		{"ended", &corev1.Pod{Spec: corev1.PodSpec{NodeName: "node-1"}, Status: corev1.PodStatus{Phase: corev1.PodFailed}}, silent, false, nil},
	} {
		if got := Warnings(c.pod, c.node, c.force); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
