package sim

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/podfall/podfall/internal/history"
)

// ErrInvalidRequest means that the apiserver refused a request of the cluster's own processes as
// invalid.
var ErrInvalidRequest = errors.New("the apiserver refused as invalid what its own cluster asked for")

// checkRequests checks that controllers and kubelets send no invalid requests. A patch with the UID
// of an earlier object of that name is refused on purpose (API-64). So patches of a name are not
// judged once the name was used twice; a log that has lost a commit may show that by the removal
// alone. A request that a webhook judged may be refused with any code.
func checkRequests(log []history.Event) error {
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
				return fmt.Errorf("%w: %s %ss %s %s %s", ErrInvalidRequest, call.Identity, call.Verb, call.Resource, call.Key, call.Subresource)
			}
			delete(calls, cause)
		}
	}
	return nil
}
