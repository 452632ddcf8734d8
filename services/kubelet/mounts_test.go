package kubelet

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/internal/fault"
	"github.com/podfall/podfall/internal/storage"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
)

// put stores an object of the pod's namespace, as another client would.
func (s *stage) put(key string, obj kinds.Object) {
	s.api.mu.Lock()
	defer s.api.mu.Unlock()
	resource, name, _ := strings.Cut(key, "/")
	key = resource + "/default/" + name
	kind := watch.Added
	if s.api.objects[key] != nil {
		kind = watch.Modified
	}
	obj.SetNamespace("default")
	obj.SetName(name)
	s.api.put(kind, key, obj)
}

// withConfig gives the pod a volume of the ConfigMap conf and, in variables, its key a.
func withConfig(pod *corev1.Pod) *corev1.Pod {
	conf := corev1.LocalObjectReference{Name: "conf"}
	pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: conf}}}}
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/etc/conf"}}
	pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", ValueFrom: &corev1.EnvVarSource{
		ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: conf, Key: "a"},
	}}}
	return pod
}

// waits is the reason for which the container of pod p waits, and the message.
func (s *stage) waits() string {
	s.t.Helper()
	state := s.pod("p").Status.ContainerStatuses[0].State
	if state.Waiting == nil {
		return fmt.Sprintf("%+v", state)
	}
	return strings.TrimSpace(state.Waiting.Reason + " " + state.Waiting.Message)
}

// mounted is the file a as the container that was created last finds it.
func (s *stage) mounted() string {
	s.t.Helper()
	created := s.lastCreated()
	data, err := os.ReadFile(filepath.Join(created.GetMounts()[0].GetHostPath(), "a"))
	if err != nil {
		return err.Error()
	}
	return string(data)
}

func (s *stage) lastCreated() *proto.CreateContainerRequest {
	s.runtime.mu.Lock()
	defer s.runtime.mu.Unlock()
	if len(s.runtime.created) == 0 {
		s.t.Fatal("no container was created")
	}
	return s.runtime.created[len(s.runtime.created)-1]
}

// TestPodStartsWithItsConfigMap has a pod wait for its ConfigMap, in upstream's words, then run with
// it, and see it change.
func TestPodStartsWithItsConfigMap(t *testing.T) {
	for name, timing := range map[string]Timing{"default": Default(), "fastest": Fastest()} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				s.timing = timing
				s.boot()
				s.trace.begin()
				s.create(withConfig(podOf("p", "on TERM exits 0 after 1s", 30)))
				time.Sleep(20 * time.Second)
				if got := s.waits(); got != "ContainerCreating" {
					t.Errorf("without its ConfigMap it is %s", got)
				}
				want := `Warning FailedMount: MountVolume.SetUp failed for volume "v" : configmap "conf" not found`
				if text := s.trace.String(); !strings.Contains(text, want) || strings.Contains(text, "RunPodSandbox") {
					t.Errorf("it waited with\n%s", text)
				}
				s.put("configmaps/conf", &corev1.ConfigMap{Data: map[string]string{"a": "1"}})
				time.Sleep(20 * time.Second)
				if got := s.lastCreated().GetEnv()["A"]; got != "1" || s.mounted() != "1" || s.pod("p").Status.Phase != corev1.PodRunning {
					t.Errorf("A is %q, the file says %q, the pod is %s", got, s.mounted(), describe(s.pod("p")))
				}
				s.put("configmaps/conf", &corev1.ConfigMap{Data: map[string]string{"a": "2"}})
				time.Sleep(3 * time.Second)
				if got := s.mounted(); got != "2" {
					t.Errorf("after the change the file says %q", got)
				}
			})
		})
	}
}

// TestConfigError has a container wait for what its environment lacks.
func TestConfigError(t *testing.T) {
	onStage(t, func(s *stage) {
		s.boot()
		s.trace.begin()
		pod := withConfig(podOf("p", "on TERM exits 0 after 1s", 30))
		pod.Spec.Volumes, pod.Spec.Containers[0].VolumeMounts = nil, nil
		s.create(pod)
		time.Sleep(5 * time.Second)
		if got := s.waits(); got != `CreateContainerConfigError configmap "conf" not found` {
			t.Errorf("without its ConfigMap it is %s", got)
		}
		if text := s.trace.String(); !strings.Contains(text, `Warning Failed: Error: configmap "conf" not found`) {
			t.Errorf("the events are\n%s", text)
		}
		s.put("configmaps/conf", &corev1.ConfigMap{Data: map[string]string{"b": "1"}})
		time.Sleep(20 * time.Second) // the status says it at the next attempt
		if got := s.waits(); got != "CreateContainerConfigError couldn't find key a in ConfigMap default/conf" {
			t.Errorf("without its key it is %s", got)
		}
		s.put("configmaps/conf", &corev1.ConfigMap{Data: map[string]string{"a": "1"}})
		time.Sleep(20 * time.Second)
		if got := s.pod("p"); got.Status.Phase != corev1.PodRunning {
			t.Errorf("with all it needs it is %s", describe(got))
		}
	})
}

// TestStopWhileCutOff: a node that is cut off restarts containers with what it last saw.
func TestStopWhileCutOff(t *testing.T) {
	onStage(t, func(s *stage) {
		s.boot()
		s.put("configmaps/conf", &corev1.ConfigMap{Data: map[string]string{"a": "1"}})
		s.create(withConfig(podOf("p", "exits 1 after 5s", 30)))
		time.Sleep(4 * time.Second)
		s.cut()
		time.Sleep(30 * time.Second)
		s.runtime.mu.Lock()
		created := len(s.runtime.created)
		s.runtime.mu.Unlock()
		if created < 2 || s.lastCreated().GetEnv()["A"] != "1" {
			t.Errorf("cut off, %d containers were created, the last with %v", created, s.lastCreated().GetEnv())
		}
	})
}

// TestMissingAndDeleted is TD-097: a pod that waits for its volume can be deleted at once.
func TestMissingAndDeleted(t *testing.T) {
	onStage(t, func(s *stage) {
		s.boot()
		s.create(withConfig(podOf("p", "on TERM exits 0 after 1s", 30)))
		time.Sleep(10 * time.Second)
		s.delete("p", -1)
		time.Sleep(5 * time.Second)
		if pod := s.pod("p"); pod != nil {
			t.Errorf("TD-097: it is still there: %s", describe(pod))
		}
		s.gone()
	})
}

// gone fails unless nothing of the pod p is on the node.
func (s *stage) gone() {
	s.t.Helper()
	for _, name := range []string{"pods", "cgroups"} {
		if _, err := os.Stat(filepath.Join(s.dir, name, "uid-p")); !os.IsNotExist(err) {
			s.t.Errorf("%s/uid-p is still there: %v", name, err)
		}
	}
}

// hanging is one fault: the point hangs for the pod p.
func hanging(t *testing.T, point fault.Point) []fault.Fault {
	t.Helper()
	f, err := fault.New("h", fault.Spec{Point: point, Where: fault.Attributes{Pod: "p"}, Effect: fault.Effect{Kind: fault.Hang}}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return []fault.Fault{f}
}

// TestKilledAtEachStep ends the kubelet while a volume is being mounted, unmounted or
// removed, and has the next one go on; meanwhile another pod lives its whole life.
func TestKilledAtEachStep(t *testing.T) {
	for _, point := range []fault.Point{fault.VolumeMount, fault.VolumeUnmount, fault.VolumeRemoveDir} {
		t.Run(string(point), func(t *testing.T) {
			onStage(t, func(s *stage) {
				table := fault.NewTable(fault.Config{Node: "n1"})
				s.machine.Faults = table
				s.put("configmaps/conf", &corev1.ConfigMap{Data: map[string]string{"a": "1"}})
				s.boot()
				if point == fault.VolumeMount {
					table.Set(hanging(t, point))
				}
				s.create(withConfig(podOf("p", "on TERM exits 0 after 1s", 30)))
				time.Sleep(10 * time.Second)
				if point != fault.VolumeMount {
					table.Set(hanging(t, point))
					s.delete("p", -1)
					time.Sleep(10 * time.Second)
				}
				s.create(withConfig(podOf("other", "on TERM exits 0 after 1s", 30)))
				time.Sleep(10 * time.Second)
				if got := s.pod("other"); got.Status.Phase != corev1.PodRunning {
					t.Errorf("another pod is held up: %s", describe(got))
				}
				s.delete("other", -1)
				time.Sleep(20 * time.Second)
				if s.pod("other") != nil || s.pod("p") == nil {
					t.Errorf("another pod is %v, and the one that hangs %v", s.pod("other"), s.pod("p"))
				}
				s.boot()
				time.Sleep(10 * time.Second)
				table.Set(nil)
				time.Sleep(20 * time.Second)
				if point == fault.VolumeMount {
					if got := s.pod("p"); got.Status.Phase != corev1.PodRunning || s.mounted() != "1" {
						t.Errorf("after the restart it is %s", describe(got))
					}
					s.delete("p", -1)
					time.Sleep(20 * time.Second)
				}
				if got := s.pod("p"); got != nil {
					t.Errorf("it is still there: %s", describe(got))
				}
				s.gone()
			})
		})
	}
}

// TestOrphanedVolumes is STK-32: after a forced deletion a volume that does not unmount
// leaves its directory, which housekeeping tries for ever, and no other pod is held up.
func TestOrphanedVolumes(t *testing.T) {
	for _, broken := range []func(*testing.T, fault.Point) []fault.Fault{failing, hanging} {
		onStage(t, func(s *stage) {
			table := fault.NewTable(fault.Config{Node: "n1"})
			s.machine.Faults = table
			s.boot()
			s.create(withVolume(podOf("p", "on TERM exits 0 after 1s", 30)))
			time.Sleep(10 * time.Second)
			table.Set(broken(t, fault.VolumeUnmount))
			s.stop() // whoever deletes by force does not ask
			s.delete("p", 0)
			s.boot()
			s.create(withVolume(podOf("other", "on TERM exits 0 after 1s", 30)))
			time.Sleep(time.Minute)
			if _, err := os.Stat(filepath.Join(s.dir, "pods/uid-p/mounts/v")); err != nil || s.pod("p") != nil {
				t.Errorf("STK-32: the volume is %v, the pod %v", err, s.pod("p"))
			}
			s.delete("other", -1)
			time.Sleep(20 * time.Second)
			if s.pod("other") != nil {
				t.Errorf("an orphan holds up another pod: %s", describe(s.pod("other")))
			}
			table.Set(nil)
			time.Sleep(10 * time.Second)
			s.gone()
			synctest.Wait()
		})
	}
}

// TestDoubleMount is STK-16: the driver mounts again when the kubelet starts anew. The
// object stays, without an event, until somebody unmounts by hand.
func TestDoubleMount(t *testing.T) {
	onStage(t, func(s *stage) {
		double, err := fault.New("d", fault.Spec{Point: fault.VolumeMount, Effect: fault.Effect{Kind: fault.Duplicate}}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		table := fault.NewTable(fault.Config{Node: "n1"})
		s.machine.Faults = table
		table.Set([]fault.Fault{double})
		s.boot()
		s.create(withVolume(podOf("p", "on TERM exits 0 after 1s", 30)))
		time.Sleep(10 * time.Second)
		s.boot()
		time.Sleep(10 * time.Second)
		s.trace.begin()
		s.delete("p", -1)
		time.Sleep(10 * time.Minute)
		if got := s.pod("p"); got == nil || got.Status.Phase != corev1.PodSucceeded {
			t.Fatalf("STK-16: with a mount too many the pod is %v", got)
		}
		if text := s.trace.String(); strings.Contains(text, "Warning") {
			t.Errorf("STK-16: there are events:\n%s", text)
		}
		if err := os.Remove(filepath.Join(s.dir, "pods/uid-p/mounts/v")); err != nil { // umount
			t.Fatal(err)
		}
		time.Sleep(15 * time.Second)
		if s.pod("p") != nil {
			t.Error("STK-16: after the second unmount it is still there")
		}
	})
}

// TestVolumesInUse has the node say what it uses before it mounts it, and until it has
// unmounted it (CTL-20).
func TestVolumesInUse(t *testing.T) {
	onStage(t, func(s *stage) {
		s.boot()
		s.api.mu.Lock()
		s.api.put(watch.Added, "persistentvolumes//pv", &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: "pv"},
			Spec: corev1.PersistentVolumeSpec{
				ClaimRef:               &corev1.ObjectReference{UID: "c"},
				PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: "h"}},
			},
		})
		s.api.mu.Unlock()
		s.put("persistentvolumeclaims/data", &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{UID: "c"}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "pv"},
			Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
		})
		pod := withVolume(podOf("p", "on TERM exits 0 after 1s", 30))
		pod.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}
		s.create(pod)
		time.Sleep(3 * time.Second)
		inUse := func() int {
			s.api.mu.Lock()
			defer s.api.mu.Unlock()
			node, _ := s.api.objects["nodes//n1"].(*corev1.Node)
			return len(node.Status.VolumesInUse)
		}
		if got := s.waits(); inUse() != 1 || got != "ContainerCreating" {
			t.Fatalf("before it is attached, %d are in use, and it is %s", inUse(), got)
		}
		s.attach("d", "h")
		time.Sleep(5 * time.Second)
		if got := s.pod("p"); got.Status.Phase != corev1.PodRunning || inUse() != 1 {
			t.Errorf("attached, it is %s, and %d are in use", describe(got), inUse())
		}
		s.delete("p", -1)
		time.Sleep(10 * time.Second)
		if s.pod("p") != nil || inUse() != 0 {
			t.Errorf("at the end it is %v, and %d are in use", s.pod("p"), inUse())
		}
	})
}

// attach is the attach/detach controller's.
func (s *stage) attach(driver, handle string) {
	s.api.mu.Lock()
	defer s.api.mu.Unlock()
	name := storage.AttachmentName(&corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: handle}, "n1")
	attachment := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: name}}
	attachment.Status.Attached = true
	s.api.put(watch.Added, "volumeattachments//"+name, attachment)
	node, _ := s.api.objects["nodes//n1"].DeepCopyObject().(*corev1.Node)
	node.Status.VolumesAttached = []corev1.AttachedVolume{{Name: node.Status.VolumesInUse[0]}}
	s.api.put(watch.Modified, "nodes//n1", node)
}
