package podview_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/podview"
	"github.com/podfall/podfall/proto"
)

var now = time.Date(2026, time.April, 8, 11, 25, 33, 0, time.UTC)

func view(t *testing.T, release string) podview.View {
	t.Helper()
	compat, err := proto.CompatFor(release)
	if err != nil {
		t.Fatal(err)
	}
	return podview.View{Now: now, Compat: compat}
}

func ago(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }

// cells is a pod's row, without the wide columns, as text.
func cells(v podview.View, pod *corev1.Pod) string {
	row := v.Row(corev1.SchemeGroupVersion.WithKind("Pod"), pod)
	texts := make([]string, 5)
	for i := range texts {
		texts[i] = fmt.Sprint(row.Cells[i])
	}
	return strings.Join(texts, " ")
}

// The parts of pods that the rows below are made of.
type part func(*corev1.Pod)

func makePod(parts ...part) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", CreationTimestamp: ago(42 * time.Hour)}}
	for _, p := range parts {
		p(pod)
	}
	return pod
}

func phase(p corev1.PodPhase) part { return func(pod *corev1.Pod) { pod.Status.Phase = p } }
func reason(r string) part         { return func(pod *corev1.Pod) { pod.Status.Reason = r } }

func deleting(pod *corev1.Pod) { pod.DeletionTimestamp = &metav1.Time{Time: now.Add(30 * time.Second)} }

func condition(kind corev1.PodConditionType, status corev1.ConditionStatus, reason string) part {
	return func(pod *corev1.Pod) {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: kind, Status: status, Reason: reason})
	}
}

type state func(*corev1.ContainerStatus)

func container(states ...state) part {
	return func(pod *corev1.Pod) {
		name := fmt.Sprintf("c%d", len(pod.Spec.Containers))
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: name})
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, status(name, states))
	}
}

func initContainer(states ...state) part { return initOf(nil, states) }

func sidecar(states ...state) part {
	always := corev1.ContainerRestartPolicyAlways
	return initOf(&always, states)
}

func initOf(policy *corev1.ContainerRestartPolicy, states []state) part {
	return func(pod *corev1.Pod) {
		name := fmt.Sprintf("i%d", len(pod.Spec.InitContainers))
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, corev1.Container{Name: name, RestartPolicy: policy})
		pod.Status.InitContainerStatuses = append(pod.Status.InitContainerStatuses, status(name, states))
	}
}

func status(name string, states []state) corev1.ContainerStatus {
	s := corev1.ContainerStatus{Name: name}
	for _, set := range states {
		set(&s)
	}
	return s
}

func running(s *corev1.ContainerStatus) { s.State.Running = &corev1.ContainerStateRunning{} }
func ready(s *corev1.ContainerStatus)   { s.Ready = true }

func started(s *corev1.ContainerStatus) {
	yes := true
	s.Started = &yes
}

func waiting(reason string) state {
	return func(s *corev1.ContainerStatus) { s.State.Waiting = &corev1.ContainerStateWaiting{Reason: reason} }
}

func ended(code, signal int32, reason string) state {
	return func(s *corev1.ContainerStatus) {
		s.State.Terminated = &corev1.ContainerStateTerminated{ExitCode: code, Signal: signal, Reason: reason}
	}
}

func restarts(n int32, last time.Duration) state {
	return func(s *corev1.ContainerStatus) {
		s.RestartCount = n
		s.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{FinishedAt: ago(last)}
	}
}

func restartsUnknown(n int32) state {
	return func(s *corev1.ContainerStatus) { s.RestartCount = n }
}

// TestPodRow has a row for each sentence of PRN-02 to PRN-06 and PRN-10 to PRN-12.
func TestPodRow(t *testing.T) {
	up := container(running, ready)
	isReady := condition(corev1.PodReady, corev1.ConditionTrue, "")
	for _, c := range []struct {
		name string
		pod  *corev1.Pod
		want string
	}{
		{"PRN-02 ready and running", makePod(phase("Running"), up, container(running), container(ready)), "p 1/3 Running 0 42h"},
		{"PRN-02 a sidecar that is up counts", makePod(phase("Running"), sidecar(running, started, ready), up), "p 2/2 Running 0 42h"},
		{"PRN-02 a sidecar that is not ready", makePod(phase("Running"), sidecar(running, started), up), "p 1/2 Running 0 42h"},
		{"PRN-02 an init container never counts", makePod(phase("Running"), initContainer(ended(0, 0, "Completed"), ready), up), "p 1/1 Running 0 42h"},
		{"PRN-03 the phase", makePod(phase("Pending")), "p 0/0 Pending 0 42h"},
		{"PRN-03 the reason", makePod(phase("Failed"), reason("Evicted")), "p 0/0 Evicted 0 42h"},
		{"PRN-03 gated", makePod(phase("Pending"), reason("x"), condition(corev1.PodScheduled, "False", corev1.PodReasonSchedulingGated)), "p 0/0 SchedulingGated 0 42h"},
		{"PRN-04 0 of 2", makePod(phase("Pending"), initContainer(waiting("PodInitializing")), initContainer(), container(waiting("PodInitializing"))), "p 0/1 Init:0/2 0 42h"},
		{"PRN-04 1 of 2", makePod(phase("Pending"), initContainer(ended(0, 0, "Completed")), initContainer(running), container(waiting("PodInitializing"))), "p 0/1 Init:1/2 0 42h"},
		{"PRN-04 ended badly, with a reason", makePod(phase("Pending"), initContainer(ended(1, 0, "Error")), container(waiting("PodInitializing"))), "p 0/1 Init:Error 0 42h"},
		{"PRN-04 ended badly, by a signal", makePod(phase("Pending"), initContainer(ended(1, 9, "")), container()), "p 0/1 Init:Signal:9 0 42h"},
		{"PRN-04 ended badly, with a code", makePod(phase("Pending"), initContainer(ended(3, 0, "")), container()), "p 0/1 Init:ExitCode:3 0 42h"},
		{"PRN-04 waiting", makePod(phase("Pending"), initContainer(waiting("CrashLoopBackOff")), container()), "p 0/1 Init:CrashLoopBackOff 0 42h"},
		{"PRN-04 a sidecar that is not up yet holds", makePod(phase("Pending"), sidecar(running), initContainer(), container()), "p 0/2 Init:0/2 0 42h"},
		{"PRN-04 a sidecar that is up is passed", makePod(phase("Pending"), sidecar(running, started, ready), initContainer(running), container()), "p 1/2 Init:1/2 0 42h"},
		{"PRN-05 the first container has the last word", makePod(phase("Running"), container(waiting("A")), container(waiting("B"))), "p 0/2 A 0 42h"},
		{"PRN-05 signal", makePod(phase("Failed"), container(ended(1, 9, ""))), "p 0/1 Signal:9 0 42h"},
		{"PRN-05 code", makePod(phase("Failed"), container(ended(2, 0, ""))), "p 0/1 ExitCode:2 0 42h"},
		{"PRN-05 Initialized lets the regular containers speak", makePod(phase("Running"), initContainer(ended(1, 0, "Error")), condition(corev1.PodInitialized, "True", ""), up, isReady), "p 1/1 Init:Error 0 42h"},
		{"PRN-06 completed beside one that runs, Ready", makePod(phase("Running"), container(ended(0, 0, "Completed")), up, isReady), "p 1/2 Running 0 42h"},
		{"PRN-06 completed beside one that runs, not Ready", makePod(phase("Running"), container(ended(0, 0, "Completed")), up), "p 1/2 NotReady 0 42h"},
		{"PRN-06 completed beside one that failed", makePod(phase("Failed"), container(ended(0, 0, "Completed")), container(ended(1, 0, "Error"))), "p 0/2 Error 0 42h"},
		{"PRN-06 completed", makePod(phase("Succeeded"), container(ended(0, 0, "Completed"))), "p 0/1 Completed 0 42h"},
		{"PRN-10 Terminating", makePod(phase("Running"), up, deleting), "p 1/1 Terminating 0 42h"},
		{"PRN-10 NodeLost", makePod(phase("Running"), reason("NodeLost"), up, deleting), "p 1/1 Unknown 0 42h"},
		{"PRN-10 completed, not yet gone", makePod(phase("Succeeded"), container(ended(0, 0, "Completed")), deleting), "p 0/1 Completed 0 42h"},
		{"PRN-10 evicted, not yet gone", makePod(phase("Failed"), reason("Evicted"), deleting), "p 0/0 Evicted 0 42h"},
		{"PRN-11 over CrashLoopBackOff", makePod(phase("Running"), container(waiting("CrashLoopBackOff")), deleting), "p 0/1 Terminating 0 42h"},
		{"PRN-11 over Init", makePod(phase("Pending"), initContainer(waiting("ErrImagePull")), container(), deleting), "p 0/1 Terminating 0 42h"},
		{"PRN-11 over Pending", makePod(phase("Pending"), deleting), "p 0/0 Terminating 0 42h"},
		{"PRN-12 TD-122 with an age", makePod(phase("Running"), container(running, ready, restarts(1, 172*time.Second))), "p 1/1 Running 1 (2m52s ago) 42h"},
		{"PRN-12 the latest of several", makePod(phase("Running"), container(running, ready, restarts(2, time.Hour)), container(running, ready, restarts(3, time.Minute))), "p 2/2 Running 5 (60s ago) 42h"},
		{"PRN-12 without an age", makePod(phase("Running"), container(running, ready, restartsUnknown(4))), "p 1/1 Running 4 42h"},
		{"PRN-12 while initialising, the init containers", makePod(phase("Pending"), initContainer(waiting("CrashLoopBackOff"), restarts(7, 5*time.Minute)), container(restarts(3, time.Second))), "p 0/1 Init:CrashLoopBackOff 7 (5m ago) 42h"},
		{"PRN-12 afterwards, sidecars and regular ones", makePod(phase("Running"), initContainer(ended(0, 0, "Completed"), restarts(9, time.Hour)), sidecar(running, started, ready, restarts(1, time.Minute)), container(running, ready, restarts(2, 10*time.Second))), "p 2/2 Running 3 (10s ago) 42h"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := cells(view(t, ""), c.pod); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestTerminatingUntilGone is the other column of PRN-10: before 1.31 only NodeLost was
// stronger than a deletion.
func TestTerminatingUntilGone(t *testing.T) {
	for _, c := range []struct {
		pod  *corev1.Pod
		want string
	}{
		{makePod(phase("Succeeded"), container(ended(0, 0, "Completed")), deleting), "p 0/1 Terminating 0 42h"},
		{makePod(phase("Failed"), reason("Evicted"), deleting), "p 0/0 Terminating 0 42h"},
		{makePod(phase("Failed"), reason("NodeLost"), deleting), "p 0/0 Unknown 0 42h"},
		{makePod(phase("Succeeded"), container(ended(0, 0, "Completed"))), "p 0/1 Completed 0 42h"},
	} {
		if got := cells(view(t, "v1.22"), c.pod); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

// TestAge is PRN-13, at and beside every limit, and TD-122.
func TestAge(t *testing.T) {
	const day = 24 * time.Hour
	for _, c := range []struct {
		age  time.Duration
		want string
	}{
		{-2 * time.Second, "<invalid>"},
		{-1999 * time.Millisecond, "0s"},
		{0, "0s"},
		{119 * time.Second, "119s"},
		{120 * time.Second, "2m"},
		{172 * time.Second, "2m52s"},
		{9*time.Minute + 59*time.Second, "9m59s"},
		{10 * time.Minute, "10m"},
		{179 * time.Minute, "179m"},
		{3 * time.Hour, "3h"},
		{7*time.Hour + 59*time.Minute, "7h59m"},
		{8 * time.Hour, "8h"},
		{42 * time.Hour, "42h"},
		{47 * time.Hour, "47h"},
		{48 * time.Hour, "2d"},
		{7*day + 3*time.Hour, "7d3h"},
		{8 * day, "8d"},
		{729 * day, "729d"},
		{2 * 365 * day, "2y"},
		{3*365*day + 5*day, "3y5d"},
		{8 * 365 * day, "8y"},
	} {
		if got := view(t, "").Since(now.Add(-c.age)); got != c.want {
			t.Errorf("%s: %s, want %s", c.age, got, c.want)
		}
	}
	if got := view(t, "").Since(time.Time{}); got != "<unknown>" {
		t.Errorf("no time: %s", got)
	}
}

// TestPodTable is PRN-01, PRN-14 and PRN-15.
func TestPodTable(t *testing.T) {
	pod := makePod(phase("Succeeded"))
	pod.Spec.NodeName = "n1"
	pod.Status.PodIP = "10.0.0.9"
	pod.Status.PodIPs = []corev1.PodIP{{IP: "10.0.0.1"}, {IP: "fd00::1"}}
	pod.Status.NominatedNodeName = "n2"
	pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "a"}, {ConditionType: "b"}}
	pod.Status.Conditions = []corev1.PodCondition{{Type: "a", Status: corev1.ConditionTrue}, {Type: "b", Status: corev1.ConditionFalse}}
	bare := makePod(phase("Failed"))
	table := view(t, "").Table(corev1.SchemeGroupVersion.WithKind("Pod"), pod, bare, makePod(phase("Running")))

	var titles, wide []string
	for _, column := range table.ColumnDefinitions {
		if column.Type != "string" {
			t.Errorf("column %s is a %s", column.Name, column.Type)
		}
		if titles = append(titles, column.Name); column.Priority == 1 {
			wide = append(wide, column.Name)
		}
	}
	if got := strings.Join(titles, ","); got != "Name,Ready,Status,Restarts,Age,IP,Node,Nominated Node,Readiness Gates" {
		t.Errorf("columns %s", got)
	}
	if got := strings.Join(wide, ","); got != "IP,Node,Nominated Node,Readiness Gates" {
		t.Errorf("wide columns %s", got)
	}
	if got := fmt.Sprint(table.Rows[0].Cells[5:]); got != "[10.0.0.1 n1 n2 1/2]" {
		t.Errorf("wide cells %s", got)
	}
	if got := fmt.Sprint(table.Rows[1].Cells[5:]); got != "[<none> <none> <none> <none>]" {
		t.Errorf("wide cells %s", got)
	}
	for i, want := range []string{"Succeeded", "Failed", ""} {
		row := table.Rows[i]
		is := slices.ContainsFunc(row.Conditions, func(c metav1.TableRowCondition) bool {
			return c.Type == metav1.RowCompleted && c.Status == metav1.ConditionTrue && c.Reason == want
		})
		if is != (want != "") {
			t.Errorf("row %d: conditions %v", i, row.Conditions)
		}
	}
	if partial := podview.Partial(pod); partial.Name != "p" || partial.Kind != "PartialObjectMetadata" {
		t.Errorf("partial %v", partial)
	}
}
