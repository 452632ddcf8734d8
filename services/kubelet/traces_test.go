package kubelet

import (
	"context"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
)

var update = flag.Bool("update", false, "write the traces anew")

// stage is one kubelet between a fake apiserver and a fake runtime, in a bubble.
type stage struct {
	t       *testing.T
	trace   *trace
	api     *fakeAPI
	runtime *fakeRuntime
	dir     string
	timing  Timing
	compat  proto.Compat
	machine Machine
	stop    func()
}

func onStage(t *testing.T, story func(s *stage)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		tr := &trace{}
		compat, err := proto.CompatFor("")
		if err != nil {
			t.Fatal(err)
		}
		s := &stage{
			t: t, trace: tr, api: newFakeAPI(tr), runtime: &fakeRuntime{trace: tr}, dir: dir, timing: Default(), compat: compat,
			stop: func() {},
		}
		defer func() { s.stop() }()
		story(s)
	})
}

// boot starts a kubelet; stop, or another boot, is its kill -9.
func (s *stage) boot() {
	s.t.Helper()
	s.stop()
	p, err := assemble(Config{
		Node: "n1", DataDir: s.dir, Timing: s.timing, Compat: s.compat, Boot: "b", Machine: s.machine,
	}, s.api, s.runtime)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- p.run(ctx) }()
	s.stop = func() {
		cancel()
		if err := <-done; err != nil {
			s.t.Error(err)
		}
		s.stop = func() {}
	}
	synctest.Wait()
}

// runs boots a kubelet and a pod of it that edit has changed, as running does.
func (s *stage) runs(edit func(*corev1.PodSpec)) {
	s.t.Helper()
	s.boot()
	pod := podOf("p", "on TERM exits 0 after 1s", 30)
	pod.Annotations["script.podfall.io/s1"] = "on TERM exits 0 after 1s"
	pod.Annotations["script.podfall.io/s2"] = "on TERM exits 0 after 1s"
	edit(&pod.Spec)
	s.create(pod)
	time.Sleep(10*time.Second + 500*time.Millisecond)
	s.trace.begin()
}

// preStop gives the pod's container a hook and the pod a grace.
func preStop(grace int64, handler corev1.LifecycleHandler) func(*corev1.PodSpec) {
	return func(spec *corev1.PodSpec) {
		spec.TerminationGracePeriodSeconds = &grace
		spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &handler}
	}
}

func sleeping(seconds int64) corev1.LifecycleHandler {
	return corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: seconds}}
}

func executing(command ...string) corev1.LifecycleHandler {
	return corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: command}}
}

// sidecars gives the pod two of them.
func sidecars(spec *corev1.PodSpec) {
	for _, name := range []string{"s1", "s2"} {
		spec.InitContainers = append(spec.InitContainers, corev1.Container{
			Name: name, Image: "img", RestartPolicy: new(corev1.ContainerRestartPolicyAlways),
		})
	}
}

func podOf(name, script string, grace int64) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID("uid-" + name), Generation: 1,
			CreationTimestamp: metav1.Now(), Annotations: map[string]string{"script.podfall.io/c": script},
		},
		Spec: corev1.PodSpec{
			NodeName: "n1", TerminationGracePeriodSeconds: &grace, RestartPolicy: corev1.RestartPolicyAlways,
			Containers: []corev1.Container{{Name: "c", Image: "img"}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
}

func (s *stage) pods() podapi.Target {
	kind, _ := kinds.ByResource("pods")
	return podapi.Target{Kind: kind, Namespace: "default"}
}

func (s *stage) create(pod *corev1.Pod) {
	s.api.mu.Lock()
	defer s.api.mu.Unlock()
	s.api.put(watch.Added, "pods/default/"+pod.Name, pod)
}

// delete is a user's; a negative grace asks for none.
func (s *stage) delete(name string, grace int64) {
	s.t.Helper()
	target := s.pods()
	target.Name = name
	var opts metav1.DeleteOptions
	if grace >= 0 {
		opts.GracePeriodSeconds = &grace
	}
	s.api.mu.Lock()
	defer s.api.mu.Unlock()
	if _, err := s.api.delete(target, opts); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) pod(name string) *corev1.Pod {
	s.api.mu.Lock()
	defer s.api.mu.Unlock()
	pod, _ := s.api.objects["pods/default/"+name].(*corev1.Pod)
	return pod
}

// change edits a stored pod, as another client would.
func (s *stage) change(name string, edit func(*corev1.Pod)) {
	s.api.mu.Lock()
	defer s.api.mu.Unlock()
	live, ok := s.api.objects["pods/default/"+name].(*corev1.Pod)
	if !ok {
		s.t.Fatalf("there is no pod %s", name)
	}
	pod := live.DeepCopy()
	edit(pod)
	s.api.put(watch.Modified, "pods/default/"+name, pod)
}

// cut and heal are of the kubelet's link to the API.
func (s *stage) cut() { s.link(true, 0) }

func (s *stage) heal(relist bool) {
	s.link(false, map[bool]int{true: 1}[relist])
}

func (s *stage) link(cut bool, relists int) {
	s.api.mu.Lock()
	defer s.api.mu.Unlock()
	s.api.cut = cut
	s.api.relists += relists
	close(s.api.changed)
	s.api.changed = make(chan struct{})
}

// running boots a kubelet and a pod of it, and waits half past a second, so that no tick
// falls on what follows.
func (s *stage) running(script string, grace int64) {
	s.t.Helper()
	s.boot()
	s.create(podOf("p", script, grace))
	time.Sleep(10*time.Second + 500*time.Millisecond)
	if pod := s.pod("p"); pod.Status.Phase != corev1.PodRunning {
		s.t.Fatalf("the pod is %s, not Running", pod.Status.Phase)
	}
	s.trace.begin()
}

// compare holds the trace against testdata.
func (s *stage) compare(name string) {
	s.t.Helper()
	synctest.Wait()
	path := filepath.Join("testdata", name+".txt")
	got := s.trace.String()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			s.t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		s.t.Fatal(err)
	}
	if got != string(want) {
		s.t.Errorf("%s: the trace is\n%s\nwant\n%s", name, got, want)
	}
}

func TestTraces(t *testing.T) {
	stories := map[string]func(s *stage){
		"start": func(s *stage) {
			s.boot()
			time.Sleep(500 * time.Millisecond)
			s.trace.begin()
			s.create(podOf("p", "on TERM exits 0 after 2s", 30))
			time.Sleep(5 * time.Second)
		},
		"TRC-01 graceful, clean exit at 2 s": func(s *stage) {
			s.running("on TERM exits 0 after 2s", 30)
			s.delete("p", -1)
			time.Sleep(8 * time.Second)
		},
		"TRC-01 at the fastest": func(s *stage) {
			s.timing = Fastest()
			s.running("on TERM exits 0 after 2s", 30)
			s.delete("p", -1)
			time.Sleep(8 * time.Second)
		},
		"TRC-01 v1.22": func(s *stage) {
			s.compat, _ = proto.CompatFor("v1.22")
			s.runtime.purges = true
			s.running("on TERM exits 0 after 2s", 30)
			s.delete("p", -1)
			time.Sleep(8 * time.Second)
		},
		"TRC-02 TERM ignored": func(s *stage) {
			s.running("ignores TERM", 5)
			s.delete("p", -1)
			time.Sleep(12 * time.Second)
		},
		"TRC-05 forced, kubelet healthy": func(s *stage) {
			s.running("ignores TERM", 30)
			s.delete("p", 0)
			time.Sleep(8 * time.Second)
		},
		"TRC-06 forced in a partition, relist": func(s *stage) {
			s.running("ignores TERM", 7)
			s.cut()
			s.delete("p", 0)
			time.Sleep(30 * time.Second)
			s.heal(true)
			time.Sleep(15 * time.Second)
		},
		"KBL-79 forced in a partition, resume": func(s *stage) {
			s.running("ignores TERM", 7)
			s.cut()
			s.delete("p", 0)
			time.Sleep(30 * time.Second)
			s.heal(false)
			time.Sleep(15 * time.Second)
		},
		"TRC-07 forced, kubelet down": func(s *stage) {
			s.running("ignores TERM", 30)
			s.stop()
			s.delete("p", 0)
			time.Sleep(30 * time.Second)
			s.boot()
			time.Sleep(15 * time.Second)
		},
		"TRC-12 second delete before the kubelet acts": func(s *stage) {
			s.running("ignores TERM", 600)
			s.cut()
			s.delete("p", 30)
			s.delete("p", 60)
			s.delete("p", 5)
			time.Sleep(time.Second)
			s.heal(true) // all at once: a resumed watch may show the 30 first, and be acted on
			time.Sleep(15 * time.Second)
		},
		"TRC-12 shorter during the kill": func(s *stage) {
			s.running("ignores TERM", 30)
			s.delete("p", 10)
			time.Sleep(2 * time.Second)
			s.delete("p", 3)
			time.Sleep(15 * time.Second)
		},
		"TRC-13 long, then forced": func(s *stage) {
			s.running("ignores TERM", 600)
			s.delete("p", -1)
			time.Sleep(5 * time.Second)
			s.delete("p", 0)
			time.Sleep(700 * time.Second)
		},
		"TRC-20 kubelet restart at 10 s of 30": func(s *stage) {
			s.running("ignores TERM", 30)
			s.delete("p", -1)
			time.Sleep(10 * time.Second)
			s.boot()
			time.Sleep(45 * time.Second)
		},
	}
	maps.Copy(stories, hookStories())
	maps.Copy(stories, probeStories())
	for name, story := range stories {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				story(s)
				s.compare(name)
			})
		})
	}
}

func hookStories() map[string]func(s *stage) {
	deleted := func(edit func(*corev1.PodSpec), wait time.Duration) func(s *stage) {
		return func(s *stage) {
			s.runs(edit)
			s.delete("p", -1)
			time.Sleep(wait)
		}
	}
	return map[string]func(s *stage){
		"TRC-03 preStop sleeps 3 s of 10":     deleted(preStop(10, sleeping(3)), 10*time.Second),
		"TRC-04 preStop without end":          deleted(preStop(5, executing("hangs")), 12*time.Second),
		"KBL-33 preStop takes 2.9 s of 10":    deleted(preStop(10, executing("takes", "2.9s")), 10*time.Second),
		"KBL-43 preStop fails":                deleted(preStop(10, executing("exits", "1")), 6*time.Second),
		"KBL-43 preStop cannot be understood": deleted(preStop(10, corev1.LifecycleHandler{}), 6*time.Second),
		"KBL-41 preStop over HTTP": deleted(preStop(10, corev1.LifecycleHandler{
			HTTPGet: &corev1.HTTPGetAction{Path: "/bye", Port: intstr.FromInt32(80)},
		}), 6*time.Second),
		"KBL-41 preStop over HTTP to nobody": deleted(preStop(10, corev1.LifecycleHandler{
			HTTPGet: &corev1.HTTPGetAction{Path: "/bye", Port: intstr.FromString("web")},
		}), 6*time.Second),
		"KBL-37 forced with a preStop": func(s *stage) {
			s.runs(preStop(30, sleeping(20)))
			s.delete("p", 0)
			time.Sleep(8 * time.Second)
		},
		"KBL-44 preStop of a container that has ended": func(s *stage) {
			s.runs(func(spec *corev1.PodSpec) {
				preStop(10, sleeping(3))(spec)
				spec.RestartPolicy = corev1.RestartPolicyNever
			})
			s.runtime.exit("c", 3)
			s.delete("p", -1)
			time.Sleep(6 * time.Second)
		},
		"sidecars start in turn, at the fastest": func(s *stage) {
			s.timing = Fastest()
			s.boot()
			time.Sleep(500 * time.Millisecond)
			s.trace.begin()
			pod := podOf("p", "on TERM exits 0 after 2s", 30)
			sidecars(&pod.Spec)
			s.create(pod)
			time.Sleep(5 * time.Second)
		},
		"TRC-28 sidecars stop in turn": deleted(sidecars, 10*time.Second),
		"KBL-51 sidecars share the grace": deleted(func(spec *corev1.PodSpec) {
			sidecars(spec)
			preStop(5, executing("hangs"))(spec)
		}, 20*time.Second),
		"KBL-54 sidecars end when the pod has ended": func(s *stage) {
			s.runs(func(spec *corev1.PodSpec) {
				sidecars(spec)
				spec.RestartPolicy = corev1.RestartPolicyNever
			})
			s.runtime.exit("c", 0)
			time.Sleep(10 * time.Second)
		},
		"a container cannot be created, its neighbour runs": func(s *stage) {
			s.boot()
			time.Sleep(500 * time.Millisecond)
			s.trace.begin()
			pod := podOf("p", "cannot be created", 30)
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "s1", Image: "img"})
			s.create(pod)
			time.Sleep(5 * time.Second)
		},
		"active deadline": func(s *stage) {
			s.runs(func(spec *corev1.PodSpec) { spec.ActiveDeadlineSeconds = new(int64(15)) })
			time.Sleep(10 * time.Second)
		},
		"an ephemeral container runs once": func(s *stage) {
			s.runs(func(*corev1.PodSpec) {})
			s.change("p", func(pod *corev1.Pod) {
				pod.Annotations["script.podfall.io/debug"] = "exits 3 after 2s"
				pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{
					EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Image: "img"},
				}}
			})
			time.Sleep(8 * time.Second)
			s.delete("p", -1)
			time.Sleep(5 * time.Second)
		},
		"a container fails to start": func(s *stage) {
			s.boot()
			time.Sleep(500 * time.Millisecond)
			s.trace.begin()
			s.create(podOf("p", "fails to start", 30))
			time.Sleep(5 * time.Second)
		},
		"postStart fails": func(s *stage) {
			s.boot()
			time.Sleep(500 * time.Millisecond)
			s.trace.begin()
			pod := podOf("p", "on TERM exits 0 after 800ms", 30)
			pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PostStart: new(executing("exits", "2"))}
			s.create(pod)
			time.Sleep(5 * time.Second)
		},
		"KBL-19 deleted during postStart": func(s *stage) {
			s.boot()
			time.Sleep(500 * time.Millisecond)
			s.trace.begin()
			pod := podOf("p", "on TERM exits 0 after 1s", 30)
			pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PostStart: new(executing("takes", "20s"))}
			s.create(pod)
			time.Sleep(3 * time.Second)
			s.delete("p", -1)
			time.Sleep(25 * time.Second)
		},
	}
}

func probeStories() map[string]func(s *stage) {
	http := func(port int) *corev1.Probe {
		return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
			HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromInt(port)},
		}}
	}
	begins := func(edit func(*corev1.Container), wait time.Duration) func(s *stage) {
		return func(s *stage) {
			s.boot()
			time.Sleep(500 * time.Millisecond)
			s.trace.begin()
			pod := podOf("p", "on TERM exits 0 after 1s", 5)
			edit(&pod.Spec.Containers[0])
			s.create(pod)
			time.Sleep(wait)
		}
	}
	return map[string]func(s *stage){
		"readiness, ready when the port answers": begins(func(c *corev1.Container) {
			c.ReadinessProbe = &corev1.Probe{
				ProbeHandler:        corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt(80)}},
				InitialDelaySeconds: 5, PeriodSeconds: 2, SuccessThreshold: 2,
			}
		}, 15*time.Second),
		"readiness, never ready": begins(func(c *corev1.Container) {
			c.ReadinessProbe = http(81)
			c.ReadinessProbe.PeriodSeconds = 3
		}, 12*time.Second),
		"liveness, killed and started again": begins(func(c *corev1.Container) {
			c.LivenessProbe = &corev1.Probe{
				ProbeHandler:  corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"exits", "3"}}},
				PeriodSeconds: 1, TerminationGracePeriodSeconds: new(int64(2)),
			}
		}, 6*time.Second),
		"startup, the other probes wait": begins(func(c *corev1.Container) {
			c.StartupProbe = &corev1.Probe{
				ProbeHandler:        corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt(80)}},
				InitialDelaySeconds: 4, PeriodSeconds: 1,
			}
			c.ReadinessProbe = &corev1.Probe{
				ProbeHandler:  corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt(80)}},
				PeriodSeconds: 1,
			}
		}, 9*time.Second),
		"KBL-30 liveness ends and readiness goes on while the pod is stopped": func(s *stage) {
			s.runs(func(spec *corev1.PodSpec) {
				preStop(10, sleeping(4))(spec)
				alive := &corev1.Probe{
					ProbeHandler:  corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"exits", "0"}}},
					PeriodSeconds: 2,
				}
				spec.Containers[0].LivenessProbe, spec.Containers[0].ReadinessProbe = alive, http(81)
				spec.Containers[0].ReadinessProbe.PeriodSeconds = 2
			})
			s.delete("p", -1)
			time.Sleep(8 * time.Second)
		},
		"probe times out": begins(func(c *corev1.Container) {
			c.ReadinessProbe = &corev1.Probe{
				ProbeHandler:  corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"hangs"}}},
				PeriodSeconds: 5, TimeoutSeconds: 2,
			}
		}, 9*time.Second),
	}
}
