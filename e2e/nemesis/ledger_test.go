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

// Answer is what one client was told of one request: the object as it is after it.
type Answer struct {
	// Client numbers the client, and Verb and Key are what it asked: namespace/name.
	Client    int
	Verb, Key string
	// UID and Revision are the object's; Revision is 0 for an answer without one.
	UID      string
	Revision int64
	// Called and Returned are the client's clock before and after.
	Called, Returned time.Time
}

// Ledger is what clients were told. It is safe for concurrent use.
type Ledger struct {
	mu      sync.Mutex
	answers []Answer
	failed  map[string]int
}

// Told adds an answer.
func (l *Ledger) Told(a Answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answers = append(l.answers, a)
}

// Failed counts a request that was refused, or whose outcome is not known.
func (l *Ledger) Failed(verb string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed == nil {
		l.failed = map[string]int{}
	}
	l.failed[verb]++
}

// Counts are how many requests of each verb were answered, and how many were not.
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

// Why a ledger does not agree with what was committed.
var (
	ErrLost  = errors.New("A1: a client was told of a write that no commit is of")
	ErrOrder = errors.New("A4: a write that began after another was answered has a lower revision")
)

// Check holds the ledger against commits, from whatever source. It is about what clients saw
// themselves, whatever the apiserver has written down of them.
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
	return ordered(l.answers)
}

// ordered checks the creates: what another verb returns may be older than its request.
func ordered(answers []Answer) error {
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

// InForce are those of the steps of which the processes themselves have written down that
// they took effect: a fault that has struck, and a cut, a change of the clock or a process
// that was down or paused.
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
		case s.Strikes:
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
