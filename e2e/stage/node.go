package stage

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/fault"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto/kinds"
)

// Break makes something go wrong from now on, under a name; Mend ends it.
func (c *Cluster) Break(name string, spec fault.Spec) {
	c.t.Helper()
	f, err := fault.New(name, spec, time.Now())
	if err != nil {
		c.t.Fatal(err)
	}
	c.parts.SetFaults(append(c.parts.Faults(), f)...)
}

// Mend ends what Break began.
func (c *Cluster) Mend(name string) {
	c.parts.SetFaults(slices.DeleteFunc(c.parts.Faults(), func(f fault.Fault) bool { return f.Name == name })...)
}

// Volumes is the directory of the persistent volumes.
func (c *Cluster) Volumes() string { return filepath.Join(c.dir, "volumes") }

// Manifest writes a file of a node's static pods; an empty text removes it.
func (c *Cluster) Manifest(node, file, text string) {
	c.t.Helper()
	dir := filepath.Join(c.dir, node, "kubelet", "manifests")
	err := os.MkdirAll(dir, 0o700)
	switch {
	case err != nil:
	case text == "":
		err = os.Remove(filepath.Join(dir, file))
	default:
		err = os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// NodeState describes the node: the conditions that are not as they should be, and its
// taints, a line each.
func (c *Cluster) NodeState(node string) string {
	c.t.Helper()
	kind, _ := kinds.ByResource("nodes")
	obj, err := c.api.Get(c.t.Context(), podapi.Target{Kind: kind, Name: node}, metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	var text strings.Builder
	state, _ := obj.(*corev1.Node)
	for _, condition := range state.Status.Conditions {
		if (condition.Type == corev1.NodeReady) != (condition.Status == corev1.ConditionTrue) {
			fmt.Fprintf(&text, "%s=%s %s: %s\n", condition.Type, condition.Status, condition.Reason, condition.Message)
		}
	}
	for _, taint := range state.Spec.Taints {
		fmt.Fprintf(&text, "taint %s:%s\n", taint.Key, taint.Effect)
	}
	return text.String()
}
