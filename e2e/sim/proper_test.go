package sim

import (
	"errors"
	"testing"

	"github.com/podfall/podfall/internal/history"
)

// TestProperly has requests refused that are the cluster's mistakes, and such that are not.
func TestProperly(t *testing.T) {
	update := history.OpCall{Who: "controllers", Verb: "update", Resource: "jobs.batch", Key: "default/task", Subresource: "status"}
	by := func(who, verb string) history.OpCall {
		call := update
		call.Who, call.Verb = who, verb
		return call
	}
	asked := history.Consulted{Hook: "deny/pods"}
	for _, c := range []struct {
		name     string
		call     history.OpCall
		between  history.Fact
		code     int32
		improper bool
	}{
		{"carried out", update, nil, 200, false},
		{"refused for its version", update, nil, 409, false},
		{"refused as invalid", update, nil, 422, true},
		{"a kubelet's", by("node:node-1", "update"), nil, 422, true},
		{"a user's", by("client:admin", "update"), nil, 422, false},
		{"of the pod before", by("controllers", "patch"), nil, 422, false},
		{"refused by a webhook", update, asked, 422, false},
	} {
		facts := []history.Fact{c.call, c.between, history.OpReturn{Code: c.code}, by("controllers", "create"), history.OpReturn{Code: 201}}
		var log []history.Event
		for i, fact := range facts {
			if fact != nil {
				log = append(log, history.Event{Cause: []string{"a", "a", "a", "b", "b"}[i], Fact: fact})
			}
		}
		if err := properly(log); errors.Is(err, ErrImproper) != c.improper {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
