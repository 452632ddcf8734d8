package apiserver

import (
	"testing"
	"time"

	protobuf "google.golang.org/protobuf/proto"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/apiserver/custom"
)

// FuzzRead: whatever arrives on the bus is a request whose parts are in order, or is
// refused as the client's fault.
func FuzzRead(f *testing.F) {
	good := &proto.Request{Version: proto.Version, Operation: "op-1", Boot: "b1"}
	whole, err := protobuf.Marshal(good)
	if err != nil {
		f.Fatal(err)
	}
	subject := proto.APISubject{Identity: proto.Client("admin"), Verb: "delete", Resource: "pods", Namespace: "default", Name: "web"}
	f.Add(subject.String(), whole)
	f.Add("api.client:admin.get.deployments%2Eapps/scale.default.web", whole[:len(whole)/2])
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	f.Fuzz(func(t *testing.T, subject string, data []byte) {
		req, err := parseRequest(message{subject: subject, data: data}, now, &custom.Catalog{})
		if err != nil {
			if reason := apierrors.ReasonForError(err); reason == "" || apierrors.IsInternalError(err) {
				t.Errorf("%v is not said in the API's words", err)
			}
			return
		}
		if req.Envelope.GetOperation() == "" || req.Kind.Resource == "" || req.Verb == "" {
			t.Errorf("took a request with %+v", req.Attributes)
		}
	})
}
