package volumes

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/fault"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto/kinds"
)

// TestMain runs the tests as a supervisor runs kubelets: nobody else is to read what they
// make, but programs that run as somebody else are to read what is in their volumes.
func TestMain(m *testing.M) {
	syscall.Umask(0o077)
	os.Exit(m.Run())
}

// testNode is a manager on a directory, and the API around it.
type testNode struct {
	*Manager
	t      *testing.T
	dir    string
	faults *fault.Table

	mu      sync.Mutex
	objects map[string]kinds.Object
	events  []string
	tokens  int
}

func newTestNode(t *testing.T) *testNode {
	t.Helper()
	s := &testNode{t: t, dir: t.TempDir(), objects: map[string]kinds.Object{}, faults: fault.NewTable(fault.Config{Node: "n1"})}
	for _, name := range []string{"kubelet", "storage", "host"} {
		if err := os.Mkdir(filepath.Join(s.dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	s.boot()
	return s
}

// boot is a kubelet's start: what another one remembers is forgotten.
func (s *testNode) boot() {
	s.t.Helper()
	root := func(name string) *os.Root {
		opened, err := os.OpenRoot(filepath.Join(s.dir, name))
		if err != nil {
			s.t.Fatal(err)
		}
		s.t.Cleanup(func() { _ = opened.Close() })
		return opened
	}
	manager, err := New(Config{
		Root: root("kubelet"), Storage: root("storage"), HostPaths: root("host"), Node: "n1",
		API: s, Objects: s, Events: s, Faults: s.faults, Log: slog.New(slog.DiscardHandler),
		Timing: Timing{
			MountWait: time.Minute, RetryFirst: time.Second, RetryMax: 8 * time.Second, AttachPoll: time.Second,
			UnmountWait: time.Minute, UnmountPoll: time.Second, DirPoll: time.Second,
		},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.Manager = manager
}

// put stores an object under resource/namespace/name.
func (s *testNode) put(key string, obj kinds.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, rest, _ := strings.Cut(key, "/")
	namespace, name, _ := strings.Cut(rest, "/")
	obj.SetNamespace(namespace)
	obj.SetName(name)
	s.objects[key] = obj
}

func (s *testNode) delete(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.objects, key)
}

func (s *testNode) get(key string) kinds.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objects[key]
}

func (s *testNode) Get(_ context.Context, t podapi.Target, _ metav1.GetOptions) (kinds.Object, error) {
	if obj := s.get(t.Kind.Resource + "/" + t.Namespace + "/" + t.Name); obj != nil {
		return obj, nil
	}
	return nil, apierrors.NewNotFound(t.Kind.GroupResource(), t.Name)
}

func (s *testNode) Create(_ context.Context, t podapi.Target, obj kinds.Object, _ metav1.CreateOptions) (kinds.Object, error) {
	request, ok := obj.(*authenticationv1.TokenRequest)
	if !ok || t.Subresource != "token" || request.Spec.BoundObjectRef.Name == "" {
		return nil, fmt.Errorf("create %s of %T", t, obj)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens++
	request.Status = authenticationv1.TokenRequestStatus{
		Token: fmt.Sprintf("token %d of %s for %s", s.tokens, t.Name, request.Spec.BoundObjectRef.Name), ExpirationTimestamp: metav1.NewTime(time.Now().Add(time.Hour)),
	}
	return request, nil
}

func (s *testNode) ConfigMap(_ context.Context, namespace, name string) (*corev1.ConfigMap, error) {
	if config, ok := s.get("configmaps/" + namespace + "/" + name).(*corev1.ConfigMap); ok {
		return config, nil
	}
	return nil, apierrors.NewNotFound(corev1.Resource("configmap"), name)
}

func (s *testNode) Secret(_ context.Context, namespace, name string) (*corev1.Secret, error) {
	if secret, ok := s.get("secrets/" + namespace + "/" + name).(*corev1.Secret); ok {
		return secret, nil
	}
	return nil, apierrors.NewNotFound(corev1.Resource("secret"), name)
}

func (s *testNode) Event(_ kinds.Object, _, reason, message string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, reason+": "+message)
}

// takeEvents are the events since the last call.
func (s *testNode) takeEvents() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := strings.Join(s.events, "\n")
	s.events = nil
	return text
}

// file is a file of a volume as a program reads it; "-" when it cannot.
func (s *testNode) file(pod *corev1.Pod, volume, name string) string {
	s.t.Helper()
	mounts, err := s.Mounts(s.t.Context(), pod, &corev1.Container{Name: "c", VolumeMounts: []corev1.VolumeMount{{Name: volume, MountPath: "/v"}}}, []string{""})
	if err != nil {
		s.t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(mounts[0].GetHostPath(), name))
	if err != nil {
		return "-"
	}
	return string(data)
}

// injectFault makes a point suffer, and nothing else.
func (s *testNode) injectFault(point fault.Point, where fault.Attributes, effect fault.Effect) {
	s.t.Helper()
	broken, err := fault.New("f", fault.Spec{Point: point, Where: where, Effect: effect}, time.Now())
	if err != nil {
		s.t.Fatal(err)
	}
	s.faults.Set([]fault.Fault{broken})
}

func podWith(name string, volumes ...corev1.Volume) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{"app": "x"}},
		Spec:       corev1.PodSpec{Volumes: volumes},
	}
}

func volume(name string, source corev1.VolumeSource) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: source}
}

func configVolume(name string, items ...corev1.KeyToPath) corev1.Volume {
	return volume(name, corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: "conf"}, Items: items,
	}})
}

func emptyVolume(name string) corev1.Volume {
	return volume(name, corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}})
}

func claimVolume(name, claim string) corev1.Volume {
	return volume(name, corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}})
}

func hostVolume(name, path string, kind corev1.HostPathType) corev1.Volume {
	return volume(name, corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path, Type: &kind}})
}
