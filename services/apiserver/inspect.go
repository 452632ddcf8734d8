package apiserver

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/inspect"
	"github.com/podfall/podfall/services/apiserver/verbs"
)

// refusals holds recent refusals, the last of each kind.
type refusals struct {
	began time.Time

	mu   sync.Mutex
	kept map[string]inspect.Refusal
}

// maxRefusals is how many kinds are kept; the oldest is dropped first.
const maxRefusals = 512

func (r *refusals) record(req *verbs.Request, status metav1.Status, now time.Time) {
	refused := inspect.Refusal{
		Requester: string(req.Identity), Verb: string(req.Verb), Resource: req.Kind.GroupResource().String(), Key: keyOf(req),
		Code: status.Code, Message: status.Message, First: now, Last: now, Count: 1,
	}
	if req.Subresource != "" {
		refused.Resource += "/" + req.Subresource
	}
	key := refused.Requester + " " + refused.Verb + " " + refused.Resource + " " + refused.Key + " " + strconv.Itoa(int(refused.Code))
	r.mu.Lock()
	defer r.mu.Unlock()
	if before, again := r.kept[key]; again {
		refused.First, refused.Count = before.First, before.Count+1
	} else if len(r.kept) >= maxRefusals {
		r.forgetOldest()
	}
	r.kept[key] = refused
}

func (r *refusals) forgetOldest() {
	oldest := ""
	for key, refused := range r.kept {
		if oldest == "" || refused.Last.Before(r.kept[oldest].Last) {
			oldest = key
		}
	}
	delete(r.kept, oldest)
}

// inspect returns the apiserver's telemetry.
func (s *server) inspect(context.Context) inspect.APIServer {
	telemetry := inspect.APIServer{
		Self:     inspect.Self{Process: "apiserver", Boot: s.boot, Began: s.refusals.began, Now: s.clock.Now()},
		Revision: s.api.Store.Snapshot().Revision(), Writing: s.api.Store.WaitingSince(),
	}
	s.refusals.mu.Lock()
	defer s.refusals.mu.Unlock()
	telemetry.Refused = slices.SortedFunc(maps.Values(s.refusals.kept), func(a, b inspect.Refusal) int { return a.First.Compare(b.First) })
	return telemetry
}
