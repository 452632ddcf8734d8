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
	c.refused(pod("unknown"), `pods "unknown" is forbidden: pod rejected: RuntimeClass "unknown" not found`)
}

// refused applies a manifest that the apiserver forbids.
func (c *cluster) refused(manifest, want string) {
	c.t.Helper()
	file := filepath.Join(c.t.TempDir(), "refused.yaml")
	if err := os.WriteFile(file, []byte(manifest), 0o600); err != nil {
		c.t.Fatal(err)
	}
	if out := c.run("apply", "-f", file); out.code != 1 || !strings.Contains(out.stderr, want) {
		c.t.Errorf("%+v, want %s", out, want)
	}
}

// TestServiceAccounts has pods of an account that comes after them, and of the one that is always there.
func TestServiceAccounts(t *testing.T) {
	t.Parallel()
	c := up(t, "--nodes", "1")
	pod := func(account string) string {
		return `{apiVersion: v1, kind: Pod, metadata: {name: ` + account + `}, spec: {serviceAccountName: ` + account + `, containers: [{name: main, image: none}]}}`
	}
	c.refused(pod("ci"), `pods "ci" is forbidden: error looking up service account default/ci: serviceaccount "ci" not found`)
	c.apply("{apiVersion: v1, kind: ServiceAccount, metadata: {name: ci}, imagePullSecrets: [{name: registry}]}")
	c.apply(pod("ci"))
	c.apply(pod("default"))
	c.must("wait", "--for=condition=Ready", "pod/ci", "pod/default", "--timeout=30s")
	if out := c.must("get", "pod", "ci", "-o", "jsonpath={.spec.imagePullSecrets[*].name}"); out != "registry" {
		t.Errorf("the pod has the pull secrets %q", out)
	}
	if out := c.must("get", "configmap", "-n", "kube-system", "kube-root-ca.crt", "-o", "jsonpath={.data}"); !strings.Contains(out, "BEGIN CERTIFICATE") {
		t.Errorf("the published authority: %s", out)
	}
}
