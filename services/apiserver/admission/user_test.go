package admission_test

import (
	"strings"
	"testing"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/apiserver/admission"
)

func TestUserOf(t *testing.T) {
	t.Parallel()
	for identity, want := range map[proto.Identity]string{
		"client:admin":    "kubernetes-admin system:masters system:authenticated",
		proto.Gateway:     "kubernetes-admin system:masters system:authenticated",
		proto.Node("n1"):  "system:node:n1 system:nodes system:authenticated",
		proto.Controllers: "system:kube-controller-manager system:authenticated",
		proto.APIServer:   "system:apiserver system:masters system:authenticated",
	} {
		user := admission.UserOf(identity)
		if got := user.Username + " " + strings.Join(user.Groups, " "); got != want {
			t.Errorf("%s: %s, want %s", identity, got, want)
		}
	}
}
