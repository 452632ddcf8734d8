package podworker

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

// podWithGraces is a pod with the graces given; a negative one is not set.
func podWithGraces(tgps, dgps int64) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u"}}
	if tgps >= 0 {
		pod.Spec.TerminationGracePeriodSeconds = &tgps
	}
	if dgps >= 0 {
		pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Unix(1e9, 0)}, &dgps
	}
	return pod
}

func TestEffectiveGrace(t *testing.T) {
	for _, row := range []struct {
		name      string
		current   int64
		override  *int64
		pod       *corev1.Pod
		want      int64
		shortened bool
	}{
		{"TD-060 the pod's own", 0, nil, podWithGraces(30, -1), 30, false},
		{"TD-060 the mark's", 0, nil, podWithGraces(-1, 5), 5, false},
		{"TD-060 the kill's", 0, new(int64(2)), podWithGraces(-1, -1), 2, false},
		{"TD-060 a mark of 0", 0, nil, podWithGraces(-1, 0), 1, false},
		{"TD-060 a kill of 0", 0, new(int64(0)), podWithGraces(-1, -1), 1, false},
		{"KBL-16 the mark before the pod's own", 0, nil, podWithGraces(30, 60), 60, false},
		{"KBL-16 a shorter mark", 30, nil, podWithGraces(30, 5), 5, true},
		{"KBL-16 a longer mark", 5, nil, podWithGraces(30, 60), 5, false},
		{"KBL-16 a shorter kill", 30, new(int64(3)), podWithGraces(30, 20), 3, true},
		{"KBL-17 forced while stopping", 600, nil, podWithGraces(600, 0), 1, true},
		{"KBL-17 nothing at all", 0, nil, podWithGraces(-1, -1), 1, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			got, shortened := EffectiveGrace(row.current, row.override, row.pod)
			if got != row.want || shortened != row.shortened {
				t.Errorf("EffectiveGrace = %d, %t; want %d, %t", got, shortened, row.want, row.shortened)
			}
		})
	}
}

func TestBaseGrace(t *testing.T) {
	const short, medium, long = 10, 30, 60
	probe := func(grace int64) *corev1.Probe {
		if grace == 0 {
			return nil
		}
		return &corev1.Probe{TerminationGracePeriodSeconds: &grace}
	}
	for _, row := range []struct {
		name                    string
		tgps, startup, liveness int64
		reason                  Reason
		want                    int64
	}{
		{"TD-082 nothing set", -1, 0, 0, ReasonPod, 2},
		{"TD-082 pod long", long, 0, 0, ReasonPod, long},
		{"TD-082 pod long, liveness short", long, 0, short, ReasonLivenessProbe, short},
		{"TD-082 pod long, startup short", long, short, 0, ReasonStartupProbe, short},
		{"TD-082 pod short, startup long", short, long, 0, ReasonStartupProbe, long},
		{"TD-082 pod short, liveness long", short, 0, long, ReasonLivenessProbe, long},
		{"TD-082 pod long, liveness short, another reason", long, 0, short, ReasonPod, long},
		{"TD-082 pod long, startup short, another reason", long, short, 0, ReasonPod, long},
		{"TD-082 all three, another reason", long, short, medium, ReasonPod, long},
		{"TD-082 all three, startup", long, short, medium, ReasonStartupProbe, short},
		{"TD-082 all three, liveness", long, short, medium, ReasonLivenessProbe, medium},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := &corev1.Container{Name: "c", StartupProbe: probe(row.startup), LivenessProbe: probe(row.liveness)}
			if got := BaseGrace(podWithGraces(row.tgps, -1), c, row.reason); got != row.want {
				t.Errorf("BaseGrace = %d, want %d", got, row.want)
			}
		})
	}
	t.Run("KBL-46 a marked pod's probes have no say", func(t *testing.T) {
		c := &corev1.Container{Name: "c", LivenessProbe: probe(short)}
		if got := BaseGrace(podWithGraces(long, medium), c, ReasonLivenessProbe); got != medium {
			t.Errorf("BaseGrace = %d, want %d", got, medium)
		}
	})
}

func TestStopTimeout(t *testing.T) {
	for _, row := range []struct {
		name     string
		base     int64
		override *int64
		spent    time.Duration
		want     int64
	}{
		{"KBL-33c the override replaces", 60, new(int64(10)), 0, 10},
		{"KBL-33d whole seconds are taken off", 10, nil, 3900 * time.Millisecond, 7},
		{"KBL-33f never less than 2", 5, nil, 5 * time.Second, 2},
		{"KBL-37 a forced delete", 30, new(int64(1)), 0, 2},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := StopTimeout(row.base, row.override, row.spent); got != row.want {
				t.Errorf("StopTimeout = %d, want %d", got, row.want)
			}
		})
	}
}

// TestMachineProperties lets anything happen in any order.
func TestMachineProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m Machine
		out := "" // the work that is out
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			before := m
			e := drawEvent(t, out)
			var actions []Action
			m, actions = m.Step(e)
			switch e.(type) {
			case Synced, Ended, Cleaned:
				out = ""
			case Seen, Removed, Kill, Orphan, Changed, Due, Forget:
			}
			if m.State() < before.State() {
				t.Fatalf("%T moved it back from %s to %s", e, before.State(), m.State())
			}
			if before.Grace() != 0 && m.Grace() > before.Grace() {
				t.Fatalf("%T lengthened the grace from %d to %d", e, before.Grace(), m.Grace())
			}
			for _, a := range actions {
				work := ""
				switch a := a.(type) {
				case Sync:
					work = "synced"
					if m.State() != Syncing {
						t.Fatalf("sync in %s: nothing starts after a stop has begun", m.State())
					}
				case Stop:
					work = "ended"
					if a.Grace < MinimumGrace {
						t.Fatalf("stop with grace %d", a.Grace)
					}
				case Clean:
					work = "cleaned"
				case Confirm:
					if m.State() != Confirming || before.State() != Stopped {
						t.Fatalf("confirm on the way from %s to %s", before.State(), m.State())
					}
				case ReportEnd, Interrupt, Again:
				}
				if work != "" && out != "" {
					t.Fatalf("%s while %s is out", work, out)
				}
				if work != "" {
					out = work
				}
			}
			if m.busy != (out != "") {
				t.Fatalf("busy is %t, and out is %q", m.busy, out)
			}
		}
	})
}

// drawEvent is any event; answers come only for work that is out.
func drawEvent(t *rapid.T, out string) Event {
	grace := func(name string) int64 { return rapid.Int64Range(0, 40).Draw(t, name) }
	var err error
	if rapid.IntRange(0, 2).Draw(t, "fails") == 0 {
		err = errProperty
	}
	if out != "" && rapid.Bool().Draw(t, "answer") {
		switch out {
		case "synced":
			return Synced{Ended: rapid.Bool().Draw(t, "ended"), Err: err}
		case "ended":
			return Ended{err}
		default:
			return Cleaned{err}
		}
	}
	switch rapid.IntRange(0, 7).Draw(t, "event") {
	case 0:
		return Seen{Pod: podWithGraces(30, -1), Idle: rapid.Bool().Draw(t, "idle")}
	case 1:
		return Seen{Pod: podWithGraces(30, grace("dgps"))}
	case 2:
		pod := podWithGraces(30, -1)
		pod.Status.Phase = corev1.PodFailed
		return Seen{Pod: pod, Idle: rapid.Bool().Draw(t, "idle")}
	case 3:
		return Removed{}
	case 4:
		return Kill{Grace: new(grace("kill"))}
	case 5:
		return Orphan{Pod: podWithGraces(-1, -1)}
	case 6:
		return Changed{}
	}
	return rapid.SampledFrom([]Event{Due{}, Forget{}}).Draw(t, "other")
}
