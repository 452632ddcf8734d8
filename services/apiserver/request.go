package apiserver

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	protobuf "google.golang.org/protobuf/proto"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver/admission"
	"github.com/podfall/podfall/services/apiserver/custom"
	"github.com/podfall/podfall/services/apiserver/registry"
	"github.com/podfall/podfall/services/apiserver/verbs"
)

// message is a call as received.
type message struct {
	subject string
	data    []byte
	// envelope replaces data if the call was never encoded.
	envelope *proto.Request
}

// decodeEnvelope returns the envelope. The error is a 400.
func (m message) decodeEnvelope() (*proto.Request, error) {
	if m.envelope != nil {
		return m.envelope, nil
	}
	envelope := &proto.Request{}
	if err := protobuf.Unmarshal(m.data, envelope); err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("envelope: want an encoded podfall.v1.Request: %v", err))
	}
	return envelope, nil
}

// parseRequest decodes and checks a call. Its errors are apierrors values that name the wrong part
// and say what would be right.
func parseRequest(call message, now time.Time, catalog *custom.Catalog) (*verbs.Request, error) {
	parsed, err := proto.ParseAPISubject(call.subject)
	if err != nil {
		return nil, apierrors.NewBadRequest("subject: " + err.Error())
	}
	envelope, err := call.decodeEnvelope()
	if err != nil {
		return nil, err
	}
	if err := checkEnvelope(envelope); err != nil {
		return nil, err
	}
	kind, err := resolveKind(parsed.Resource, envelope.GetApiVersion(), catalog)
	if err != nil {
		return nil, err
	}
	req := &verbs.Request{
		Attributes: admission.Attributes{
			Identity: parsed.Identity, Verb: parsed.Verb, Kind: kind, Subresource: parsed.Subresource,
			Namespace: parsed.Namespace, Name: parsed.Name,
		},
		Envelope: envelope, Now: now,
	}
	return req, checkTarget(&req.Attributes)
}

const (
	maxOperation = 64
	maxBoot      = 64
)

func checkEnvelope(envelope *proto.Request) error {
	if v := envelope.GetVersion(); v != proto.Version {
		return apierrors.NewBadRequest(fmt.Sprintf("envelope: version: this apiserver speaks %d, not %d", proto.Version, v))
	}
	if op := envelope.GetOperation(); op == "" || len(op) > maxOperation || !isPrintable(op) {
		return apierrors.NewBadRequest(fmt.Sprintf(
			"envelope: operation: want 1 to %d printable ASCII characters, not %s", maxOperation, quoteShort(op)))
	}
	if boot := envelope.GetBoot(); len(boot) > maxBoot || !isPrintable(boot) {
		return apierrors.NewBadRequest(fmt.Sprintf(
			"envelope: boot: want at most %d printable ASCII characters, not %s", maxBoot, quoteShort(boot)))
	}
	return nil
}

func isPrintable(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' })
}

// quoteShort quotes a text from a client, cut to 80 bytes.
func quoteShort(text string) string {
	const enough = 80
	if len(text) > enough {
		return fmt.Sprintf("%.*q… (%d bytes)", enough, text, len(text))
	}
	return fmt.Sprintf("%q", text)
}

// resolveKind returns the kind of a group resource in a version; an empty version means the
// preferred one.
func resolveKind(resource, apiVersion string, catalog *custom.Catalog) (kinds.Kind, error) {
	kind, ok := kinds.ByResource(resource)
	if !ok {
		kind, ok = catalog.Kind(resource, "")
	}
	if !ok {
		return kind, notServed(fmt.Sprintf(
			"resource %s: want a plural with its group, such as pods or deployments.apps", quoteShort(resource)))
	}
	if apiVersion == "" || apiVersion == kind.GroupVersion().String() {
		return kind, nil
	}
	gv, err := schema.ParseGroupVersion(apiVersion)
	requested, ok := kinds.ByGVK(gv.WithKind(kind.Kind))
	if kind.Custom {
		requested, ok = catalog.Kind(resource, gv.Version)
	}
	if err != nil || !ok || requested.GroupVersion() != gv || requested.GroupResource() != kind.GroupResource() {
		return kind, notServed(fmt.Sprintf("envelope: api_version: %s has no version %s", resource, quoteShort(apiVersion)))
	}
	return requested, nil
}

// notServed returns the 404 for a resource or subresource that does not exist. Upstream's has no
// detail.
func notServed(detail string) error {
	message := "the server could not find the requested resource"
	if detail != "" {
		message += ": " + detail
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound,
		Message: message, Details: &metav1.StatusDetails{},
	}}
}

// checkTarget checks that the verb fits its kind, namespace, name and subresource.
func checkTarget(a *admission.Attributes) error {
	if a.Identity == proto.Kubelet || a.Identity == proto.Runtime {
		return apierrors.NewForbidden(a.Kind.GroupResource(), a.Name, fmt.Errorf("identity %q belongs on a node bus", a.Identity))
	}
	if !slices.Contains(proto.Verbs(), a.Verb) {
		return apierrors.NewBadRequest(fmt.Sprintf("verb %s: want one of %v", quoteShort(string(a.Verb)), proto.Verbs()))
	}
	if err := checkSubresource(a); err != nil {
		return err
	}
	if err := proto.CheckName("namespace", a.Namespace); err != nil {
		return err
	}
	if err := proto.CheckName("name", a.Name); err != nil {
		return err
	}
	everywhere := a.Verb == proto.VerbList || a.Verb == proto.VerbWatch
	collection := everywhere || a.Verb == proto.VerbDeleteCollection
	switch {
	case !a.Kind.Namespaced && a.Namespace != "":
		return apierrors.NewBadRequest(fmt.Sprintf("namespace: %s have none, so want it empty", a.Kind.Resource))
	case a.Kind.Namespaced && a.Namespace == "" && !everywhere:
		return apierrors.NewBadRequest(fmt.Sprintf("namespace: %s have one, so want it named", a.Kind.Resource))
	case collection && a.Name != "":
		return apierrors.NewBadRequest(fmt.Sprintf("name: %s is about many, so want it empty", a.Verb))
	case !collection && a.Name == "" && (a.Verb != proto.VerbCreate || a.Subresource != ""):
		return apierrors.NewBadRequest(fmt.Sprintf("name: %s is about one, so want it named", a.Verb))
	}
	return nil
}

// checkSubresource refuses subresources and verbs that are not served.
func checkSubresource(a *admission.Attributes) error {
	var verbs []proto.Verb
	switch a.Subresource {
	case "":
		return nil
	case "status", "scale", "ephemeralcontainers", "resize":
		verbs = []proto.Verb{proto.VerbGet, proto.VerbUpdate, proto.VerbPatch}
	case "binding", "eviction", "token":
		verbs = []proto.Verb{proto.VerbCreate}
	case "finalize":
		verbs = []proto.Verb{proto.VerbUpdate}
	case proto.SubresourceRenew:
		if a.Verb == proto.VerbWatch {
			return nil
		}
	}
	if len(verbs) == 0 || !slices.Contains(registry.Subresources(a.Kind), a.Subresource) {
		return notServed("")
	}
	if !slices.Contains(verbs, a.Verb) {
		return apierrors.NewMethodNotSupported(a.Kind.GroupResource(), string(a.Verb))
	}
	return nil
}

// isWrite reports whether a verb can change the store.
func isWrite(verb proto.Verb) bool {
	switch verb {
	case proto.VerbGet, proto.VerbList, proto.VerbWatch:
		return false
	case proto.VerbCreate, proto.VerbUpdate, proto.VerbPatch, proto.VerbDelete, proto.VerbDeleteCollection:
	}
	return true
}
