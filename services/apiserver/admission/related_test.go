package admission_test

import (
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/apiserver/admission"
)

// TestAuthorizeRelated is T7: a node reads what its pods refer to, and nothing else.
func TestAuthorizeRelated(t *testing.T) {
	t.Parallel()
	related := func(node, _, namespace, name string) bool {
		return node == "n1" && name == "mine" && (namespace == "default" || namespace == "")
	}
	const none = "no relationship found between node 'n1' and this object"
	for _, row := range []struct {
		verb                          proto.Verb
		what, namespace, name, fields string
		want                          string
	}{
		{proto.VerbGet, "secrets", "default", "mine", "", ""},
		{proto.VerbGet, "secrets", "default", "theirs", "", `secrets "theirs" is forbidden: ` + none},
		{proto.VerbGet, "secrets", "other", "mine", "", `secrets "mine" is forbidden: ` + none},
		{proto.VerbWatch, "secrets", "default", "", "metadata.name=mine", ""},
		{proto.VerbList, "configmaps", "default", "", "metadata.name=mine", ""},
		{proto.VerbWatch, "secrets", "default", "", "metadata.name=theirs", `secrets is forbidden: ` + none},
		{proto.VerbList, "secrets", "default", "", "", `secrets is forbidden: node "n1" can only list secrets of one namespace with the field selector metadata.name=<name>`},
		{proto.VerbWatch, "secrets", "", "", "metadata.name=mine", `secrets is forbidden: node "n1" can only watch secrets of one namespace with the field selector metadata.name=<name>`},
		{proto.VerbWatch, "configmaps", "default", "", "metadata.name!=theirs", `configmaps is forbidden: node "n1" can only watch configmaps of one namespace with the field selector metadata.name=<name>`},
		{proto.VerbUpdate, "secrets", "default", "mine", "", `secrets "mine" is forbidden: node "n1" may not update secrets`},
		{proto.VerbDelete, "configmaps", "default", "mine", "", `configmaps "mine" is forbidden: node "n1" may not delete configmaps`},
		{proto.VerbGet, "persistentvolumeclaims", "default", "mine", "", ""},
		{proto.VerbGet, "persistentvolumeclaims/status", "default", "mine", "", `persistentvolumeclaims "mine" is forbidden: node "n1" may not get persistentvolumeclaims/status`},
		{proto.VerbList, "persistentvolumeclaims", "default", "", "metadata.name=mine", `persistentvolumeclaims is forbidden: node "n1" may not list persistentvolumeclaims`},
		{proto.VerbGet, "persistentvolumes", "", "mine", "", ""},
		{proto.VerbGet, "persistentvolumes", "", "theirs", "", `persistentvolumes "theirs" is forbidden: ` + none},
		{proto.VerbGet, "volumeattachments.storage.k8s.io", "", "mine", "", ""},
		{proto.VerbCreate, "serviceaccounts/token", "default", "mine", "", ""},
		{proto.VerbCreate, "serviceaccounts/token", "default", "theirs", "", `serviceaccounts "theirs" is forbidden: ` + none},
		{proto.VerbGet, "serviceaccounts", "default", "mine", "", `serviceaccounts "mine" is forbidden: node "n1" can only create tokens for individual service accounts`},
	} {
		a := attributes(t, row.verb, row.what, row.name)
		a.Namespace = row.namespace
		if got := text(admission.Authorize(a, row.fields, related)); got != row.want {
			t.Errorf("%s %s %s %q:\n got %s\nwant %s", row.verb, row.what, row.name, row.fields, got, row.want)
		}
		a.Identity = proto.Node("n2")
		if admission.Authorize(a, row.fields, related) == nil {
			t.Errorf("%s %s %s: another node may", row.verb, row.what, row.name)
		}
	}
}

// TestAdmitToken is T7: a node gets tokens for its own pods alone.
func TestAdmitToken(t *testing.T) {
	t.Parallel()
	a := attributes(t, proto.VerbCreate, "serviceaccounts/token", "robot")
	bound := func(name string, uid types.UID) *authenticationv1.TokenRequest {
		return &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
			BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: name, UID: uid},
		}}
	}
	pod := func(node string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u"}, Spec: corev1.PodSpec{NodeName: node}}
	}
	for _, row := range []struct {
		wanted *authenticationv1.TokenRequest
		pod    *corev1.Pod
		want   string
	}{
		{bound("p", "u"), pod("n1"), ""},
		{&authenticationv1.TokenRequest{}, nil, `serviceaccounts "robot" is forbidden: node requested token not bound to a pod`},
		{bound("p", ""), pod("n1"), `serviceaccounts "robot" is forbidden: node requested token with a pod binding without a uid`},
		{bound("p", "u"), nil, `pods "p" not found`},
		{bound("p", "u"), pod("n2"), `serviceaccounts "robot" is forbidden: node requested token bound to a pod scheduled on a different node`},
		{bound("p", "old"), pod("n1"), `Operation cannot be fulfilled on pods "p": the UID in the bound object reference (old) does not match ` +
			`the UID in record. The object might have been deleted and then recreated`},
	} {
		if got := text(admission.AdmitToken(a, row.wanted, row.pod)); got != row.want {
			t.Errorf("got %s\nwant %s", got, row.want)
		}
	}
	a.Identity = proto.Client("me")
	if err := admission.AdmitToken(a, &authenticationv1.TokenRequest{}, nil); err != nil {
		t.Errorf("a client: %v", err)
	}
}
