package guarantees

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/podfall/podfall/internal/history"
)

// LinearResult is the result of the independent check of A1 to A8.
type LinearResult struct {
	// Operations counts the judged requests, and Objects the objects that they were about.
	Operations, Objects int
	// Violation names an object for which no order of the requests explains the answers; empty for
	// none.
	Violation string
	// Unknown holds the objects without a verdict, because the time ran out or a request changed
	// many objects at once.
	Unknown []string
}

const (
	// windowSize is how many requests to one object are judged at once: the time grows fast with
	// those that overlap.
	windowSize = 2000
	// windowTimeout is the wall-clock time that one window may take.
	windowTimeout = 10 * time.Second
)

// Linearizable asks porcupine, an independent checker, whether each object's requests are
// linearizable: whether they can have taken effect one after the other, each between its call and
// its answer, so that every answer fits. It uses only what clients were told, and no commits.
func Linearizable(events []history.Event) LinearResult {
	var found LinearResult
	byObject := requestsByPod(events)
	keys := make([]string, 0, len(byObject))
	for key := range byObject {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		found.Objects++
		all := byObject[key]
		if slices.ContainsFunc(all, func(o porcupine.Operation) bool {
			in, _ := o.Input.(podRequest)
			return in.many
		}) {
			found.Unknown = append(found.Unknown, key)
			continue
		}
		found.Operations += len(all)
		for part := range splitWindows(all) {
			switch porcupine.CheckOperationsTimeout(model(), part, windowTimeout) {
			case porcupine.Illegal:
				if found.Violation == "" {
					found.Violation = key + ": " + shortestViolation(part)
				}
			case porcupine.Unknown:
				found.Unknown = append(found.Unknown, key)
			case porcupine.Ok:
			}
		}
	}
	return found
}

// splitWindows returns the requests in parts. A request in flight when a part begins may take
// effect in it, or have done so before.
func splitWindows(all []porcupine.Operation) iter.Seq[[]porcupine.Operation] {
	return func(yield func([]porcupine.Operation) bool) {
		for from := 0; from < len(all); from += windowSize {
			var part []porcupine.Operation
			for _, o := range all[:from] {
				if o.Return > all[from].Call {
					o.Output, o.Return = podAnswer{}, math.MaxInt64
					part = append(part, o)
				}
			}
			if !yield(append(part, all[from:min(from+windowSize, len(all))]...)) {
				return
			}
		}
	}
}

// shortestViolation returns the requests up to the first that no order explains, at most the last
// six.
func shortestViolation(all []porcupine.Operation) string {
	n := 1
	for ; n < len(all) && porcupine.CheckOperationsTimeout(model(), all[:n], windowTimeout) != porcupine.Illegal; n++ {
		continue
	}
	lines := []string{"no order of these explains the answers:"}
	for _, o := range all[max(0, n-6):n] {
		lines = append(lines, describe(o.Input, o.Output))
	}
	return strings.Join(lines, "\n  ")
}

// podRequest is a request to one pod.
type podRequest struct {
	history.OpCall

	id string
	// many means that the request changes other pods too.
	many bool
}

// podAnswer is the answer to a request; known is false if the answer is unknown.
type podAnswer struct {
	history.OpReturn

	known bool
}

// requestsByPod returns the requests to each pod, by the time they began. A create belongs to the
// pod that it names. A create with an unknown result may belong to any pod. Pods of a deleted
// namespace are left out, because no answer says what a delete of many did to one.
func requestsByPod(events []history.Event) map[string][]porcupine.Operation {
	order := collectRequests(events)
	clients, byObject := map[string]int{}, map[string][]porcupine.Operation{}
	for _, o := range order {
		in, _ := o.Input.(podRequest)
		if _, known := clients[in.Identity]; !known {
			clients[in.Identity] = len(clients)
		}
		o.ClientId = clients[in.Identity]
		if key := in.Resource + " " + in.Key; !strings.HasSuffix(key, "/") {
			byObject[key] = append(byObject[key], *o)
		}
	}
	for _, o := range order {
		in, _ := o.Input.(podRequest)
		out, _ := o.Output.(podAnswer)
		for key := range byObject {
			switch {
			case !strings.HasSuffix(in.Key, "/") || !strings.HasPrefix(key, in.Resource+" "+in.Key):
			case in.many && out.known:
				delete(byObject, key)
			case !out.known:
				byObject[key] = append(byObject[key], *o)
			}
		}
	}
	return byObject
}

// collectRequests returns all requests that the model knows, with their answers.
func collectRequests(events []history.Event) []*porcupine.Operation {
	byID := map[string]*porcupine.Operation{}
	var order []*porcupine.Operation
	add := func(o porcupine.Operation) *porcupine.Operation {
		order = append(order, &o)
		return &o
	}
	named := map[int64]string{} // the apiserver may generate the name of a create
	for _, e := range events {
		switch fact := e.Fact.(type) {
		case history.Commit:
			if fact.Op == "ADDED" {
				named[fact.Revision] = fact.Key
			}
		case history.OpCall:
			if byID[e.Cause] == nil && isModelled(fact) {
				in := podRequest{fact, e.Cause, fact.Verb == "deletecollection"}
				byID[e.Cause] = add(porcupine.Operation{Input: in, Output: podAnswer{}, Call: e.Began, Return: math.MaxInt64})
			}
		case history.OpReturn:
			if o := byID[e.Cause]; o != nil && o.Return == math.MaxInt64 && fact.Code < 500 {
				o.Input, o.Output, o.Return = withGeneratedName(o.Input, named[fact.Revision], fact), podAnswer{fact, true}, e.Ended
			}
		case history.OpRead:
			if fact.Verb == "get" && fact.ReadOptions.Revision == "" && fact.Resource == "pods" && fact.Code < 500 {
				in := podRequest{OpCall: history.OpCall{Identity: fact.Identity, Verb: "get", Resource: fact.Resource, Key: fact.Key}, id: e.Cause}
				out := podAnswer{history.OpReturn{Code: fact.Code, Revision: fact.Revision}, true}
				add(porcupine.Operation{Input: in, Output: out, Call: e.Began, Return: e.Ended})
			}
		}
	}
	slices.SortStableFunc(order, func(a, b *porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	return order
}

// withGeneratedName returns a create with the name that the apiserver generated.
func withGeneratedName(input any, name string, ret history.OpReturn) podRequest {
	in, _ := input.(podRequest)
	if strings.HasSuffix(in.Key, "/") {
		in.Key = cmp.Or(name, in.Key+ret.BodyName)
	}
	return in
}

// isModelled reports whether the model knows the request: requests to pods, each by its name.
func isModelled(call history.OpCall) bool {
	return call.Resource == "pods" && !call.DryRun && (call.Subresource == "" || call.Subresource == "status" || call.Subresource == "binding" || call.Subresource == "eviction")
}

// podState is a pod in the model: absent, or present at a revision. The revision is 0 if unknown.
type podState struct {
	exists   bool
	revision int64
	// marked means that the pod is being deleted, so that any next request may remove it.
	marked bool
}

func model() porcupine.Model {
	nondeterministic := porcupine.NondeterministicModel{
		// The state before the history began is unknown.
		Init: func() []any { return []any{podState{}, podState{exists: true}, podState{exists: true, marked: true}} },
		Step: func(state, input, output any) []any {
			was, _ := state.(podState)
			in, _ := input.(podRequest)
			out, _ := output.(podAnswer)
			var next []any
			for _, o := range nextStates(was, in, out) {
				next = append(next, o)
			}
			return next
		},
		Hash: func(state any) uint64 {
			o, _ := state.(podState)
			sum := uint64(o.revision) << 2 //nolint:gosec // a hash
			if o.exists {
				sum |= 1
			}
			if o.marked {
				sum |= 2
			}
			return sum
		},
		DescribeOperation: describe,
	}
	return nondeterministic.ToModel()
}

// nextStates returns the possible states of a pod after a request with this answer.
func nextStates(was podState, in podRequest, out podAnswer) []podState {
	if !out.known { // it may have been carried out, may still be, or never will
		return append(statesAfter(was, in, podAnswer{}), was)
	}
	switch code := out.Code; {
	case code >= 200 && code < 300:
		return statesAfter(was, in, out)
	case code == 404:
		return stateIf(!was.exists, was)
	case code == 409 && in.Verb == "create" && in.Subresource == "":
		return stateIf(was.exists, was)
	case code == 409 && out.BodyUID == "" && in.PreUID == "" && meantRevision(in, out) != 0 && in.Subresource == "":
		return stateIf(!was.exists || was.revision != meantRevision(in, out), was)
	}
	return []podState{was} // refused for another reason, and unchanged
}

// stateIf returns the state if it is possible.
func stateIf(possible bool, state podState) []podState { //nolint:revive // a condition, not a switch
	if possible {
		return []podState{state}
	}
	return nil
}

// meantRevision returns the revision that a request names; 0 for none.
func meantRevision(in podRequest, out podAnswer) int64 {
	n, _ := strconv.ParseInt(cmp.Or(in.PreRevision, out.BodyRevision), 10, 64)
	return n
}

// statesAfter returns the possible states of a pod after a request was carried out and returned a
// revision, or 0 if that is unknown.
func statesAfter(was podState, in podRequest, out podAnswer) []podState {
	revision := out.Revision
	now := podState{exists: true, revision: revision, marked: was.marked}
	newer := revision == 0 || was.revision == 0 || revision > was.revision
	same := revision == 0 || was.revision == 0 || revision == was.revision
	switch {
	case in.Verb == "get":
		return stateIf(was.exists && same, podState{exists: true, revision: max(revision, was.revision), marked: was.marked})
	case in.Verb == "create" && in.Subresource == "":
		return stateIf(!was.exists, podState{exists: true, revision: revision})
	case in.Verb == "patch" && !was.exists: // an apply creates a missing object
		return stateIf(meantRevision(in, out) == 0, podState{exists: true, revision: revision})
	case !was.exists || meantRevision(in, out) != 0 && was.revision != 0 && was.revision != meantRevision(in, out):
		return nil
	case in.Verb == "delete" || in.Subresource == "eviction":
		now.marked = true
		if in.Subresource == "eviction" || revision == 0 || !newer && !same {
			now.revision = 0 // the answer has no pod, or the pod before the request
		}
		return []podState{now, {}}
	case !newer && !same:
		return nil
	case in.Subresource == "binding":
		now.revision = 0 // the answer is a Status
	}
	if was.marked {
		return []podState{now, {}} // losing its last finalizer removes the pod
	}
	return []podState{now}
}

func describe(input, output any) string {
	in, _ := input.(podRequest)
	out, _ := output.(podAnswer)
	text := fmt.Sprintf("%s %s %s", in.Identity, in.Verb, in.Key)
	if in.Subresource != "" {
		text += "/" + in.Subresource
	}
	if n := meantRevision(in, out); n != 0 {
		text += fmt.Sprintf(" of revision %d", n)
	}
	if !out.known {
		return text + ": unknown"
	}
	return fmt.Sprintf("%s: %d, revision %d", text, out.Code, out.Revision)
}
