package staticpod

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/podfall/podfall/services/kubelet/podstate"
)

// FuzzParse: a manifest that is taken is a pod of this node that the kubelet can have: with
// names and a UID that are safe in paths, containers that are there once, and nothing of the
// API's; the same file is the same pod, and another file is another.
func FuzzParse(f *testing.F) {
	f.Fuzz(func(t *testing.T, data []byte) {
		pod, err := Parse("a.yaml", data, "Node-1")
		if err != nil {
			if err.Error() == "" {
				t.Error("refused without a word")
			}
			return
		}
		again, err := Parse("a.yaml", data, "Node-1")
		if err != nil || written(t, again) != written(t, pod) {
			t.Fatalf("taken again as %s (%v), want %s", written(t, again), err, written(t, pod))
		}
		if !strings.HasSuffix(pod.Name, "-node-1") || len(validation.IsDNS1123Subdomain(strings.TrimSuffix(pod.Name, "-node-1"))) > 0 ||
			len(validation.IsDNS1123Label(pod.Namespace)) > 0 || len(validation.IsDNS1123Label(string(pod.UID))) > 0 {
			t.Errorf("%s/%s with UID %q", pod.Namespace, pod.Name, pod.UID)
		}
		if pod.DeletionTimestamp != nil || pod.Finalizers != nil || pod.Spec.NodeName != "Node-1" || pod.Status.Phase != corev1.PodPending ||
			pod.Annotations[podstate.AnnotationSource] != podstate.SourceFile || pod.Annotations[podstate.AnnotationHash] != string(pod.UID) {
			t.Errorf("%s", written(t, pod))
		}
		var names []string
		for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
			if slices.Contains(names, c.Name) || len(validation.IsDNS1123Label(c.Name)) > 0 {
				t.Errorf("container %q in %q", c.Name, names)
			}
			names = append(names, c.Name)
		}
		if len(pod.Spec.Containers) == 0 {
			t.Error("no containers")
		}
		if other, err := Parse("b.yaml", data, "Node-1"); err != nil || !strings.Contains(string(data), string(pod.UID)) && other.UID == pod.UID {
			t.Errorf("two files have the UID %q (%v)", pod.UID, err)
		}
		const wider = 8 // a byte is written as six, such as \u0001, and there is punctuation
		if size := len(written(t, pod)); size > wider*maxManifest {
			t.Errorf("a manifest of %d bytes is a pod of %d", len(data), size)
		}
	})
}

func written(t *testing.T, pod *corev1.Pod) string {
	t.Helper()
	data, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
