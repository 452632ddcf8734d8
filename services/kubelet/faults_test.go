package kubelet

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/fault"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
)

// failing is one fault: the point fails for the pod p.
func failing(t *testing.T, point fault.Point) []fault.Fault {
	t.Helper()
	f, err := fault.New("f", fault.Spec{
		Point: point, Where: fault.Attributes{Node: "n1", Namespace: "default", Pod: "p"},
		Effect: fault.Effect{Kind: fault.Error, Message: string(point) + " fails"},
	}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return []fault.Fault{f}
}

// withVolume gives the pod an emptyDir.
func withVolume(pod *corev1.Pod) *corev1.Pod {
	pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}
	return pod
}

func TestStuck(t *testing.T) {
	stories := map[string]func(s *stage){
		"STK-01 finalizer": func(s *stage) { // and TRC-10
			s.boot()
			pod := podOf("p", "on TERM exits 0 after 1s", 30)
			pod.Finalizers = []string{"ex.io/x"}
			s.create(pod)
			time.Sleep(10*time.Second + 500*time.Millisecond)
			s.trace.begin()
			s.delete("p", -1)
			time.Sleep(time.Minute)
		},
		"STK-07 partition before the final delete": func(s *stage) {
			s.running("on TERM exits 0 after 2s", 30)
			s.delete("p", -1)
			time.Sleep(time.Second)
			s.cut()
			time.Sleep(30 * time.Second)
			s.heal(false)
			time.Sleep(15 * time.Second)
		},
		"STK-09 runtime down": func(s *stage) {
			s.running("on TERM exits 0 after 2s", 30)
			s.setDown(true)
			time.Sleep(40 * time.Second)
			s.delete("p", -1)
			time.Sleep(10*time.Second + 100*time.Millisecond)
			if got := s.ready(); got != "False: container runtime is down" {
				s.t.Errorf("KBL-07: the node's Ready is %s", got)
			}
			s.setDown(false)
			time.Sleep(20 * time.Second)
			if got := s.ready(); got != "True: kubelet is posting ready status" {
				s.t.Errorf("the node's Ready is %s", got)
			}
		},
		"STK-13 the runtime lies": func(s *stage) {
			s.running("on TERM exits 0 after 2s", 30)
			s.runtime.lies = true
			s.delete("p", -1)
			time.Sleep(5 * time.Second)
			s.runtime.mu.Lock()
			s.runtime.lies = false
			s.runtime.mu.Unlock()
			time.Sleep(30 * time.Second)
		},
		"STK-14 the sandbox does not stop": func(s *stage) {
			s.running("on TERM exits 0 after 2s", 30)
			s.runtime.sandboxErr = &proto.RuntimeError{Code: proto.CodeUnknown, Desc: `failed to destroy network for sandbox "s1": busy`}
			s.delete("p", -1)
			time.Sleep(20 * time.Second)
			s.runtime.mu.Lock()
			s.runtime.sandboxErr = nil
			s.runtime.mu.Unlock()
			time.Sleep(30 * time.Second)
		},
		"STK-15 TRC-22 a volume does not unmount": func(s *stage) { s.stuckAt(fault.VolumeUnmount, 5*time.Minute) },
		"STK-17 a directory stays":                func(s *stage) { s.stuckAt(fault.VolumeRemoveDir, time.Minute) },
		"STK-18 a cgroup stays":                   func(s *stage) { s.stuckAt(fault.CgroupDestroy, 30*time.Second) },
		"STK-23 the final delete is refused": func(s *stage) { // and TRC-23
			s.running("on TERM exits 0 after 2s", 30)
			s.api.mu.Lock()
			s.api.refuse = func(verb, _ string) error {
				if verb == "delete" {
					return apierrors.NewForbidden(s.pods().Kind.GroupResource(), "p", errors.New("denied by a webhook"))
				}
				return nil
			}
			s.api.mu.Unlock()
			s.delete("p", -1)
			time.Sleep(25 * time.Second)
			s.api.mu.Lock()
			s.api.refuse = nil
			s.api.mu.Unlock()
			time.Sleep(15 * time.Second)
		},
		"TRC-24 the name is taken again": func(s *stage) {
			s.running("on TERM exits 0 after 2s", 30)
			s.delete("p", -1)
			time.Sleep(time.Second)
			s.cut()
			s.delete("p", 0)
			again := podOf("p", "ignores TERM", 30)
			again.UID = "uid-again"
			s.create(again)
			time.Sleep(10 * time.Second)
			s.heal(true)
			time.Sleep(15 * time.Second)
			if pod := s.pod("p"); pod == nil || pod.UID != "uid-again" || pod.DeletionTimestamp != nil {
				s.t.Errorf("KBL-79: the new pod was touched: %v", pod)
			}
		},
	}
	for name, story := range stories {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				story(s)
				s.compare(name)
			})
		})
	}
}

// stuckAt deletes a pod with a volume whose end fails at a point for some time.
func (s *stage) stuckAt(point fault.Point, length time.Duration) {
	table := fault.NewTable(fault.Config{Node: "n1"})
	s.machine.Faults = table
	s.boot()
	s.create(withVolume(podOf("p", "on TERM exits 0 after 2s", 30)))
	time.Sleep(10*time.Second + 500*time.Millisecond)
	volume := filepath.Join(s.dir, "pods", "uid-p", "volumes", "kubernetes.io~empty-dir", "v")
	if _, err := os.Stat(volume); err != nil {
		s.t.Error(err)
	}
	table.Set(failing(s.t, point))
	s.trace.begin()
	s.delete("p", -1)
	time.Sleep(length + 30*time.Millisecond) // off every poll
	if s.pod("p") == nil {
		s.t.Errorf("the pod went while %s failed", point)
	}
	table.Set(nil)
	time.Sleep(30 * time.Second)
	if _, err := os.Stat(volume); !os.IsNotExist(err) {
		s.t.Errorf("the volume is still there: %v", err)
	}
	if _, err := os.Stat(filepath.Join(s.dir, "pods", "uid-p")); !os.IsNotExist(err) {
		s.t.Errorf("the pod's directory is still there: %v", err)
	}
	if _, err := os.Stat(filepath.Join(s.dir, "cgroups", "uid-p")); !os.IsNotExist(err) {
		s.t.Errorf("the pod's cgroup is still there: %v", err)
	}
}

func (s *stage) setDown(down bool) {
	s.runtime.mu.Lock()
	defer s.runtime.mu.Unlock()
	s.runtime.down = down
}

// ready is the node's Ready condition.
func (s *stage) ready() string {
	s.api.mu.Lock()
	defer s.api.mu.Unlock()
	node, ok := s.api.objects["nodes//n1"].(*corev1.Node)
	if !ok {
		return "no node"
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return string(c.Status) + ": " + c.Message
		}
	}
	return "no condition"
}

func TestNode(t *testing.T) {
	onStage(t, func(s *stage) {
		s.boot()
		if got := s.ready(); got != "True: kubelet is posting ready status" {
			t.Errorf("at once the node's Ready is %s", got)
		}
		kind, _ := kinds.ByResource("nodes")
		node, err := s.api.Get(t.Context(), podapi.Target{Kind: kind, Name: "n1"}, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		n, _ := node.(*corev1.Node)
		if n.Labels["kubernetes.io/hostname"] != "n1" || n.Status.Allocatable.Pods().Value() != 110 || n.Status.Capacity.Cpu().Value() != 4 {
			t.Errorf("the node is %+v", n)
		}
		lease := func() string {
			s.api.mu.Lock()
			defer s.api.mu.Unlock()
			return s.api.objects["leases/kube-node-lease/n1"].GetResourceVersion()
		}
		before := lease()
		time.Sleep(9 * time.Second)
		if lease() != before {
			t.Error("KBL-80: the lease was renewed before 10 s")
		}
		time.Sleep(2 * time.Second)
		if lease() == before {
			t.Error("KBL-80: the lease was not renewed in 11 s")
		}
		version := func() string {
			s.api.mu.Lock()
			defer s.api.mu.Unlock()
			return s.api.objects["nodes//n1"].GetResourceVersion()
		}
		heartbeat := version()
		time.Sleep(4 * time.Minute)
		if version() != heartbeat {
			t.Error("KBL-80: an unchanged status was reported in 4 minutes")
		}
		time.Sleep(2 * time.Minute)
		if version() == heartbeat {
			t.Error("KBL-80: an unchanged status was not reported in 6 minutes")
		}
	})
}

// TestReadyAfterReconnect has another party make the node's Ready Unknown, as the node
// lifecycle controller does with a node that it has not heard of.
func TestReadyAfterReconnect(t *testing.T) {
	onStage(t, func(s *stage) {
		s.boot()
		kind, _ := kinds.ByResource("nodes")
		target := podapi.Target{Kind: kind, Name: "n1", Subresource: "status"}
		obj, err := s.api.Get(t.Context(), target, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		node, _ := obj.(*corev1.Node)
		node = node.DeepCopy()
		for i := range node.Status.Conditions {
			node.Status.Conditions[i].Status = corev1.ConditionUnknown
		}
		if _, err := s.api.Update(t.Context(), target, node, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if got := s.ready(); !strings.HasPrefix(got, "Unknown") {
			t.Fatalf("the node's Ready is %s, want it Unknown", got)
		}
		time.Sleep(11 * time.Second)
		if got := s.ready(); !strings.HasPrefix(got, "True") {
			t.Errorf("after 11 s the node's Ready is %s, want it True", got)
		}
	})
}

func TestAdmission(t *testing.T) {
	onStage(t, func(s *stage) { // and TRC-25
		s.boot()
		ask := func(pod *corev1.Pod) *corev1.Pod {
			asked := make(corev1.ResourceList)
			asked[corev1.ResourceCPU] = resource.MustParse("3")
			pod.Spec.Containers[0].Resources.Requests = asked
			return pod
		}
		s.create(ask(podOf("a", "on TERM exits 0 after 20s", 30)))
		time.Sleep(5 * time.Second)
		s.create(ask(podOf("b", "on TERM exits 0 after 1s", 30)))
		time.Sleep(5 * time.Second)
		b := s.pod("b")
		if b.Status.Phase != corev1.PodFailed || b.Status.Reason != "OutOfcpu" {
			t.Errorf("KBL-09: b is %s %s", b.Status.Phase, b.Status.Reason)
		}
		want := "Pod was rejected: Node didn't have enough resource: cpu, requested: 3000, used: 3000, capacity: 4000"
		if b.Status.Message != want {
			t.Errorf("KBL-09: the message is %q, want %q", b.Status.Message, want)
		}
		s.trace.begin()
		s.change("b", func(pod *corev1.Pod) { pod.Labels = map[string]string{"a": "b"} })
		time.Sleep(5 * time.Second)
		if text := s.trace.String(); strings.Contains(text, "StopContainer") || strings.Contains(text, "RunPodSandbox") ||
			strings.Contains(text, "update") {
			t.Errorf("KBL-08: a changed rejected pod reached a worker:\n%s", text)
		}
		s.delete("b", -1)
		s.delete("a", -1)
		time.Sleep(10 * time.Second)
		s.create(ask(podOf("c", "on TERM exits 0 after 1s", 30)))
		time.Sleep(5 * time.Second)
		if c := s.pod("c"); c.Status.Phase != corev1.PodFailed {
			t.Errorf("KBL-09: beside a terminating pod c is %s", c.Status.Phase)
		}
		time.Sleep(20 * time.Second)
		s.create(ask(podOf("d", "on TERM exits 0 after 1s", 30)))
		time.Sleep(5 * time.Second)
		if d := s.pod("d"); d.Status.Phase != corev1.PodRunning {
			t.Errorf("KBL-09: after its end d is %s", d.Status.Phase)
		}
	})
}

// TestRejectedWhileMarked is KBL-72: the mark came before the rejection was stored.
func TestRejectedWhileMarked(t *testing.T) {
	onStage(t, func(s *stage) {
		pod := podOf("p", "on TERM exits 0 after 1s", 30)
		pod.Spec.NodeSelector = map[string]string{"disk": "ssd"}
		s.create(pod)
		s.delete("p", -1)
		s.boot()
		time.Sleep(20 * time.Second)
		if pod := s.pod("p"); pod != nil {
			t.Errorf("STK-34: it is still there: %s", describe(pod))
		}
	})
}

// TestRestarts covers what a pod does without being deleted.
func TestRestarts(t *testing.T) {
	t.Run("crash loop", func(t *testing.T) {
		onStage(t, func(s *stage) {
			s.boot()
			s.create(podOf("p", "exits 1 after 1300ms", 30))
			time.Sleep(20 * time.Second)
			if c := s.pod("p").Status.ContainerStatuses[0]; c.State.Terminated == nil || c.RestartCount != 2 {
				t.Errorf("until its restart is due it is %+v, want its end", c)
			}
			held := func() bool {
				c := s.pod("p").Status.ContainerStatuses[0]
				return c.State.Waiting != nil && c.State.Waiting.Reason == "CrashLoopBackOff"
			}
			for began := time.Now(); !held(); time.Sleep(100 * time.Millisecond) {
				if time.Since(began) > time.Minute {
					t.Fatalf("it is never said to crash loop: %+v", s.pod("p").Status.ContainerStatuses[0])
				}
			}
			time.Sleep(2 * time.Minute)
			if c := s.pod("p").Status.ContainerStatuses[0]; c.RestartCount < 3 || c.RestartCount > 5 {
				t.Errorf("after 140 s it is %+v", c)
			}
			if got := s.pod("p").Status.Phase; got != corev1.PodRunning {
				t.Errorf("the phase is %s", got)
			}
		})
	})
	t.Run("never", func(t *testing.T) {
		onStage(t, func(s *stage) {
			s.boot()
			pod := podOf("p", "exits 3 after 5s", 30)
			pod.Spec.RestartPolicy = corev1.RestartPolicyNever
			s.create(pod)
			time.Sleep(20 * time.Second)
			if got := s.pod("p"); got.Status.Phase != corev1.PodFailed || got.Status.ContainerStatuses[0].State.Terminated.ExitCode != 3 {
				t.Errorf("it is %s", describe(got))
			}
			s.delete("p", -1)
			time.Sleep(3 * time.Second)
			if s.pod("p") != nil {
				t.Error("KBL-84: it is still there")
			}
		})
	})
	t.Run("init containers", func(t *testing.T) {
		onStage(t, func(s *stage) {
			s.boot()
			pod := podOf("p", "ignores TERM", 30)
			pod.Annotations["script.podfall.io/i"] = "exits 0 after 3s"
			pod.Spec.InitContainers = []corev1.Container{{Name: "i", Image: "img"}}
			s.create(pod)
			time.Sleep(2500 * time.Millisecond)
			if got := s.pod("p").Status; got.Phase != corev1.PodPending || got.InitContainerStatuses[0].State.Running == nil {
				t.Errorf("at first it is %+v", got)
			}
			time.Sleep(5 * time.Second)
			if got := s.pod("p").Status; got.Phase != corev1.PodRunning || got.InitContainerStatuses[0].State.Terminated == nil {
				t.Errorf("then it is %+v", got)
			}
		})
	})
}

// TestRestartOfTheKubelet starts a kubelet anew over pods in every state (KBL-12,
// KBL-13, KBL-77).
func TestRestartOfTheKubelet(t *testing.T) {
	onStage(t, func(s *stage) {
		s.boot()
		s.create(podOf("kept", "ignores TERM", 30))
		s.create(podOf("ended", "on TERM exits 0 after 1s", 30))
		time.Sleep(10 * time.Second)
		s.api.mu.Lock()
		s.api.refuse = func(verb, _ string) error {
			if verb == "delete" {
				return apierrors.NewInternalError(errors.New("not now"))
			}
			return nil
		}
		s.api.mu.Unlock()
		s.delete("ended", -1)
		time.Sleep(5 * time.Second)
		s.stop()
		s.create(podOf("never-run", "on TERM exits 0 after 1s", 30))
		s.delete("never-run", -1)
		s.api.mu.Lock()
		s.api.refuse = nil
		s.api.mu.Unlock()
		s.trace.begin()
		s.boot()
		time.Sleep(5 * time.Second)
		if s.pod("ended") != nil || s.pod("never-run") != nil {
			t.Error("KBL-12, KBL-13: a deleted pod is still there")
		}
		if text := s.trace.String(); !strings.Contains(text, "never-run dgps=30 gen=2/2 Failed") || strings.Contains(text, "StartContainer") ||
			strings.Contains(text, "StopContainer") {
			t.Errorf("KBL-13, KBL-77: it did\n%s", text)
		}
		if got := s.pod("kept"); got.Status.Phase != corev1.PodRunning || got.Status.ContainerStatuses[0].RestartCount != 0 {
			t.Errorf("the pod that ran on is %s", describe(got))
		}
	})
}

// TestRestartDuringAStart: what one kubelet has asked the runtime to start, the next takes
// up, and starts nothing beside it.
func TestRestartDuringAStart(t *testing.T) {
	onStage(t, func(s *stage) {
		s.trace.begin()
		s.boot()
		s.create(podOf("p", startsLate, 30))
		time.Sleep(5 * time.Second)
		s.boot()
		time.Sleep(3 * time.Second)
		if text := s.trace.String(); strings.Count(text, "CreateContainer c") != 1 || strings.Contains(text, "Failed") {
			t.Errorf("the kubelet took part in this:\n%s", text)
		}
		if got := describe(s.pod("p")); got != "p gen=1/1 Running ready=True c=running" {
			t.Errorf("the pod is %s after\n%s", got, s.trace)
		}
	})
}

// TestTwoEndings: a kubelet that leaves stops nothing.
func TestTwoEndings(t *testing.T) {
	onStage(t, func(s *stage) {
		s.running("ignores TERM", 30)
		s.delete("p", -1)
		time.Sleep(time.Second)
		s.stop()
		if text := s.trace.String(); strings.Contains(text, "KILL") || strings.Contains(text, "StopPodSandbox") {
			t.Errorf("leaving, it did\n%s", text)
		}
		synctest.Wait()
	})
}

// TestKillNow is TD-067 and KBL-23.
func TestKillNow(t *testing.T) {
	// See podworker/testdata/TD-067_kill_now.txt for the grace; the wait needs workers.
	onStage(t, func(s *stage) { s.evict("on TERM exits 0 after 1s", 10, "") })
	onStage(t, func(s *stage) { s.evict("ignores TERM", 40, "timeout waiting to kill pod") })
}
