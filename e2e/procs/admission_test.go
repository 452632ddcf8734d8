package procs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRuntimeClasses has pods of podfall's own classes, of a user's class, and of a class that is unknown.
func TestRuntimeClasses(t *testing.T) {
	t.Parallel()
	c := up(t, "--nodes", "1")
	if out := c.must("get", "runtimeclasses", "-o", "name"); out != "runtimeclass.node.k8s.io/process\nruntimeclass.node.k8s.io/scripted\n" {
		t.Errorf("the classes of a new cluster: %s", out)
	}
	pod := func(class string) string {
		return `{apiVersion: v1, kind: Pod, metadata: {name: ` + class + `}, spec: {runtimeClassName: ` + class + `, containers: [{name: main, image: none}]}}`
	}
	c.apply(`{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: mine}, handler: scripted, scheduling: {tolerations: [{key: mine, operator: Exists}]}}`)
	c.apply(`{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: vm}, handler: kata}`)
	c.apply(pod("mine"))
	c.apply(pod("vm"))
	c.must("wait", "--for=condition=Ready", "pod/mine", "--timeout=30s")
	if out := c.must("get", "pod", "mine", "-o", "jsonpath={.spec.tolerations[*].key}"); !strings.Contains(out, "mine") {
		t.Errorf("the pod tolerates %s, and not what its class does", out)
	}
	eventually(t, "the node says that it has no such handler", func() bool {
		return strings.Contains(c.run("events", "--for", "pod/vm").stdout, `no runtime for "kata" is configured`)
	})
	file := filepath.Join(t.TempDir(), "unknown.yaml")
	if err := os.WriteFile(file, []byte(pod("unknown")), 0o600); err != nil {
		t.Fatal(err)
	}
	out := c.run("apply", "-f", file)
	if want := `pods "unknown" is forbidden: pod rejected: RuntimeClass "unknown" not found`; out.code != 1 || !strings.Contains(out.stderr, want) {
		t.Errorf("a class that is not there: %+v, want %s", out, want)
	}
}
