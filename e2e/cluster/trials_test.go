package cluster

import (
	"fmt"
	"maps"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/podfall/podfall/proto/kinds"
)

// trials returns the trials of each controller.
func trials() map[string]trial {
	all := map[string]trial{
		"garbage-collector-controller": {own: "configmaps top", steps: []func(*rig){
			func(r *rig) {
				top := r.createOwned("top")
				r.createOwned("leaf", r.createOwned("middle", top))
				r.createOwned("kept", top, r.createOwned("other"))
			},
			func(r *rig) { r.delete("configmaps top", metav1.DeleteOptions{}) },
			func(r *rig) { r.delete("configmaps other", policy(metav1.DeletePropagationOrphan)) },
		}},
		"namespace-controller": {own: "namespaces shop", steps: []func(*rig){
			func(r *rig) {
				r.create("namespaces", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
				for i := range 5 {
					r.create("configmaps", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprint("x-", i)}})
				}
			},
			func(r *rig) { r.delete("namespaces shop", metav1.DeleteOptions{}) },
		}},
		"root-ca-certificate-publisher-controller": {own: "namespaces shop", steps: []func(*rig){
			func(r *rig) {
				r.create("namespaces", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
			},
			func(r *rig) { r.delete("configmaps shop/kube-root-ca.crt", metav1.DeleteOptions{}) },
			func(r *rig) {
				r.patch("configmaps shop/kube-root-ca.crt", map[string]any{"data": map[string]any{"ca.crt": nil}})
			},
		}},
		"serviceaccount-controller": {own: "namespaces shop", steps: []func(*rig){
			func(r *rig) {
				r.create("namespaces", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
			},
			func(r *rig) { r.delete("serviceaccounts shop/default", metav1.DeleteOptions{}) },
		}},
		"scheduler": {own: "nodes node-1", steps: []func(*rig){
			func(r *rig) {
				for i := range 6 {
					r.create("pods", pod(fmt.Sprint("web-", i), ""))
				}
			},
			deleteIfExists("pods web-2"), recreatePod("web-2"),
		}},
		"taint-eviction-controller": {own: "nodes node-1", wait: 30 * time.Second, steps: []func(*rig){
			createPod("web", "node-1"), createPod("other", "node-2"),
			func(r *rig) {
				r.patch("nodes node-1", map[string]any{"spec": map[string]any{"taints": []corev1.Taint{{Key: "gone", Effect: corev1.TaintEffectNoExecute}}}})
			},
		}},
		"pod-garbage-collector-controller": {own: "nodes node-1", wait: 100 * time.Second, steps: []func(*rig){
			func(r *rig) { r.create("nodes", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "late"}}) },
			func(r *rig) {
				r.create("pods", pod("web", "late"))
				r.create("pods", pod("other", "node-1"))
			},
			func(r *rig) { r.delete("nodes late", metav1.DeleteOptions{}) },
		}},
		"explain-controller": {own: "pods stuck", wait: time.Minute, steps: []func(*rig){
			createPod("stuck", "node-1"),
			func(r *rig) {
				r.patch("pods stuck", map[string]any{"metadata": map[string]any{"finalizers": []string{"example.com/backup"}}})
			},
			func(r *rig) { r.delete("pods stuck", metav1.DeleteOptions{}) },
		}},
		"node-lifecycle-controller": {own: "nodes node-1", wait: 30 * time.Second, steps: []func(*rig){
			createPod("web", "node-2"),
			func(r *rig) { r.Cut("node-2"); time.Sleep(90 * time.Second) },
			func(r *rig) { r.Heal("node-2"); time.Sleep(30 * time.Second) },
		}},
		"disruption-controller": {own: "poddisruptionbudgets.policy web", with: []string{"replicaset", "scheduler"}, steps: []func(*rig){
			func(r *rig) { r.create("replicasets.apps", replicaSet(3)) },
			func(r *rig) {
				r.create("poddisruptionbudgets.policy", &policyv1.PodDisruptionBudget{
					ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"},
					Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromInt32(2)), Selector: webSelector()},
				})
			},
			deleteOnePod,
		}},
		"endpoints-controller":     endpointTrial("endpoints web"),
		"endpointslice-controller": endpointTrial("services web"),
	}
	maps.Copy(all, volumeTrials())
	maps.Copy(all, workloadTrials())
	return all
}

// endpointTrial adds and removes pods of a service.
func endpointTrial(own string) trial {
	return trial{own: own, steps: []func(*rig){
		func(r *rig) { r.create("services", service()) },
		createPod("web-1", "node-1"), createPod("web-2", "node-2"), deleteIfExists("pods web-1"),
	}}
}

func volumeTrials() map[string]trial {
	claims := []func(*rig){func(r *rig) { r.create("persistentvolumeclaims", claim("data")) }, createUser("web", "node-1"), deleteIfExists("persistentvolumeclaims data"), deleteIfExists("pods web")}
	classes := []string{"DefaultStorageClass", "StorageObjectInUseProtection"}
	return map[string]trial{
		"ephemeral-volume-controller": {own: "pods web", steps: []func(*rig){
			func(r *rig) {
				r.create("pods", pod("web", "", func(p *corev1.Pod) {
					p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
						VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: claim("").Spec},
					}}}}
				}))
			},
		}},
		"persistentvolume-binder-controller": {own: "persistentvolumeclaims data", plugins: classes, steps: []func(*rig){
			func(r *rig) { r.create("persistentvolumeclaims", claim("data")) },
			func(r *rig) {
				r.patch("persistentvolumeclaims data", map[string]any{"metadata": map[string]any{"finalizers": nil}})
				r.delete("persistentvolumeclaims data", metav1.DeleteOptions{})
			},
		}},
		"persistentvolume-protection-controller":      {own: "persistentvolumeclaims data", with: []string{"persistentvolume-binder", "pvc-protection", "attachdetach"}, plugins: classes, steps: claims},
		"persistentvolumeclaim-protection-controller": {own: "persistentvolumeclaims data", with: []string{"persistentvolume-binder", "pv-protection", "attachdetach"}, plugins: classes, steps: claims},
		"persistentvolume-attach-detach-controller": {own: "persistentvolumeclaims data", with: []string{"persistentvolume-binder"}, plugins: classes, steps: []func(*rig){
			func(r *rig) { r.create("persistentvolumeclaims", claim("data")) },
			createUser("web", "node-1"), deleteIfExists("pods web"), createUser("other", "node-2"),
		}},
	}
}

func workloadTrials() map[string]trial {
	job := func(ttl *int32) func(*rig) {
		return func(r *rig) {
			j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
			j.Spec.Completions, j.Spec.Parallelism, j.Spec.TTLSecondsAfterFinished = new(int32(4)), new(int32(2)), ttl
			j.Spec.Template = template("exits 0 after 3s")
			j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
			r.create("jobs.batch", j)
		}
	}
	image := func(what string) func(*rig) {
		return func(r *rig) {
			r.patch(what, map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{
				"containers": []any{map[string]any{"name": "main", "image": "registry.k8s.io/pause:3.9"}},
			}}}})
		}
	}
	scale := func(what string, n int) func(*rig) {
		return func(r *rig) { r.patch(what, map[string]any{"spec": map[string]any{"replicas": n}}) }
	}
	return map[string]trial{
		"cronjob-controller": {own: "cronjobs.batch web", wait: 70 * time.Second, steps: []func(*rig){func(r *rig) {
			c := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
			c.Spec.Schedule, c.Spec.ConcurrencyPolicy = "* * * * *", batchv1.ForbidConcurrent
			c.Spec.JobTemplate.Spec.Template = template("")
			c.Spec.JobTemplate.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
			r.create("cronjobs.batch", c)
		}}},
		"daemonset-controller": {own: "daemonsets.apps web", wait: 30 * time.Second, steps: []func(*rig){
			func(r *rig) {
				r.create("daemonsets.apps", &appsv1.DaemonSet{
					ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: appsv1.DaemonSetSpec{Selector: webSelector(), Template: template("")},
				})
			},
			deleteOnePod, image("daemonsets.apps web"),
		}, with: []string{"scheduler"}},
		"deployment-controller": {own: "deployments.apps web", wait: 40 * time.Second, surplus: 1, steps: []func(*rig){
			func(r *rig) {
				r.create("deployments.apps", &appsv1.Deployment{
					ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: appsv1.DeploymentSpec{Replicas: new(int32(3)), Selector: webSelector(), Template: template("")},
				})
			},
			image("deployments.apps web"), scale("deployments.apps web", 2),
		}, with: []string{"scheduler", "replicaset"}},
		"job-controller": {own: "jobs.batch web", wait: 30 * time.Second, steps: []func(*rig){job(nil)}, with: []string{"scheduler"}},
		"ttl-after-finished-controller": {
			own: "jobs.batch web", wait: 30 * time.Second, steps: []func(*rig){job(new(int32(5)))}, with: []string{"scheduler", "job", "garbagecollector"},
		},
		"replicaset-controller": {own: "replicasets.apps web", steps: []func(*rig){
			func(r *rig) { r.create("replicasets.apps", replicaSet(4)) }, deleteOnePod, scale("replicasets.apps web", 2),
		}, with: []string{"scheduler"}},
		"replicationcontroller-controller": {own: "replicationcontrollers web", steps: []func(*rig){
			func(r *rig) {
				rc := &corev1.ReplicationController{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
				rc.Spec.Replicas, rc.Spec.Template = new(int32(4)), new(template(""))
				r.create("replicationcontrollers", rc)
			},
			deleteOnePod, scale("replicationcontrollers web", 2),
		}, with: []string{"scheduler"}},
		"statefulset-controller": {own: "statefulsets.apps web", wait: 40 * time.Second, steps: []func(*rig){
			func(r *rig) {
				r.create("statefulsets.apps", &appsv1.StatefulSet{
					ObjectMeta: metav1.ObjectMeta{Name: "web"},
					Spec:       appsv1.StatefulSetSpec{Replicas: new(int32(3)), ServiceName: "web", Selector: webSelector(), Template: template("")},
				})
			},
			deleteIfExists("pods web-1"), image("statefulsets.apps web"), scale("statefulsets.apps web", 1),
		}, with: []string{"scheduler"}},
	}
}

// template returns a pod template with a container that follows the script.
func template(script string) corev1.PodTemplateSpec {
	t := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}, Spec: pod("", "").Spec}
	if script != "" {
		t.Annotations = map[string]string{"script.podfall.io/main": script}
	}
	return t
}

func webSelector() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
}

func replicaSet(n int32) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"}, Spec: appsv1.ReplicaSetSpec{Replicas: &n, Selector: webSelector(), Template: template("")},
	}
}

func claim(name string) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	return c
}

// createPod creates a pod of web on a node.
func createPod(name, node string) func(*rig) {
	return func(r *rig) { r.create("pods", pod(name, node, labelled)) }
}

// createUser creates a pod on a node that uses the claim data.
func createUser(name, node string) func(*rig) {
	return func(r *rig) {
		r.create("pods", pod(name, node, func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
			}}}
		}))
	}
}

// recreatePod waits until the pod of that name is gone, and creates it again.
func recreatePod(name string) func(*rig) {
	return func(r *rig) {
		r.until("the old one is gone", func() bool { return get[*corev1.Pod](r, "pods "+name) == nil })
		r.create("pods", pod(name, ""))
	}
}

// deleteIfExists deletes an object, if it exists.
func deleteIfExists(what string) func(*rig) {
	return func(r *rig) {
		if get[kinds.Object](r, what) != nil {
			r.delete(what, metav1.DeleteOptions{})
		}
	}
}

// deleteOnePod deletes one of the pods.
func deleteOnePod(r *rig) {
	if pods := r.list("pods default/"); len(pods) > 0 {
		r.delete("pods "+pods[0].GetName(), metav1.DeleteOptions{})
	}
}
