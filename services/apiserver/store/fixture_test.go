package store_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/services/apiserver/store"
)

// open opens a store and runs it until the test ends.
func open(t testing.TB, cfg store.Config) *store.Store {
	t.Helper()
	s, stop := start(t, cfg)
	t.Cleanup(stop)
	return s
}

// start opens and runs a store; stop ends both and may be called again.
func start(t testing.TB, cfg store.Config) (s *store.Store, stop func()) {
	t.Helper()
	s, err := store.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.Run(ctx); err != nil && !errors.As(err, new(*store.CommitError)) {
			t.Errorf("run: %v", err)
		}
	})
	return s, sync.OnceFunc(func() {
		cancel()
		running.Wait()
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
}

func keyOf(p *corev1.Pod) store.Key {
	return store.Key{Resource: "pods", Namespace: p.Namespace, Name: p.Name}
}

// podNamed is a pod as large as a running one usually is: about 1.5 KB.
func podNamed(name string) *corev1.Pod {
	started := metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	grace, seconds := int64(30), int64(300)
	no, priority, policy := false, int32(0), corev1.PreemptLowerPriority
	condition := func(kind corev1.PodConditionType) corev1.PodCondition {
		return corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: started, ObservedGeneration: 1}
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "default", UID: types.UID("8f2bd4b4-8d8a-4c0e-9d0b-" + name),
			GenerateName: "web-6d4cf56db6-", CreationTimestamp: started, Generation: 1,
			Labels:      map[string]string{"app": "web", "pod-template-hash": "6d4cf56db6", "tier": "front"},
			Annotations: map[string]string{"podfall.io/op": "c0ffee00-0000-4000-8000-000000000001"},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-6d4cf56db6",
				UID: "1f0c0c39-6a85-4f6b-8d31-40fbcfb0f9b1", Controller: &no, BlockOwnerDeletion: &no,
			}},
		},
		Spec: corev1.PodSpec{
			NodeName: "node-1", RestartPolicy: corev1.RestartPolicyAlways, DNSPolicy: corev1.DNSClusterFirst,
			ServiceAccountName: "default", DeprecatedServiceAccount: "default", SchedulerName: "default-scheduler",
			TerminationGracePeriodSeconds: &grace, SecurityContext: &corev1.PodSecurityContext{},
			EnableServiceLinks: &no, Priority: &priority, PreemptionPolicy: &policy,
			Tolerations: []corev1.Toleration{
				{Key: "node.kubernetes.io/not-ready", Operator: "Exists", Effect: "NoExecute", TolerationSeconds: &seconds},
				{Key: "node.kubernetes.io/unreachable", Operator: "Exists", Effect: "NoExecute", TolerationSeconds: &seconds},
			},
			Volumes: []corev1.Volume{{Name: "kube-api-access-x7k2p", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
			Containers: []corev1.Container{{
				Name: "web", Image: "docker.io/library/nginx:1.27.4", ImagePullPolicy: corev1.PullIfNotPresent,
				Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 80, Protocol: corev1.ProtocolTCP}},
				Env:   []corev1.EnvVar{{Name: "GREETING", Value: "hello from the environment"}, {Name: "LOG_LEVEL", Value: "info"}},
				Resources: corev1.ResourceRequirements{
					Requests: quantities(corev1.ResourceCPU, "100m", corev1.ResourceMemory, "128Mi"),
					Limits:   quantities(corev1.ResourceMemory, "256Mi"),
				},
				VolumeMounts:             []corev1.VolumeMount{{Name: "kube-api-access-x7k2p", ReadOnly: true, MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"}},
				TerminationMessagePath:   "/dev/termination-log",
				TerminationMessagePolicy: corev1.TerminationMessageReadFile,
			}},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, HostIP: "10.0.0.1", PodIP: "10.244.1.17", StartTime: &started, QOSClass: corev1.PodQOSBurstable,
			PodIPs:  []corev1.PodIP{{IP: "10.244.1.17"}},
			HostIPs: []corev1.HostIP{{IP: "10.0.0.1"}},
			Conditions: []corev1.PodCondition{
				condition("PodReadyToStartContainers"), condition(corev1.PodInitialized), condition(corev1.PodReady),
				condition(corev1.ContainersReady), condition(corev1.PodScheduled),
			},
			ContainerStatuses: []corev1.ContainerStatus{{
				Name: "web", Ready: true, Started: &no, Image: "docker.io/library/nginx:1.27.4",
				ImageID:     "docker.io/library/nginx@sha256:9d6b58feebd2dbd3c56ab5853333d627cc6e281011cfd6050fa4bcf2072c9496",
				ContainerID: "podfall://2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae",
				State:       corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: started}},
			}},
		},
	}
}

func put(t testing.TB, s *store.Store, writes ...store.Write) []store.Event {
	t.Helper()
	events, err := s.Commit(t.Context(), store.Commit{Writes: writes, Cause: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return events
}

func config(t testing.TB) store.Config {
	t.Helper()
	return store.Config{Path: filepath.Join(t.TempDir(), "store.db"), NoSync: true}
}

func small(name, content string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec:       corev1.PodSpec{NodeName: content},
	}
}

func write(p *corev1.Pod, expect int64) store.Write {
	return store.Write{Key: keyOf(p), Expect: expect, Object: p}
}

// quantities are name, quantity, name, quantity and so on.
func quantities(list ...corev1.ResourceName) corev1.ResourceList {
	out := make(corev1.ResourceList)
	for pair := range slices.Chunk(list, 2) {
		out[pair[0]] = resource.MustParse(string(pair[1]))
	}
	return out
}
