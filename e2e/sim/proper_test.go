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
		made     int
		call     history.OpCall
		between  history.Fact
		code     int32
		improper bool
	}{
		{"carried out", 1, update, nil, 200, false},
		{"refused for its version", 1, update, nil, 409, false},
		{"refused as invalid", 1, update, nil, 422, true},
		{"a kubelet's", 1, by("node:node-1", "update"), nil, 422, true},
		{"a user's", 1, by("client:admin", "update"), nil, 422, false},
		{"of the pod before", 2, by("controllers", "patch"), nil, 422, false},
		{"of the only one", 1, by("controllers", "patch"), nil, 422, true},
		{"an update of one made again", 2, update, nil, 422, true},
		{"refused by a webhook", 1, update, asked, 422, false},
	} {
		facts := []history.Fact{c.call, c.between, history.OpReturn{Code: c.code}, by("controllers", "create"), history.OpReturn{Code: 201}}
		var log []history.Event
		for range c.made {
			log = append(log, history.Event{Cause: "made", Fact: history.Commit{Resource: update.Resource, Key: update.Key, Op: "ADDED"}})
		}
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
