package cluster

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/e2e/stage"
	"github.com/podfall/podfall/proto/kinds"
)

func requestsCPU(cpu string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	}
}

// describePlace describes a pod's node and nomination.
func describePlace(obj kinds.Object, kind watch.EventType) string {
	text := describePod(obj, kind)
	if p, ok := obj.(*corev1.Pod); ok && kind != watch.Deleted {
		if p.Spec.NodeName != "" {
			text += " on " + p.Spec.NodeName
		}
		if p.Status.NominatedNodeName != "" {
			text += ", node-1 is kept for it"
		}
	}
	return text
}

// TestPreemption has a full node and a pod of higher priority.
func TestPreemption(t *testing.T) {
	play(t, stage.Config{Nodes: 1, Plugins: []string{"Priority"}}, func(r *rig) {
		r.create("priorityclasses.scheduling.k8s.io", &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 1000})
		node := get[*corev1.Node](r, "nodes node-1")
		all := node.Status.Allocatable.Cpu().DeepCopy()
		r.create("pods", pod("low", "", requestsCPU(all.String())))
		r.until("low runs", func() bool { return get[*corev1.Pod](r, "pods low").Status.Phase == corev1.PodRunning })
		r.watch("pods", describePlace)
		r.noteEvents("FailedScheduling", "Preempted", "Scheduled")
		r.resetNotes()
		r.create("pods", pod("high", "", requestsCPU("1"), func(p *corev1.Pod) { p.Spec.PriorityClassName = "high" }))
		time.Sleep(time.Minute)
		r.wantNotes(
			`0s      event Normal Pod/low Preempted: Preempted by pod UID on node node-1 (default-scheduler)`,
			`0s      event Warning Pod/high FailedScheduling: 0/1 nodes are available: 1 Insufficient cpu. (default-scheduler)`,
			`0s      pod high Pending`,
			`0s      pod high Pending, node-1 is kept for it`,
			`0s      pod low Running DisruptionTarget=True PreemptionByScheduler Ready=True on node-1`,
			`0s      pod low Running DisruptionTarget=True PreemptionByScheduler Ready=True terminating, grace 30 on node-1`,
			`0s      pod low Running Ready=True DisruptionTarget=True PreemptionByScheduler terminating, grace 30 on node-1`,
			`1s      event Normal Pod/high Scheduled: Successfully assigned default/high to node-1 (default-scheduler)`,
			`1s      pod high Pending Ready=False on node-1, node-1 is kept for it`,
			`1s      pod high Pending on node-1, node-1 is kept for it`,
			`1s      pod low Succeeded Ready=False DisruptionTarget=True PreemptionByScheduler terminating, grace 30 on node-1`,
			`1.9s    pod high Running Ready=True on node-1, node-1 is kept for it`,
			`1.9s    pod low Succeeded Ready=False DisruptionTarget=True PreemptionByScheduler terminating, grace 0 on node-1`,
			`1.9s    pod low is gone`,
		)
	})
}

// describeVolume describes the phase of a claim or a volume.
func describeVolume(obj kinds.Object, kind watch.EventType) string {
	text := ""
	switch obj := obj.(type) {
	case *corev1.PersistentVolumeClaim:
		text = "claim " + obj.Name + " " + string(obj.Status.Phase)
		if node := obj.Annotations["volume.kubernetes.io/selected-node"]; node != "" {
			text += " for " + node
		}
	case *corev1.PersistentVolume:
		text = "volume of " + obj.Spec.ClaimRef.Name + " " + string(obj.Status.Phase)
	}
	if kind == watch.Deleted {
		return text + " is gone"
	}
	if obj.GetDeletionTimestamp() != nil {
		text += " terminating"
	}
	return text
}

// TestVolumes has two claims: one of the default class, which is bound at once, and one that waits
// for its pod. A deleted claim stays while its pod exists.
func TestVolumes(t *testing.T) {
	play(t, stage.Config{
		Nodes:       1,
		Controllers: []string{"scheduler", "persistentvolume-binder", "attachdetach", "pv-protection", "pvc-protection"},
		Plugins:     []string{"DefaultStorageClass", "StorageObjectInUseProtection"},
	}, func(r *rig) {
		r.create("storageclasses.storage.k8s.io", &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: "late"}, Provisioner: "podfall.dev/directory",
			VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer),
		})
		r.watch("persistentvolumeclaims", describeVolume)
		r.watch("persistentvolumes", describeVolume)
		r.watch("pods", describePlace)
		r.noteEvents("WaitForFirstConsumer", "ProvisioningSucceeded", "FailedScheduling")
		r.resetNotes()
		claim := func(name string, class *string) {
			c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
			c.Spec.AccessModes, c.Spec.StorageClassName = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, class
			c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")}
			r.create("persistentvolumeclaims", c)
		}
		claim("usual", nil)
		claim("late", new("late"))
		time.Sleep(10 * time.Second)
		r.create("pods", pod("web", "", func(p *corev1.Pod) {
			for _, name := range []string{"usual", "late"} {
				p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
					PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
				}})
			}
		}))
		time.Sleep(10 * time.Second)
		r.delete("persistentvolumeclaims late", metav1.DeleteOptions{})
		time.Sleep(10 * time.Second)
		r.delete("pods web", metav1.DeleteOptions{})
		time.Sleep(time.Minute)
		r.wantNotes(
			`0s      claim late Pending`,
			`0s      claim usual Bound`,
			`0s      claim usual Pending`,
			`0s      event Normal PersistentVolumeClaim/late WaitForFirstConsumer: waiting for first consumer to be created before binding (persistentvolume-controller)`,
			`0s      event Normal PersistentVolumeClaim/usual ProvisioningSucceeded: Successfully provisioned volume pvc-UID (podfall.dev/directory)`,
			`0s      volume of usual Bound`,
			`0s      volume of usual Pending`,
			`10s     claim late Bound for node-1`,
			`10s     claim late Pending for node-1`,
			`10s     event Normal PersistentVolumeClaim/late ProvisioningSucceeded: Successfully provisioned volume pvc-UID (podfall.dev/directory)`,
			`10s     pod web Pending`,
			`10s     pod web Pending Ready=False on node-1`,
			`10s     pod web Pending on node-1`,
			`10s     volume of late Bound`,
			`10s     volume of late Pending`,
			`12.8s   pod web Running Ready=True on node-1`,
			`20s     claim late Bound for node-1 terminating`,
			`30s     pod web Running Ready=True terminating, grace 30 on node-1`,
			`31s     pod web Succeeded Ready=False terminating, grace 30 on node-1`,
			`31.8s   claim late Bound for node-1 is gone`,
			`31.8s   pod web Succeeded Ready=False terminating, grace 0 on node-1`,
			`31.8s   pod web is gone`,
			`31.8s   volume of late Released`,
			`31.8s   volume of late Released is gone`,
			`31.8s   volume of late Released terminating`,
		)
	})
}
