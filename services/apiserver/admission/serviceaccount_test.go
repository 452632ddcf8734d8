package admission_test

import (
	"encoding/json"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/apiserver/admission"
)

// TestServiceAccount has pods of accounts that are there and of others, mirror pods, and accounts whose
// pods may use their own secrets only. want is the pull secrets that the pod gets, or the 403.
func TestServiceAccount(t *testing.T) {
	account := func(namespace, name string, pull ...corev1.LocalObjectReference) *corev1.ServiceAccount {
		return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, ImagePullSecrets: pull}
	}
	strict := account("default", "strict", corev1.LocalObjectReference{Name: "pull"})
	strict.Annotations = map[string]string{"kubernetes.io/enforce-mountable-secrets": "true"}
	strict.Secrets = []corev1.ObjectReference{{Name: "own"}}
	known := classes{accounts: []*corev1.ServiceAccount{
		account("default", "default", corev1.LocalObjectReference{Name: "registry"}), account("other", "elsewhere"), account("default", "bare"), strict,
	}}
	const refused = `pods "p" is forbidden: `
	const unnamed = ` is not allowed because service account strict does not reference that secret`
	for _, row := range []struct{ name, annotations, spec, want string }{
		{"usual", "", `{"serviceAccountName":"default"}`, "[{registry}]"},
		{"its own pull secrets", "", `{"serviceAccountName":"default","imagePullSecrets":[{"name":"mine"}]}`, "[{mine}]"},
		{"no pull secrets", "", `{"serviceAccountName":"bare"}`, "[]"},
		{"unknown", "", `{"serviceAccountName":"x"}`, refused + `error looking up service account default/x: serviceaccount "x" not found`},
		{"another namespace's", "", `{"serviceAccountName":"elsewhere"}`, refused + `error looking up service account default/elsewhere: serviceaccount "elsewhere" not found`},
		{"an allowed secret", "", `{"serviceAccountName":"strict","volumes":[{"name":"v","secret":{"secretName":"own"}}]}`, "[{pull}]"},
		{"another secret", "", `{"serviceAccountName":"strict","volumes":[{"name":"v","secret":{"secretName":"b"}}]}`, refused + `volume with secret.secretName="b"` + unnamed},
		{
			"a secret in a variable", "", `{"serviceAccountName":"strict","containers":[{"name":"c","env":[{"name":"A","valueFrom":{"secretKeyRef":{"name":"b","key":"k"}}}]}]}`,
			refused + `container c with envVar A referencing secret.secretName="b"` + unnamed,
		},
		{
			"a secret of variables", "", `{"serviceAccountName":"strict","initContainers":[{"name":"i","envFrom":[{"secretRef":{"name":"b"}}]}]}`,
			refused + `init container i with envFrom referencing secret.secretName="b"` + unnamed,
		},
		{
			"another pull secret", "", `{"serviceAccountName":"strict","imagePullSecrets":[{"name":"b"}]}`,
			refused + `imagePullSecrets[0].name="b" is not allowed because service account strict does not reference that imagePullSecret`,
		},
		{"any secret, where it is not enforced", "", `{"serviceAccountName":"bare","volumes":[{"name":"v","secret":{"secretName":"b"}}]}`, "[]"},
		{"a mirror pod", "x", `{}`, "[]"},
		{"a mirror pod with an account", "x", `{"serviceAccountName":"default"}`, refused + "a mirror pod may not reference service accounts"},
		{"a mirror pod with a secret", "x", `{"volumes":[{"name":"v","secret":{"secretName":"b"}}]}`, refused + "a mirror pod may not reference secrets"},
		{"a mirror pod with a projected secret", "x", `{"volumes":[{"name":"v","projected":{"sources":[{"secret":{"name":"b"}}]}}]}`, refused + "a mirror pod may not reference secrets"},
		{
			"a mirror pod with a token", "x", `{"volumes":[{"name":"v","projected":{"sources":[{"serviceAccountToken":{"path":"t"}}]}}]}`,
			refused + "a mirror pod may not use ServiceAccountToken volume projections",
		},
	} {
		pod := &corev1.Pod{}
		if err := json.Unmarshal([]byte(row.spec), &pod.Spec); err != nil {
			t.Fatal(err)
		}
		if row.annotations != "" {
			pod.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: row.annotations}
		}
		only, a := []string{admission.ServiceAccount}, attributes(t, proto.VerbCreate, "pods", "p")
		err := admission.SetDefaults(only, a, pod, nil, known)
		if err == nil {
			err = admission.Check(only, a, pod, nil, known)
		}
		got := text(err)
		if err == nil {
			got = fmt.Sprint(pod.Spec.ImagePullSecrets)
		}
		if got != row.want {
			t.Errorf("%s:\n got %s\nwant %s", row.name, got, row.want)
		}
	}
	update := attributes(t, proto.VerbUpdate, "pods", "p")
	if err := admission.Check([]string{admission.ServiceAccount}, update, &corev1.Pod{}, nil, known); err != nil {
		t.Errorf("an update: %v", err)
	}
}
