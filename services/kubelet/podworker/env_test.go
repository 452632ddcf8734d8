package podworker

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/proto"
)

// fakeObjects are the objects that a pod refers to.
type fakeObjects struct {
	configs  map[string]*corev1.ConfigMap
	secrets  map[string]*corev1.Secret
	services []*corev1.Service
}

func (k fakeObjects) Register(context.Context, *corev1.Pod) {}
func (k fakeObjects) Forget(types.UID)                      {}

func (k fakeObjects) ConfigMap(_ context.Context, _, name string) (*corev1.ConfigMap, error) {
	if k.configs[name] == nil {
		return nil, apierrors.NewNotFound(corev1.Resource("configmap"), name)
	}
	return k.configs[name], nil
}

func (k fakeObjects) Secret(_ context.Context, _, name string) (*corev1.Secret, error) {
	if k.secrets[name] == nil {
		return nil, apierrors.NewNotFound(corev1.Resource("secret"), name)
	}
	return k.secrets[name], nil
}

func (k fakeObjects) Services(context.Context, string) ([]*corev1.Service, error) {
	return k.services, nil
}

func (k fakeObjects) RuntimeHandler(context.Context, *corev1.Pod) (string, error) { return "", nil }

// fakeVolumes is a volume with one file of variables.
type fakeVolumes struct{ Volumes }

func (fakeVolumes) EnvFile(_ *corev1.Pod, ref *corev1.FileKeySelector) (string, error) {
	return map[string]string{"IN_FILE": "f"}[ref.Key], nil
}

func (fakeVolumes) Mounts(context.Context, *corev1.Pod, *corev1.Container, []string) ([]*proto.Mount, error) {
	return nil, nil
}

func serviceWith(namespace, name, ip string, ports ...corev1.ServicePort) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.ServiceSpec{ClusterIP: ip, Ports: ports},
	}
}

func sampleWorker() (*worker, *corev1.Pod) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "web", Namespace: "shop", UID: "u", Labels: map[string]string{"app": "x"}, Annotations: map[string]string{"a/b": "y"},
	}}
	pod.Spec.NodeName, pod.Spec.EnableServiceLinks = "n1", new(false)
	pod.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{
		Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")},
	}}}
	w := &worker{cfg: Config{Host: Host{
		IP: "127.0.0.1", Volumes: fakeVolumes{}, Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")},
		Objects: fakeObjects{
			configs:  map[string]*corev1.ConfigMap{"conf": {Data: map[string]string{"a": "1", "b": "2"}}},
			secrets:  map[string]*corev1.Secret{"creds": {Data: map[string][]byte{"password": []byte("p")}}},
			services: []*corev1.Service{serviceWith("shop", "db", "10.1.0.1", corev1.ServicePort{Port: 5432}), serviceWith("default", "kubernetes", "10.0.0.1", corev1.ServicePort{Name: "https", Port: 443, Protocol: "TCP"})},
		},
	}}}
	return w, pod
}

func fieldSource(path string) *corev1.EnvVarSource {
	return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
}

func configKeySource(name, key string, optional *bool) *corev1.EnvVarSource {
	return &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: key, Optional: optional,
	}}
}

func secretKeySource(name, key string, optional *bool) *corev1.EnvVarSource {
	return &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: key, Optional: optional,
	}}
}

func fileKeySource(key string, optional *bool) *corev1.EnvVarSource {
	return &corev1.EnvVarSource{FileKeyRef: &corev1.FileKeySelector{VolumeName: "v", Path: "f.env", Key: key, Optional: optional}}
}

func TestVariables(t *testing.T) {
	t.Parallel()
	w, pod := sampleWorker()
	spec := &pod.Spec.Containers[0]
	spec.EnvFrom = []corev1.EnvFromSource{
		{Prefix: "CONF_", ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "conf"}}},
		{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "creds"}}},
		{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "none"}, Optional: new(true)}},
	}
	spec.Env = []corev1.EnvVar{
		{Name: "PLAIN", Value: "v"},
		{Name: "BOTH", Value: "$(PLAIN)-$(LATER)-$$(PLAIN)-$PLAIN-$(PLAIN"},
		{Name: "LATER", Value: "w"},
		{Name: "EMPTY"},
		{Name: "NAME", ValueFrom: fieldSource("metadata.name")},
		{Name: "IP", ValueFrom: fieldSource("status.podIP")},
		{Name: "HOST", ValueFrom: fieldSource("status.hostIP")},
		{Name: "LABEL", ValueFrom: fieldSource("metadata.labels['app']")},
		{Name: "MEMORY", ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "limits.memory", Divisor: resource.MustParse("1Mi")}}},
		{Name: "CPU", ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "limits.cpu"}}},
		{Name: "CONF_a", ValueFrom: configKeySource("conf", "b", nil)},
		{Name: "PASSWORD", ValueFrom: secretKeySource("creds", "password", nil)},
		{Name: "NO_KEY", ValueFrom: configKeySource("conf", "none", new(true))},
		{Name: "NO_SECRET", ValueFrom: secretKeySource("none", "k", new(true))},
		{Name: "IN_FILE", ValueFrom: fileKeySource("IN_FILE", nil)},
		{Name: "NOT_IN_FILE", ValueFrom: fileKeySource("NOT_IN_FILE", new(true))},
		{Name: "URL", Value: "https://$(KUBERNETES_SERVICE_HOST):$(KUBERNETES_SERVICE_PORT)/$(CONF_b)/$(password)"},
	}
	want := map[string]string{
		"PLAIN": "v", "BOTH": "v-$(LATER)-$(PLAIN)-$PLAIN-$(PLAIN", "LATER": "w", "EMPTY": "", "NAME": "web", "IP": "10.0.0.9", "HOST": "127.0.0.1",
		"LABEL": "x", "MEMORY": "64", "CPU": "4", "CONF_a": "2", "CONF_b": "2", "password": "p", "PASSWORD": "p", "IN_FILE": "f",
		"URL":                     "https://10.0.0.1:443/2/p",
		"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443", "KUBERNETES_SERVICE_PORT_HTTPS": "443",
		"KUBERNETES_PORT": "tcp://10.0.0.1:443", "KUBERNETES_PORT_443_TCP": "tcp://10.0.0.1:443", "KUBERNETES_PORT_443_TCP_PROTO": "tcp",
		"KUBERNETES_PORT_443_TCP_PORT": "443", "KUBERNETES_PORT_443_TCP_ADDR": "10.0.0.1",
	}
	got, err := w.makeEnvironment(t.Context(), pod, spec, "10.0.0.9", fullBudget())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the environment (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"--name=web", "$(NOBODY)"}, must(expandAll("args", []string{"--name=$(NAME)", "$(NOBODY)"}, got, fullBudget()))); diff != "" {
		t.Errorf("the command (-want +got):\n%s", diff)
	}
}

// TestInvalidVariables are CreateContainerConfigError, in upstream's words.
func TestInvalidVariables(t *testing.T) {
	t.Parallel()
	for want, source := range map[string]*corev1.EnvVarSource{
		`configmap "none" not found`:                                       configKeySource("none", "k", nil),
		`secret "none" not found`:                                          secretKeySource("none", "k", nil),
		`couldn't find key none in ConfigMap shop/conf`:                    configKeySource("conf", "none", nil),
		`couldn't find key none in Secret shop/creds`:                      secretKeySource("creds", "none", nil),
		`fieldPath "status.phase" is none that a container is shown`:       fieldSource("status.phase"),
		`environment variable key "NOT_IN_FILE" not found in file "f.env"`: fileKeySource("NOT_IN_FILE", nil),
	} {
		w, pod := sampleWorker()
		pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "V", ValueFrom: source}}
		if _, err := w.makeEnvironment(t.Context(), pod, &pod.Spec.Containers[0], "", fullBudget()); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestServiceLinks(t *testing.T) {
	t.Parallel()
	w, pod := sampleWorker()
	pod.Spec.EnableServiceLinks = nil // as if true
	got, err := w.makeEnvironment(t.Context(), pod, &pod.Spec.Containers[0], "", fullBudget())
	if err != nil {
		t.Fatal(err)
	}
	if got["DB_PORT_5432_TCP"] != "tcp://10.1.0.1:5432" || got["DB_SERVICE_HOST"] != "10.1.0.1" || got["KUBERNETES_SERVICE_PORT"] != "443" {
		t.Errorf("with links: %v", got)
	}
	for _, ip := range []string{"", corev1.ClusterIPNone} {
		if got := serviceVariables([]*corev1.Service{serviceWith("shop", "db", ip, corev1.ServicePort{Port: 1})}, pod); len(got) > 0 {
			t.Errorf("of a Service without an address: %v", got)
		}
	}
}

func TestSubPaths(t *testing.T) {
	t.Parallel()
	spec := &corev1.Container{VolumeMounts: []corev1.VolumeMount{{SubPath: "a/$(X)"}, {}, {SubPathExpr: "$(POD)/logs"}}}
	got, err := expandSubPaths(spec, map[string]string{"POD": "web", "X": "x"})
	if diff := cmp.Diff([]string{"a/$(X)", "", "web/logs"}, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if _, err := expandSubPaths(spec, nil); err == nil || err.Error() != `missing value for POD` {
		t.Errorf("a variable that there is not: %v", err)
	}
}

func fullBudget() *budget { return new(budget(maxEnvironment)) }

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
