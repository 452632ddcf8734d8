package sim

import (
	"errors"
	"testing"

	"github.com/podfall/podfall/internal/history"
)

// TestProperly has requests refused that are the cluster's mistakes, and such that are not.
func TestProperly(t *testing.T) {
	update := history.OpCall{Identity: "controllers", Verb: "update", Resource: "jobs.batch", Key: "default/task", Subresource: "status"}
	by := func(who, verb string) history.OpCall {
		call := update
		call.Identity, call.Verb = who, verb
		return call
	}
	once, gone, again := []string{"ADDED"}, []string{"ADDED", "DELETED"}, []string{"ADDED", "DELETED", "ADDED"}
	asked := history.WebhookCall{Hook: "deny/pods"}
	for _, c := range []struct {
		name     string
		past     []string
		call     history.OpCall
		between  history.Fact
		code     int32
		improper bool
	}{
		{"carried out", once, update, nil, 200, false},
		{"refused for its version", once, update, nil, 409, false},
		{"refused as invalid", once, update, nil, 422, true},
		{"a kubelet's", once, by("node:node-1", "update"), nil, 422, true},
		{"a user's", once, by("client:admin", "update"), nil, 422, false},
		{"of the pod before", again, by("controllers", "patch"), nil, 422, false},
		{"of one that has gone, and was made again for all that the log has lost", gone, by("controllers", "patch"), nil, 422, false},
		{"of the only one", once, by("controllers", "patch"), nil, 422, true},
		{"an update of one made again", again, update, nil, 422, true},
		{"refused by a webhook", once, update, asked, 422, false},
	} {
		facts := []history.Fact{c.call, c.between, history.OpReturn{Code: c.code}, by("controllers", "create"), history.OpReturn{Code: 201}}
		var log []history.Event
		for _, op := range c.past {
			log = append(log, history.Event{Cause: "before", Fact: history.Commit{Resource: update.Resource, Key: update.Key, Op: op}})
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
