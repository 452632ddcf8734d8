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
// the uid of the object of that name before is refused so, and is meant to be (API-64): once a name has
// been used twice, which a log that has lost a commit may show by its removal alone, no patch of it is judged.
// A webhook that was asked may refuse with any code.
func properly(log []history.Event) error {
	type object struct{ resource, key string }
	calls, comes := map[string]history.OpCall{}, map[object]int{}
	for i := range log {
		switch cause := log[i].Cause; fact := log[i].Fact.(type) {
		case history.Commit:
			if fact.Op == "ADDED" || fact.Op == "DELETED" {
				comes[object{fact.Resource, fact.Key}]++
			}
		case history.OpCall:
			if !strings.HasPrefix(fact.Identity, "client:") {
				calls[cause] = fact
			}
		case history.WebhookCall:
			delete(calls, cause)
		case history.OpReturn:
			call, own := calls[cause]
			before := call.Verb == "patch" && comes[object{call.Resource, call.Key}] > 1
			if own && !before && fact.Code == http.StatusUnprocessableEntity {
				return fmt.Errorf("%w: %s %ss %s %s %s", ErrImproper, call.Identity, call.Verb, call.Resource, call.Key, call.Subresource)
			}
			delete(calls, cause)
		}
	}
	return nil
}
