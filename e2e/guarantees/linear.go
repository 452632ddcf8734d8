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

// Linear is what the independent checker of A1 to A8 says of a history.
type Linear struct {
	// Operations is how many requests it judged, and Objects of how many objects.
	Operations, Objects int
	// Broken says of which object no order of the requests explains the answers; empty for
	// none.
	Broken string
	// Unknown are the objects of which it found out neither, in its time or because a request
	// changed many objects at once.
	Unknown []string
}

const (
	// window is how many requests to one object are judged at once: time grows fast with
	// those that overlap.
	window = 2000
	// patience is how long one window may take, on the wall.
	patience = 10 * time.Second
)

// Linearizable asks porcupine, which somebody else has written, whether each object's
// requests can have taken effect one after the other, each between its call and its answer,
// so that every answer is what the object then was. It knows nothing of commits: only what
// clients were told.
func Linearizable(events []history.Event) Linear {
	var found Linear
	byObject := requests(events)
	keys := make([]string, 0, len(byObject))
	for key := range byObject {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		found.Objects++
		all := byObject[key]
		if slices.ContainsFunc(all, func(o porcupine.Operation) bool {
			in, _ := o.Input.(asked)
			return in.many
		}) {
			found.Unknown = append(found.Unknown, key)
			continue
		}
		found.Operations += len(all)
		for part := range windows(all) {
			switch porcupine.CheckOperationsTimeout(model(), part, patience) {
			case porcupine.Illegal:
				if found.Broken == "" {
					found.Broken = key + ": " + shortest(part)
				}
			case porcupine.Unknown:
				found.Unknown = append(found.Unknown, key)
			case porcupine.Ok:
			}
		}
	}
	return found
}

// windows are the requests in parts. What was under way when a part begins may have its
// effect in it, or has had it before.
func windows(all []porcupine.Operation) iter.Seq[[]porcupine.Operation] {
	return func(yield func([]porcupine.Operation) bool) {
		for from := 0; from < len(all); from += window {
			var part []porcupine.Operation
			for _, o := range all[:from] {
				if o.Return > all[from].Call {
					o.Output, o.Return = answer{}, math.MaxInt64
					part = append(part, o)
				}
			}
			if !yield(append(part, all[from:min(from+window, len(all))]...)) {
				return
			}
		}
	}
}

// shortest is the requests up to the first that nothing explains, at most the last six.
func shortest(all []porcupine.Operation) string {
	n := 1
	for ; n < len(all) && porcupine.CheckOperationsTimeout(model(), all[:n], patience) != porcupine.Illegal; n++ {
		continue
	}
	lines := []string{"no order of these explains the answers:"}
	for _, o := range all[max(0, n-6):n] {
		lines = append(lines, described(o.Input, o.Output))
	}
	return strings.Join(lines, "\n  ")
}

// asked is a request to one object.
type asked struct {
	history.OpCall

	id string
	// many means that it changes other objects too.
	many bool
}

// answer is how it was answered; known is false when nobody knows.
type answer struct {
	history.OpReturn

	known bool
}

// requests are those to each object, by when they began. A create is of the object that it
// names; one of which nobody knows what became may be of any. Left out are those of a
// namespace that is deleted: what a delete of many did to one of them no answer tells.
func requests(events []history.Event) map[string][]porcupine.Operation {
	order := answered(events)
	clients, byObject := map[string]int{}, map[string][]porcupine.Operation{}
	for _, o := range order {
		in, _ := o.Input.(asked)
		if _, known := clients[in.Identity]; !known {
			clients[in.Identity] = len(clients)
		}
		o.ClientId = clients[in.Identity]
		if key := in.Resource + " " + in.Key; !strings.HasSuffix(key, "/") {
			byObject[key] = append(byObject[key], *o)
		}
	}
	for _, o := range order {
		in, _ := o.Input.(asked)
		out, _ := o.Output.(answer)
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

// answered are all requests that the model knows, with their answers.
func answered(events []history.Event) []*porcupine.Operation {
	byID := map[string]*porcupine.Operation{}
	var order []*porcupine.Operation
	add := func(o porcupine.Operation) *porcupine.Operation {
		order = append(order, &o)
		return &o
	}
	named := map[int64]string{} // a create may leave the name to the apiserver
	for _, e := range events {
		switch fact := e.Fact.(type) {
		case history.Commit:
			if fact.Op == "ADDED" {
				named[fact.Revision] = fact.Key
			}
		case history.OpCall:
			if byID[e.Cause] == nil && judged(fact) {
				in := asked{fact, e.Cause, fact.Verb == "deletecollection"}
				byID[e.Cause] = add(porcupine.Operation{Input: in, Output: answer{}, Call: e.Began, Return: math.MaxInt64})
			}
		case history.OpReturn:
			if o := byID[e.Cause]; o != nil && o.Return == math.MaxInt64 && fact.Code < 500 {
				o.Input, o.Output, o.Return = nameOf(o.Input, named[fact.Revision], fact), answer{fact, true}, e.Ended
			}
		case history.OpRead:
			if fact.Verb == "get" && fact.ReadOptions.Revision == "" && fact.Resource == "pods" && fact.Code < 500 {
				in := asked{OpCall: history.OpCall{Identity: fact.Identity, Verb: "get", Resource: fact.Resource, Key: fact.Key}, id: e.Cause}
				out := answer{history.OpReturn{Code: fact.Code, Revision: fact.Revision}, true}
				add(porcupine.Operation{Input: in, Output: out, Call: e.Began, Return: e.Ended})
			}
		}
	}
	slices.SortStableFunc(order, func(a, b *porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	return order
}

// nameOf is a request with the name that a create has left to the apiserver.
func nameOf(input any, named string, answered history.OpReturn) asked {
	in, _ := input.(asked)
	if strings.HasSuffix(in.Key, "/") {
		in.Key = cmp.Or(named, in.Key+answered.BodyName)
	}
	return in
}

// judged reports whether the model knows the request: those to pods, each by its name.
func judged(call history.OpCall) bool {
	return call.Resource == "pods" && !call.DryRun && (call.Subresource == "" || call.Subresource == "status" || call.Subresource == "binding" || call.Subresource == "eviction")
}

// object is a pod as the model has it: not there, or there at a revision, which is 0 when it
// is not known.
type object struct {
	there    bool
	revision int64
	// going means that it has been marked, so that it may be removed by whatever comes next.
	going bool
}

func model() porcupine.Model {
	nondeterministic := porcupine.NondeterministicModel{
		// What was there before the history began is not known.
		Init: func() []any { return []any{object{}, object{there: true}, object{there: true, going: true}} },
		Step: func(state, input, output any) []any {
			was, _ := state.(object)
			in, _ := input.(asked)
			out, _ := output.(answer)
			var next []any
			for _, o := range step(was, in, out) {
				next = append(next, o)
			}
			return next
		},
		Hash: func(state any) uint64 {
			o, _ := state.(object)
			sum := uint64(o.revision) << 2 //nolint:gosec // a hash
			if o.there {
				sum |= 1
			}
			if o.going {
				sum |= 2
			}
			return sum
		},
		DescribeOperation: described,
	}
	return nondeterministic.ToModel()
}

// step is what a pod may be after a request, when it was answered so.
func step(was object, in asked, out answer) []object {
	if !out.known { // it has been carried out, or will be, or never is
		return append(effects(was, in, answer{}), was)
	}
	switch code := out.Code; {
	case code >= 200 && code < 300:
		return effects(was, in, out)
	case code == 404:
		return only(!was.there, was)
	case code == 409 && in.Verb == "create" && in.Subresource == "":
		return only(was.there, was)
	case code == 409 && out.BodyUID == "" && in.PreUID == "" && meant(in, out) != 0 && in.Subresource == "":
		return only(!was.there || was.revision != meant(in, out), was)
	}
	return []object{was} // refused for another reason, and unchanged
}

// only is the state, if it can be so.
func only(can bool, state object) []object { //nolint:revive // what is known, and no switch
	if can {
		return []object{state}
	}
	return nil
}

// meant is the revision that a request names; 0 for none.
func meant(in asked, out answer) int64 {
	n, _ := strconv.ParseInt(cmp.Or(in.PreRevision, out.BodyRevision), 10, 64)
	return n
}

// effects are what a pod may be after a request was carried out, and returned a revision; 0
// when that is not known.
func effects(was object, in asked, out answer) []object {
	revision := out.Revision
	now := object{there: true, revision: revision, going: was.going}
	newer := revision == 0 || was.revision == 0 || revision > was.revision
	same := revision == 0 || was.revision == 0 || revision == was.revision
	switch {
	case in.Verb == "get":
		return only(was.there && same, object{there: true, revision: max(revision, was.revision), going: was.going})
	case in.Verb == "create" && in.Subresource == "":
		return only(!was.there, object{there: true, revision: revision})
	case in.Verb == "patch" && !was.there: // an apply makes what is not there
		return only(meant(in, out) == 0, object{there: true, revision: revision})
	case !was.there || meant(in, out) != 0 && was.revision != 0 && was.revision != meant(in, out):
		return nil
	case in.Verb == "delete" || in.Subresource == "eviction":
		now.going = true
		if in.Subresource == "eviction" || revision == 0 || !newer && !same {
			now.revision = 0 // what is returned is no pod, or the pod as it was before
		}
		return []object{now, {}}
	case !newer && !same:
		return nil
	case in.Subresource == "binding":
		now.revision = 0 // a Status is returned
	}
	if was.going {
		return []object{now, {}} // with the last finalizer the pod goes
	}
	return []object{now}
}

func described(input, output any) string {
	in, _ := input.(asked)
	out, _ := output.(answer)
	text := fmt.Sprintf("%s %s %s", in.Identity, in.Verb, in.Key)
	if in.Subresource != "" {
		text += "/" + in.Subresource
	}
	if n := meant(in, out); n != 0 {
		text += fmt.Sprintf(" of revision %d", n)
	}
	if !out.known {
		return text + ": unknown"
	}
	return fmt.Sprintf("%s: %d, revision %d", text, out.Code, out.Revision)
}
