package cluster

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podfall/podfall/e2e/stage"
)

// TestInvalidManifest: a node reports on its own object which of its manifest files is invalid, and
// which field. It reports that once, although the kubelet reads the files repeatedly.
func TestInvalidManifest(t *testing.T) {
	play(t, stage.Config{Nodes: 1}, func(r *rig) {
		r.Manifest("node-1", "web.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: main, imag: x}]}\n")
		time.Sleep(5 * time.Minute)
		var said []*corev1.Event
		for _, obj := range r.list("events") {
			if event, ok := obj.(*corev1.Event); ok && event.Reason == "FailedValidation" {
				said = append(said, event)
			}
		}
		if len(said) != 1 || said[0].Count != 1 || said[0].Type != corev1.EventTypeWarning || said[0].InvolvedObject.Kind != "Node" || said[0].InvolvedObject.Name != "node-1" {
			t.Fatalf("the node says %+v", said)
		}
		for _, want := range []string{"Error validating static pod from ", "/manifests/web.yaml, ignoring: ", `unknown field "spec.containers[0].imag"`} {
			if !strings.Contains(said[0].Message, want) {
				t.Errorf("it says %q, want it to say %q", said[0].Message, want)
			}
		}
	})
}
