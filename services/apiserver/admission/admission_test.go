package admission_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver/admission"
)

// attributes are those of n1; what is "resource" or "resource/subresource".
func attributes(t *testing.T, verb proto.Verb, what, name string) admission.Attributes {
	t.Helper()
	resource, sub, _ := strings.Cut(what, "/")
	kind, ok := kinds.ByResource(resource)
	if !ok {
		t.Fatalf("no kind %s", resource)
	}
	a := admission.Attributes{Identity: proto.Node("n1"), Verb: verb, Kind: kind, Subresource: sub, Name: name}
	if kind.Namespaced {
		a.Namespace = "default"
	}
	if resource == "leases.coordination.k8s.io" {
		a.Namespace = "kube-node-lease"
	}
	return a
}

// TestAuthorize walks every verb on what a node has to do with; whatever is not listed is
// refused.
func TestAuthorize(t *testing.T) {
	allowed := map[string]bool{
		"get pods ": true, "create pods ": true, "delete pods ": true,
		"update pods status": true, "patch pods status": true,
		"create events ": true, "update events ": true, "patch events ": true,
		"create events.events.k8s.io ": true, "update events.events.k8s.io ": true, "patch events.events.k8s.io ": true,
		"get nodes ": true, "create nodes ": true, "update nodes ": true, "patch nodes ": true,
		"get nodes status": true, "create nodes status": true, "update nodes status": true, "patch nodes status": true,
		"get leases.coordination.k8s.io ": true, "create leases.coordination.k8s.io ": true,
		"update leases.coordination.k8s.io ": true, "patch leases.coordination.k8s.io ": true,
		"get services ": true, "list services ": true, "watch services ": true,
		"get runtimeclasses.node.k8s.io ": true, "list runtimeclasses.node.k8s.io ": true, "watch runtimeclasses.node.k8s.io ": true,
	}
	resources := []string{
		"pods", "nodes", "events", "events.events.k8s.io", "leases.coordination.k8s.io",
		"namespaces", "secrets", "configmaps", "persistentvolumes", "persistentvolumeclaims", "serviceaccounts",
		"volumeattachments.storage.k8s.io", "deployments.apps", "services", "runtimeclasses.node.k8s.io",
	}
	for _, resource := range resources {
		for _, sub := range []string{"", "status", "binding"} {
			for _, verb := range proto.Verbs() {
				what := string(verb) + " " + resource + " " + sub
				a := attributes(t, verb, resource+"/"+sub, "n1")
				if err := admission.Authorize(a, "", nil); (err == nil) != allowed[what] {
					t.Errorf("%s: %v", what, err)
				}
				a.Identity = proto.Client("me")
				if err := admission.Authorize(a, "", nil); err != nil {
					t.Errorf("client: %s: %v", what, err)
				}
			}
		}
	}
}

func TestAuthorizeNames(t *testing.T) {
	rows := []struct {
		what     string
		a        admission.Attributes
		selector string
		want     string
	}{
		{
			"another node's pods", attributes(t, proto.VerbList, "pods", ""), "spec.nodeName=n2",
			`pods is forbidden: node "n1" can only list pods with the field selector spec.nodeName=n1`,
		},
		{"its own pods", attributes(t, proto.VerbWatch, "pods", ""), "spec.nodeName=n1,status.phase!=Failed", ""},
		{
			"all but its own", attributes(t, proto.VerbWatch, "pods", ""), "spec.nodeName!=n1",
			`pods is forbidden: node "n1" can only watch pods with the field selector spec.nodeName=n1`,
		},
		{
			"another node", attributes(t, proto.VerbUpdate, "nodes/status", "n2"), "",
			`nodes "n2" is forbidden: node "n1" is not allowed to modify node "n2"`,
		},
		{
			"another node's lease", attributes(t, proto.VerbUpdate, "leases.coordination.k8s.io", "n2"), "",
			`leases.coordination.k8s.io "n2" is forbidden: can only access node lease with the same name as the requesting node`,
		},
		{
			"a node that names itself later", attributes(t, proto.VerbCreate, "nodes", ""), "", "",
		},
	}
	for _, row := range rows {
		err := admission.Authorize(row.a, row.selector, nil)
		if got := text(err); got != row.want {
			t.Errorf("%s:\n got %s\nwant %s", row.what, got, row.want)
		}
		if err != nil && !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v is no 403", row.what, err)
		}
	}
	other := attributes(t, proto.VerbGet, "leases.coordination.k8s.io", "n1")
	other.Namespace = "default"
	if got, want := text(admission.Authorize(other, "", nil)),
		`leases.coordination.k8s.io "n1" is forbidden: can only access leases in the "kube-node-lease" system namespace`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestAdmit(t *testing.T) {
	pod := func(node string, change ...func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{NodeName: node}}
		for _, c := range change {
			c(p)
		}
		return p
	}
	mirror := func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }
	labelled := func(p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} }
	node := func(name string, taints ...corev1.Taint) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{Taints: taints}}
	}
	taint := corev1.Taint{Key: "k", Effect: corev1.TaintEffectNoExecute}
	rows := []struct {
		id       string
		verb     proto.Verb
		resource string
		obj, old kinds.Object
		want     string
	}{
		{"API-08 own pod", proto.VerbDelete, "pods", nil, pod("n1"), ""},
		{
			"API-08 another's pod", proto.VerbDelete, "pods", nil, pod("n2"),
			`pods "p" is forbidden: node "n1" can only delete pods with spec.nodeName set to itself`,
		},
		{
			"API-08 nobody's pod", proto.VerbDelete, "pods", nil, pod(""),
			`pods "p" is forbidden: node "n1" can only delete pods with spec.nodeName set to itself`,
		},
		{"own status", proto.VerbPatch, "pods/status", pod("n1"), pod("n1"), ""},
		{
			"another's status", proto.VerbUpdate, "pods/status", pod("n1"), pod("n2"),
			`pods "p" is forbidden: node "n1" can only update pod status for pods with spec.nodeName set to itself`,
		},
		{
			"labels", proto.VerbUpdate, "pods/status", pod("n1", labelled), pod("n1"),
			`pods "p" is forbidden: node "n1" cannot update labels through pod status`,
		},
		{"read its own", proto.VerbGet, "pods", nil, pod("n1"), ""},
		{
			"read another's", proto.VerbGet, "pods", nil, pod("n2"),
			`pods "p" is forbidden: node "n1" can only get pods with spec.nodeName set to itself`,
		},
		{"API-08 mirror", proto.VerbCreate, "pods", pod("n1", mirror), nil, ""},
		{
			"API-08 mirror elsewhere", proto.VerbCreate, "pods", pod("n2", mirror), nil,
			`pods "p" is forbidden: node "n1" can only create pods with spec.nodeName set to itself`,
		},
		{
			"API-08 no mirror", proto.VerbCreate, "pods", pod("n1"), nil,
			`pods "p" is forbidden: pod does not have "kubernetes.io/config.mirror" annotation, node "n1" can only create mirror pods`,
		},
		{"itself with taints", proto.VerbCreate, "nodes", node("n1", taint), nil, ""},
		{
			"itself without taints", proto.VerbUpdate, "nodes", node("n1"), node("n1", taint),
			`nodes "p" is forbidden: node "n1" is not allowed to modify taints`,
		},
		{"its status", proto.VerbUpdate, "nodes/status", node("n1", taint), node("n1", taint), ""},
		{
			"another node", proto.VerbCreate, "nodes", node("n2"), nil,
			`nodes "p" is forbidden: node "n1" is not allowed to modify node "n2"`,
		},
	}
	for _, row := range rows {
		a := attributes(t, row.verb, row.resource, "p")
		if got := text(admission.Admit(a, row.obj, row.old)); got != row.want {
			t.Errorf("%s:\n got %s\nwant %s", row.id, got, row.want)
		}
		for _, id := range []proto.Identity{proto.Client("me"), proto.Controllers} {
			a.Identity = id
			if err := admission.Admit(a, row.obj, row.old); err != nil {
				t.Errorf("%s as %s: %v", row.id, id, err)
			}
		}
	}
}

func TestSystemNamespacesCannotBeDeleted(t *testing.T) {
	for name, refused := range map[string]bool{"default": true, "kube-system": true, "kube-public": true, "kube-node-lease": false, "shop": false} {
		err := admission.DenySystemNamespaceDeletion(attributes(t, proto.VerbDelete, "namespaces", name))
		if (err != nil) != refused {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := admission.DenySystemNamespaceDeletion(attributes(t, proto.VerbDelete, "pods", "default")); err != nil {
		t.Error(err)
	}
}
