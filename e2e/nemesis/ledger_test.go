package nemesis

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/podfall/podfall/internal/history"
)

// Answer is one response to a client: the object after the request.
type Answer struct {
	// Client numbers the client. Verb and Key (namespace/name) describe the request.
	Client    int
	Verb, Key string
	// UID and Revision are the object's; Revision is 0 if the response has none.
	UID      string
	Revision int64
	// Called and Returned are the client's clock before and after.
	Called, Returned time.Time
}

// Ledger records responses to clients. It is safe for concurrent use.
type Ledger struct {
	mu      sync.Mutex
	answers []Answer
	failed  map[string]int
}

// Add adds an answer.
func (l *Ledger) Add(a Answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answers = append(l.answers, a)
}

// CountFailure counts a request that was refused, or has an unknown outcome.
func (l *Ledger) CountFailure(verb string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed == nil {
		l.failed = map[string]int{}
	}
	l.failed[verb]++
}

// Counts returns the numbers of answered and of failed requests of each verb.
func (l *Ledger) Counts() (answered, failed map[string]int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	answered, failed = map[string]int{}, map[string]int{}
	for _, a := range l.answers {
		answered[a.Verb]++
	}
	maps.Copy(failed, l.failed)
	return answered, failed
}

// Errors of Ledger.Check.
var (
	ErrLost  = errors.New("A1: a client was told of a write that no commit is of")
	ErrOrder = errors.New("A4: a write that began after another was answered has a lower revision")
)

// Check compares the ledger with commits from any source. It covers what clients saw, whatever the
// apiserver has recorded.
func (l *Ledger) Check(commits []history.Commit) error {
	type version struct {
		uid      string
		revision int64
	}
	there := map[version]bool{}
	for _, c := range commits {
		there[version{c.UID, c.Revision}] = true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.answers {
		if a.Revision > 0 && !there[version{a.UID, a.Revision}] {
			return fmt.Errorf("%w: client %d, %s %s, uid %s, revision %d", ErrLost, a.Client, a.Verb, a.Key, a.UID, a.Revision)
		}
	}
	return checkOrder(l.answers)
}

// checkOrder checks the creates only, because other verbs may return an object that is older than
// the request.
func checkOrder(answers []Answer) error {
	creates := slices.DeleteFunc(slices.Clone(answers), func(a Answer) bool { return a.Verb != "create" || a.Revision == 0 })
	byCall := slices.SortedFunc(slices.Values(creates), func(a, b Answer) int { return a.Called.Compare(b.Called) })
	byReturn := slices.SortedFunc(slices.Values(creates), func(a, b Answer) int { return a.Returned.Compare(b.Returned) })
	var newest Answer
	for _, a := range byCall {
		for len(byReturn) > 0 && byReturn[0].Returned.Before(a.Called) {
			if byReturn[0].Revision > newest.Revision {
				newest = byReturn[0]
			}
			byReturn = byReturn[1:]
		}
		if a.Revision < newest.Revision {
			return fmt.Errorf("%w: %s has %d, and %s had been answered with %d", ErrOrder, a.Key, a.Revision, newest.Key, newest.Revision)
		}
	}
	return nil
}

// InForce returns the steps that took effect according to the histories: a fault that was hit, a
// cut, a change of the clock, or a process that was down or paused.
func InForce(steps []Step, events []history.Event) []Step {
	began, struck := map[string]bool{}, map[string]bool{}
	for _, e := range events {
		switch fact := e.Fact.(type) {
		case history.FaultBegin:
			began[fact.What] = true
		case history.FaultTrigger:
			struck[fact.Fault] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(steps), func(s Step) bool {
		switch verb := s.Begin[0][0]; {
		case s.NeedsHit:
			return !struck[s.Name]
		case verb == "clock":
			return !began["clock"]
		case verb == "crash", verb == "pause", verb == terminate:
			return !began[s.Begin[0][1]]
		default:
			return !began[s.Name]
		}
	})
}
