package oracle_test

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/client/fake"
)

func meta(name, namespace string, at time.Time) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: namespace, UID: types.UID("uid-" + name), CreationTimestamp: metav1.NewTime(at)}
}

func objects(at time.Time) []kinds.Object {
	stuck := richPod("stuck", at)
	stuck.Annotations = map[string]string{fake.Stays: ""}
	leaving := plainPod("leaving", "default", at)
	leaving.DeletionTimestamp = new(metav1.NewTime(at.Add(time.Hour)))
	leaving.DeletionGracePeriodSeconds = new(int64(30))
	done := plainPod("done", "default", at)
	done.Status.Phase = corev1.PodSucceeded
	done.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		Reason: "Completed", StartedAt: metav1.NewTime(at), FinishedAt: metav1.NewTime(at.Add(time.Minute)),
	}}
	done.DeletionTimestamp = leaving.DeletionTimestamp
	done.DeletionGracePeriodSeconds = new(int64(0))
	return []kinds.Object{
		plainPod("web-0", "default", at),
		plainPod("web-1", "default", at),
		plainPod("far", "other", at),
		richPod("rich", at),
		stuck,
		leaving,
		done,
		oneNode(at),
		&corev1.Namespace{ObjectMeta: meta("default", "", at), Status: corev1.NamespaceStatus{Phase: corev1.NamespaceActive}},
		&coordinationv1.Lease{ObjectMeta: meta("n1", corev1.NamespaceNodeLease, at), Spec: coordinationv1.LeaseSpec{HolderIdentity: new("n1"), RenewTime: new(metav1.NewMicroTime(at))}},
		&appsv1.Deployment{ObjectMeta: meta("d", "default", at), Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(2)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "x"}}}},
		}},
		&corev1.ConfigMap{ObjectMeta: meta("c", "default", at), Data: map[string]string{"a": "b"}},
		oneEvent("e1", "Scheduled", 1, at),
		oneEvent("e2", "Killing", 4, at.Add(time.Hour)),
	}
}

func plainPod(name, namespace string, at time.Time) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: func() metav1.ObjectMeta {
			m := meta(name, namespace, at)
			m.Labels = map[string]string{"app": "web", "name": name}
			return m
		}(),
		Spec: corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "app", Image: "nginx:1.27"}}},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: "10.0.0.1", PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}}, HostIP: "192.168.0.1",
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
			ContainerStatuses: []corev1.ContainerStatus{{
				Name: "app", Ready: true, Image: "nginx:1.27", ImageID: "sha256:1", ContainerID: "sim://1", RestartCount: 2,
				State:                corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(at)}},
				LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "Error", Signal: 9, Message: "killed", StartedAt: metav1.NewTime(at), FinishedAt: metav1.NewTime(at)}},
			}},
		},
	}
}

// richPod has one of everything that describe writes.
func richPod(name string, at time.Time) *corev1.Pod {
	pod := plainPod(name, "default", at)
	pod.Annotations = map[string]string{
		"b": "two\nlines", "a": "short", corev1.LastAppliedConfigAnnotation: "hidden", "long": longText(),
	}
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "rs", Controller: new(true)}}
	pod.Status.StartTime = new(metav1.NewTime(at))
	pod.Status.Reason, pod.Status.Message = "Why", "because"
	pod.Status.NominatedNodeName = "n2"
	pod.Status.QOSClass = corev1.PodQOSBurstable
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: "gate", Status: corev1.ConditionTrue})
	pod.Spec.Priority = new(int32(7))
	pod.Spec.PriorityClassName, pod.Spec.ServiceAccountName = "high", "robot"
	pod.Spec.RuntimeClassName = new("sim")
	pod.Spec.NodeSelector = map[string]string{"disk": "ssd", "arch": "arm"}
	pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "gate"}, {ConditionType: "other"}}
	pod.Spec.SecurityContext = &corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: "RuntimeDefault"}}
	pod.Spec.Tolerations = []corev1.Toleration{
		{Key: "node.kubernetes.io/unreachable", Operator: "Exists", Effect: "NoExecute", TolerationSeconds: new(int64(300))},
		{Key: "a", Operator: "Equal", Value: "b"},
		{Operator: "Exists"},
	}
	pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: "DoNotSchedule", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}}
	pod.Spec.Volumes = []corev1.Volume{
		{Name: "empty", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: "Memory", SizeLimit: new(resource.MustParse("1Gi"))}}},
		{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/x"}}},
		{Name: "secret", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s", Optional: new(true)}}},
		{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "c"}}}},
		{Name: "claim", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}},
		{Name: "nfs", VolumeSource: corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{Server: "s", Path: "/"}}},
		{Name: "down", VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{{Path: "p", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}}}}},
		{Name: "projected", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{ExpirationSeconds: new(int64(3607))}},
			{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "ca"}}},
			{DownwardAPI: &corev1.DownwardAPIProjection{}},
		}}}},
	}
	pod.Spec.InitContainers = []corev1.Container{{Name: "init", Image: "busybox", Command: []string{"sh", "-c", "a\nb"}, Args: []string{"x"}}}
	pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "init", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", StartedAt: metav1.NewTime(at), FinishedAt: metav1.NewTime(at)}}}}
	pod.Spec.Containers = append(richContainers(pod), corev1.Container{Name: "waits", Image: "y", Ports: []corev1.ContainerPort{{ContainerPort: 1, Protocol: "TCP"}, {ContainerPort: 2, HostPort: 3, Protocol: "UDP", Name: "u"}}})
	pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{Name: "waits", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}})
	return pod
}

func longText() string {
	text := ""
	for range 30 {
		text += "0123456789"
	}
	return text
}

func richContainers(pod *corev1.Pod) []corev1.Container {
	c := pod.Spec.Containers[0]
	c.Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: 80, HostPort: 8080, Protocol: "TCP"}}
	c.Resources = corev1.ResourceRequirements{
		Limits:   quantities("cpu", "1", "memory", "1Gi"),
		Requests: quantities("cpu", "250m", "memory", "64Mi"),
	}
	c.LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/x?y", Port: intstr.FromInt32(80), Scheme: "HTTP"}}, PeriodSeconds: 10}
	c.ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString("http")}}}
	c.StartupProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"a", "b"}}}}
	c.VolumeMounts = []corev1.VolumeMount{{Name: "host", MountPath: "/z", ReadOnly: true}, {Name: "empty", MountPath: "/a", SubPath: "s"}}
	c.EnvFrom = []corev1.EnvFromSource{
		{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "c"}}},
		{Prefix: "P_", SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}, Optional: new(true)}},
	}
	c.Env = []corev1.EnvVar{
		{Name: "A", Value: "one\ntwo"},
		{Name: "NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.name"}}},
		{Name: "CPU", ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "requests.cpu"}}},
		{Name: "MEM", ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "limits.memory", Divisor: resource.MustParse("1Mi")}}},
		{Name: "KEY", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}, Key: "k"}}},
		{Name: "CM", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "c"}, Key: "k", Optional: new(true)}}},
	}
	return []corev1.Container{c}
}

// quantities are names and amounts in turn.
func quantities(pairs ...string) corev1.ResourceList {
	list := make(corev1.ResourceList)
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

func oneNode(at time.Time) *corev1.Node {
	node := &corev1.Node{ObjectMeta: meta("n1", "", at)}
	node.Labels = map[string]string{"node-role.kubernetes.io/worker": "", "zone": "a"}
	node.Spec.Taints = []corev1.Taint{{Key: "b", Effect: "NoSchedule"}, {Key: "a", Value: "v", Effect: "NoExecute"}}
	node.Spec.PodCIDR, node.Spec.PodCIDRs, node.Spec.ProviderID = "10.0.0.0/24", []string{"10.0.0.0/24"}, "sim://n1"
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", Message: "it is", LastHeartbeatTime: metav1.NewTime(at), LastTransitionTime: metav1.NewTime(at)}}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.168.0.1"}, {Type: corev1.NodeHostName, Address: "n1"}}
	node.Status.Capacity = quantities("cpu", "4", "memory", "8Gi", "pods", "110", "ephemeral-storage", "10Gi", "hugepages-2Mi", "0", "example.com/gpu", "2")
	node.Status.Allocatable = node.Status.Capacity
	node.Status.NodeInfo = corev1.NodeSystemInfo{KubeletVersion: "v1.37.0", OSImage: "sim", Architecture: "amd64"}
	return node
}

func oneEvent(name, reason string, count int32, at time.Time) *corev1.Event {
	return &corev1.Event{
		ObjectMeta:     meta(name, "default", at),
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "default", Name: "rich", UID: "uid-rich", FieldPath: "spec.containers{app}"},
		Type:           "Normal", Reason: reason, Message: "about " + reason, Count: count,
		FirstTimestamp: metav1.NewTime(at), LastTimestamp: metav1.NewTime(at.Add(time.Minute)),
		Source: corev1.EventSource{Component: "kubelet", Host: "n1"},
	}
}
