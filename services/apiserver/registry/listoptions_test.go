package registry_test

import (
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/services/apiserver/registry"
)

const (
	exact     = metav1.ResourceVersionMatchExact
	notOldest = metav1.ResourceVersionMatchNotOlderThan
)

func codeOf(err error) int {
	if err == nil {
		return http.StatusOK
	}
	if status, ok := err.(apierrors.APIStatus); ok {
		return int(status.Status().Code)
	}
	return 0
}

func TestParseListOptions(t *testing.T) {
	t.Parallel()
	const all = 1<<63 - 1
	token := registry.EncodeContinue(kindOf(t, "pods"), "ns", registry.Continue{Revision: 7, After: "ns/b"})
	tests := []struct {
		rule     string
		opts     metav1.ListOptions
		match    registry.Match
		revision int64
		after    string
	}{
		{"WCH-02 nothing", metav1.ListOptions{}, registry.Latest, 0, ""},
		{"WCH-02 any", metav1.ListOptions{ResourceVersion: "0"}, registry.Any, 0, ""},
		{"WCH-02 not older", metav1.ListOptions{ResourceVersion: "5"}, registry.NotOlderThan, 5, ""},
		{"WCH-02 not older, said", metav1.ListOptions{ResourceVersion: "5", ResourceVersionMatch: notOldest, Limit: 2}, registry.NotOlderThan, 5, ""},
		{"WCH-02 exact", metav1.ListOptions{ResourceVersion: "5", ResourceVersionMatch: exact}, registry.Exact, 5, ""},
		{"WCH-02 legacy exact", metav1.ListOptions{ResourceVersion: "5", Limit: 2}, registry.Exact, 5, ""},
		{"WCH-02 legacy any with a limit", metav1.ListOptions{ResourceVersion: "0", Limit: 2}, registry.Any, 0, ""},
		{"WCH-05 the second page", metav1.ListOptions{Continue: token, Limit: 2}, registry.Exact, 7, "ns/b"},
		{"WCH-04 the second page from 0", metav1.ListOptions{Continue: token, ResourceVersion: "0"}, registry.Exact, 7, "ns/b"},
		{"greatest revision", metav1.ListOptions{ResourceVersion: "9223372036854775807"}, registry.NotOlderThan, all, ""},
	}
	for _, tt := range tests {
		plan, err := registry.ParseListOptions(kindOf(t, "pods"), "ns", tt.opts)
		if err != nil || plan.Match != tt.match || plan.Revision != tt.revision || plan.After != tt.after {
			t.Errorf("%s: %+v, %v", tt.rule, plan, err)
		}
		if plan.Limit != tt.opts.Limit {
			t.Errorf("%s: limit %d", tt.rule, plan.Limit)
		}
	}
}

func TestParseListOptionsRefuses(t *testing.T) {
	t.Parallel()
	yes := true
	token := registry.EncodeContinue(kindOf(t, "pods"), "ns", registry.Continue{Revision: 7, After: "ns/b"})
	const invalid = `ListOptions.meta.k8s.io "" is invalid: `
	tests := []struct {
		rule string
		opts metav1.ListOptions
		code int
		want string
	}{
		{"WCH-04", metav1.ListOptions{ResourceVersion: "x"}, 400, `invalid resource version: resourceVersion: Invalid value: "x": strconv.ParseUint: parsing "x": invalid syntax`},
		{"WCH-04", metav1.ListOptions{ResourceVersion: "-1"}, 400, `invalid resource version: resourceVersion: Invalid value: "-1": strconv.ParseUint: parsing "-1": invalid syntax`},
		{"WCH-04", metav1.ListOptions{Continue: token, ResourceVersion: "5"}, 400, "specifying resource version is not allowed when using continue"},
		{"WCH-04", metav1.ListOptions{ResourceVersionMatch: exact}, 422, invalid + "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"},
		{"WCH-04", metav1.ListOptions{Continue: token, ResourceVersion: "0", ResourceVersionMatch: notOldest}, 422, invalid + "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided"},
		{"WCH-04", metav1.ListOptions{ResourceVersion: "0", ResourceVersionMatch: exact}, 422, invalid + `resourceVersionMatch: Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"`},
		{"WCH-04", metav1.ListOptions{ResourceVersion: "1", ResourceVersionMatch: "Some"}, 422, invalid + `resourceVersionMatch: Unsupported value: "Some": supported values: "Exact", "NotOlderThan", ""`},
		{"WCH-04", metav1.ListOptions{SendInitialEvents: &yes}, 422, invalid + "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list"},
		{"WCH-12", metav1.ListOptions{Watch: true, SendInitialEvents: &yes}, 422, invalid + "resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"},
		{"WCH-12", metav1.ListOptions{Watch: true, ResourceVersionMatch: notOldest}, 422, invalid + "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"},
		{"WCH-12", metav1.ListOptions{Watch: true, ResourceVersion: "x"}, 422, `pods "" is invalid: resourceVersion: Invalid value: "x": strconv.ParseUint: parsing "x": invalid syntax`},
		{"labels", metav1.ListOptions{LabelSelector: "a=b=c"}, 400, `found '=', expected: ',' or 'end of string'`},
		{"API-72", metav1.ListOptions{FieldSelector: "metadata.name"}, 400, `invalid selector: 'metadata.name'; can't understand 'metadata.name'`},
		{"API-72", metav1.ListOptions{FieldSelector: "metadata.deletionTimestamp=x"}, 400, "field label not supported: metadata.deletionTimestamp"},
		{"WCH-05", metav1.ListOptions{Continue: "!"}, 400, "invalid continue token: continue key is not valid: illegal base64 data at input byte 0"},
	}
	for _, tt := range tests {
		_, err := registry.ParseListOptions(kindOf(t, "pods"), "ns", tt.opts)
		if codeOf(err) != tt.code || err.Error() != tt.want {
			t.Errorf("%s: %d %v\nwant %d %s", tt.rule, codeOf(err), err, tt.code, tt.want)
		}
	}
}

func TestParseWatchOptions(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	tests := []struct {
		rule         string
		opts         metav1.ListOptions
		match        registry.Match
		initial, end bool
	}{
		{"WCH-10", metav1.ListOptions{ResourceVersion: "5"}, registry.NotOlderThan, false, false},
		{"WCH-10", metav1.ListOptions{ResourceVersion: "5", AllowWatchBookmarks: true}, registry.NotOlderThan, false, false},
		{"WCH-11", metav1.ListOptions{}, registry.Latest, true, false},
		{"WCH-11", metav1.ListOptions{ResourceVersion: "0"}, registry.Any, true, false},
		{"WCH-11 with bookmarks", metav1.ListOptions{AllowWatchBookmarks: true}, registry.Latest, true, true},
		{"WCH-12", metav1.ListOptions{SendInitialEvents: &yes, ResourceVersionMatch: notOldest, AllowWatchBookmarks: true}, registry.Latest, true, true},
		{"WCH-12", metav1.ListOptions{SendInitialEvents: &yes, ResourceVersionMatch: notOldest, ResourceVersion: "5"}, registry.NotOlderThan, true, false},
		{"WCH-13", metav1.ListOptions{SendInitialEvents: &no, ResourceVersionMatch: notOldest, AllowWatchBookmarks: true}, registry.Latest, false, false},
	}
	for _, tt := range tests {
		tt.opts.Watch = true
		plan, err := registry.ParseListOptions(kindOf(t, "pods"), "", tt.opts)
		if err != nil || plan.Match != tt.match || plan.Initial != tt.initial || plan.EndBookmark != tt.end {
			t.Errorf("%s: %+v, %v", tt.rule, plan, err)
		}
	}
}

func TestSelectorsAreCanonical(t *testing.T) {
	t.Parallel()
	for _, tt := range [][3]string{
		{"pods", "b=2,a = 1", "a=1,b=2"},
		{"pods", "a in (y,x)", "a in (x,y)"},
		{"pods", "a notin (y,x)", "a notin (x,y)"},
	} {
		plan, err := registry.ParseListOptions(kindOf(t, tt[0]), "", metav1.ListOptions{LabelSelector: tt[1]})
		if err != nil || plan.Labels.String() != tt[2] {
			t.Errorf("labels %q became %q, %v", tt[1], plan.Labels, err)
		}
	}
	for _, tt := range [][3]string{
		{"pods", "spec.nodeName==n1", "spec.nodeName=n1"},
		{"pods", "spec.host=n1", "spec.nodeName=n1"},
		{"events.events.k8s.io", "regarding.name=a,reportingController=k", "involvedObject.name=a,reportingComponent=k"},
	} {
		plan, err := registry.ParseListOptions(kindOf(t, tt[0]), "", metav1.ListOptions{FieldSelector: tt[1]})
		if err != nil || plan.Fields.String() != tt[2] {
			t.Errorf("fields %q became %q, %v", tt[1], plan.Fields, err)
		}
	}
}

// TestSelectableFields: what may be asked for is what Fields answers (API-72).
func TestSelectableFields(t *testing.T) {
	t.Parallel()
	documents := map[string]string{
		"pods":       podJSON,
		"nodes":      `{"apiVersion":"v1","kind":"Node","metadata":{"name":"n1"},"spec":{"unschedulable":true}}`,
		"namespaces": `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a"}}`,
		"events":     `{"apiVersion":"v1","kind":"Event","metadata":{"name":"a","namespace":"b"},"involvedObject":{"namespace":"b"}}`,
		"secrets":    `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a","namespace":"b"},"type":"x/y"}`,
		"leases":     `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"a","namespace":"b"}}`,
		"jobs":       `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"a","namespace":"b"},"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}`,
	}
	want := map[string]string{
		"pods": "metadata.name=web,metadata.namespace=default,spec.hostNetwork=false,spec.nodeName=,spec.restartPolicy=Always," +
			"spec.schedulerName=default-scheduler,spec.serviceAccountName=default,status.nominatedNodeName=,status.phase=Pending,status.podIP=",
		"nodes":      "metadata.name=n1,spec.unschedulable=true",
		"namespaces": "metadata.name=a,status.phase=Active",
		"events": "involvedObject.apiVersion=,involvedObject.fieldPath=,involvedObject.kind=,involvedObject.name=," +
			"involvedObject.namespace=b,involvedObject.resourceVersion=,involvedObject.uid=,metadata.name=a,metadata.namespace=b," +
			"reason=,reportingComponent=,source=,type=",
		"secrets": "metadata.name=a,metadata.namespace=b,type=x/y",
		"leases":  "metadata.name=a,metadata.namespace=b",
		"jobs":    "metadata.name=a,metadata.namespace=b,status.successful=0",
	}
	for alias, document := range documents {
		set := strategy(t, alias).Fields(stored(t, alias, document))
		if set.String() != want[alias] {
			t.Errorf("%s: %s\nwant %s", alias, set, want[alias])
		}
		for name := range set {
			opts := metav1.ListOptions{FieldSelector: name + "=x"}
			if _, err := registry.ParseListOptions(kindOf(t, alias), "", opts); err != nil {
				t.Errorf("%s: %v", alias, err)
			}
		}
	}
	_, err := registry.ParseListOptions(kindOf(t, "leases"), "", metav1.ListOptions{FieldSelector: "spec.x=y"})
	if err == nil || err.Error() != `"spec.x" is not a known field selector: only "metadata.name", "metadata.namespace"` {
		t.Errorf("leases by spec.x: %v", err)
	}
}

func TestContinueTokens(t *testing.T) {
	t.Parallel()
	tests := []struct {
		alias, namespace string
		at               registry.Continue
	}{
		{"pods", "ns", registry.Continue{Revision: 9, After: "ns/a"}},
		{"pods", "", registry.Continue{Revision: 9, After: "ns/a"}},
		{"pods", "", registry.Continue{Revision: registry.AnyRevision, After: "ns/a"}},
		{"nodes", "", registry.Continue{Revision: 9, After: "/n1"}},
		{"clusterroles", "", registry.Continue{Revision: 9, After: "/system:node"}},
	}
	for _, tt := range tests {
		kind := kindOf(t, tt.alias)
		token := registry.EncodeContinue(kind, tt.namespace, tt.at)
		back, err := registry.DecodeContinue(kind, tt.namespace, token)
		if err != nil || back != tt.at {
			t.Errorf("%+v came back as %+v, %v", tt.at, back, err)
		}
	}
	// {"v":"meta.k8s.io/v1","rv":7,"start":"b\u0000"}, as upstream writes it.
	const upstream = "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6Nywic3RhcnQiOiJiXHUwMDAwIn0"
	if token := registry.EncodeContinue(kindOf(t, "pods"), "ns", registry.Continue{Revision: 7, After: "ns/b"}); token != upstream {
		t.Errorf("token %s, upstream's is %s", token, upstream)
	}
}

func TestContinueTokensRefused(t *testing.T) {
	t.Parallel()
	pods := kindOf(t, "pods")
	elsewhere := registry.EncodeContinue(pods, "", registry.Continue{Revision: 7, After: "other/b"})
	for name, token := range map[string]string{
		"no base64":           "%%%",
		"no JSON":             "YWJj",
		"another version":     "eyJ2IjoidjIiLCJydiI6Nywic3RhcnQiOiJiIn0",
		"revision 0":          "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MCwic3RhcnQiOiJiIn0",
		"no start":            "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6Nywic3RhcnQiOiIifQ",
		"a start that climbs": "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6Nywic3RhcnQiOiIuLi9iIn0",
		"another namespace":   elsewhere,
	} {
		at, err := registry.DecodeContinue(pods, "ns", token)
		if codeOf(err) != http.StatusBadRequest || !strings.Contains(err.Error(), "continue key is not valid") {
			t.Errorf("%s: %+v, %v", name, at, err)
		}
	}
}

// FuzzContinue: whatever a token says, it names one place inside what is listed.
func FuzzContinue(f *testing.F) {
	pods := kindOf(f, "pods")
	f.Add(registry.EncodeContinue(pods, "ns", registry.Continue{Revision: 7, After: "ns/b"}))
	f.Add(registry.EncodeContinue(pods, "", registry.Continue{Revision: -1, After: "ns/b"}))
	f.Fuzz(func(t *testing.T, token string) {
		at, err := registry.DecodeContinue(pods, "ns", token)
		if err != nil {
			if codeOf(err) != http.StatusBadRequest {
				t.Errorf("%v is no 400", err)
			}
			return
		}
		name, inside := strings.CutPrefix(at.After, "ns/")
		if !inside || name == "" || strings.ContainsAny(name, "/\x00") || name == ".." || name == "." {
			t.Errorf("%q leads to %+v", token, at)
		}
	})
}

// FuzzListOptions: selectors, resource versions and continue tokens of any form make a
// plan, or are the client's fault.
func FuzzListOptions(f *testing.F) {
	pods := kindOf(f, "pods")
	f.Add("", "spec.nodeName!=n1", "", "Exact", registry.EncodeContinue(pods, "ns", registry.Continue{Revision: 7, After: "ns/b"}), false, int64(500))
	f.Fuzz(func(t *testing.T, label, field, version, match, continued string, watch bool, limit int64) {
		plan, err := registry.ParseListOptions(pods, "ns", metav1.ListOptions{
			LabelSelector: label, FieldSelector: field, ResourceVersion: version,
			ResourceVersionMatch: metav1.ResourceVersionMatch(match), Continue: continued, Watch: watch, Limit: limit,
		})
		if err != nil {
			if code := codeOf(err); code < 400 || code > 499 {
				t.Errorf("%v has code %d", err, code)
			}
			return
		}
		if plan.Labels == nil || plan.Fields == nil || plan.Limit < 0 || plan.Revision < -1 {
			t.Errorf("plan %+v", plan)
		}
	})
}
