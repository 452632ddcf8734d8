package sim

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/podfall/podfall/internal/history"
)

// ErrImproper is a request of the cluster's own processes that the apiserver has refused as it would
// refuse a user's mistake.
var ErrImproper = errors.New("the apiserver refused as invalid what its own cluster asked for")

// properly wants controllers and kubelets to ask for nothing that is invalid. A patch that names
// the uid of the object of that name before is refused so, and is meant to be (API-64); and a webhook
// that was asked may refuse with any code.
func properly(log []history.Event) error {
	type object struct{ resource, key string }
	calls, made := map[string]history.OpCall{}, map[object]int{}
	for i := range log {
		switch cause := log[i].Cause; fact := log[i].Fact.(type) {
		case history.Commit:
			if fact.Op == "ADDED" {
				made[object{fact.Resource, fact.Key}]++
			}
		case history.OpCall:
			if !strings.HasPrefix(fact.Who, "client:") {
				calls[cause] = fact
			}
		case history.Consulted:
			delete(calls, cause)
		case history.OpReturn:
			call, own := calls[cause]
			before := call.Verb == "patch" && made[object{call.Resource, call.Key}] > 1
			if own && !before && fact.Code == http.StatusUnprocessableEntity {
				return fmt.Errorf("%w: %s %ss %s %s %s", ErrImproper, call.Who, call.Verb, call.Resource, call.Key, call.Subresource)
			}
			delete(calls, cause)
		}
	}
	return nil
}
