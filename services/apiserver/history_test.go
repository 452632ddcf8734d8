package apiserver

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver/admission"
	"github.com/podfall/podfall/services/apiserver/verbs"
)

// TestHistoryOfEvictions has the history tell how an eviction wants its pod deleted, which is
// in its body: without that nobody knows whether the pod was forced away.
func TestHistoryOfEvictions(t *testing.T) {
	t.Parallel()
	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	options, err := dry.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	const forced = `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"p"},"deleteOptions":{"gracePeriodSeconds":0,"preconditions":{"uid":"u"}}}`
	for _, c := range []struct {
		name, subresource, body string
		options                 []byte
		grace, dry              bool
	}{
		{"forced", "eviction", forced, nil, true, false},
		{"a dry run", "eviction", forced, options, true, true},
		{"graceful", "eviction", `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"p"}}`, nil, false, false},
		{"of no kind", "eviction", `{"a":`, nil, false, false},
		{"no eviction", "binding", forced, options, false, true},
	} {
		call := newOpCall(&verbs.Request{
			Attributes: admission.Attributes{Verb: proto.VerbCreate, Namespace: "default", Name: "p", Subresource: c.subresource},
			Envelope:   &proto.Request{Body: []byte(c.body), ContentType: kinds.ContentTypeJSON, Options: c.options},
		})
		if (call.Grace != nil && *call.Grace == 0) != c.grace || (call.PreUID == "u") != c.grace || call.DryRun != c.dry {
			t.Errorf("%s: told of %+v", c.name, call)
		}
	}
}
