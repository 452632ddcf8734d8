package guarantees_test

import (
	"strings"
	"testing"

	"github.com/podfall/podfall/e2e/guarantees"
	"github.com/podfall/podfall/internal/history"
)

// request is a request to a pod between two times. Code 0 means that it was not answered.
type request struct {
	from, to int64
	verb     string
	code     int32
	revision int64
	meant    string
}

func eventsOf(requests []request) []history.Event {
	var all []history.Event
	for i, r := range requests {
		id := string(rune('a' + i))
		all = append(all, history.Event{Began: r.from, Ended: r.from, Cause: id, Fact: history.OpCall{Identity: "client:a" + id, Verb: r.verb, Resource: "pods", Key: "default/web"}})
		if r.code != 0 {
			all = append(all, history.Event{Began: r.to, Ended: r.to, Cause: id, Fact: history.OpReturn{Code: r.code, Revision: r.revision, BodyRevision: r.meant}})
		}
	}
	return all
}

// TestLinearizable has porcupine judge histories made by hand.
func TestLinearizable(t *testing.T) {
	create := request{1, 2, "create", 201, 1, ""}
	for what, c := range map[string]struct {
		requests []request
		broken   bool
	}{
		"a life":                         {[]request{create, {3, 4, "update", 200, 2, "1"}, {5, 6, "delete", 200, 3, ""}, {7, 8, "delete", 200, 3, ""}, {9, 10, "delete", 404, 0, ""}}, false},
		"a conflict":                     {[]request{create, {3, 6, "update", 200, 2, "1"}, {3, 7, "update", 409, 0, "1"}}, false},
		"a lost update":                  {[]request{create, {3, 6, "update", 200, 2, "1"}, {3, 7, "update", 200, 3, "1"}}, true},
		"a lost create":                  {[]request{create, {3, 4, "update", 404, 0, ""}}, true},
		"two creates":                    {[]request{create, {3, 4, "create", 201, 2, ""}}, true},
		"a create that is refused":       {[]request{create, {3, 4, "create", 409, 0, ""}}, false},
		"a create refused for none":      {[]request{{1, 2, "delete", 404, 0, ""}, {3, 4, "create", 409, 0, ""}}, true},
		"an older revision":              {[]request{create, {3, 4, "patch", 200, 9, ""}, {5, 6, "patch", 200, 8, ""}}, true},
		"a conflict with nothing":        {[]request{create, {3, 4, "update", 409, 0, "1"}}, true},
		"unknown, and it happened":       {[]request{create, {3, 0, "delete", 0, 0, ""}, {5, 6, "update", 404, 0, ""}}, false},
		"unknown, and it happened later": {[]request{create, {3, 0, "update", 0, 0, ""}, {5, 6, "update", 409, 0, "1"}, {7, 8, "patch", 200, 3, ""}}, false},
		"two at once, one after":         {[]request{create, {3, 9, "patch", 200, 3, ""}, {4, 8, "patch", 200, 2, ""}}, false},
		"the second before the first":    {[]request{create, {3, 4, "patch", 200, 3, ""}, {6, 8, "patch", 200, 2, ""}}, true},
	} {
		found := guarantees.Linearizable(eventsOf(c.requests))
		if (found.Violation != "") != c.broken || len(found.Unknown) > 0 || found.Operations != len(c.requests) {
			t.Errorf("%s: %+v, want broken %v", what, found, c.broken)
		}
		if c.broken && !strings.Contains(found.Violation, "pods default/web") {
			t.Errorf("%s: %s; want the object", what, found.Violation)
		}
	}
}
