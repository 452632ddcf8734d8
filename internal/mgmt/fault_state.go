package mgmt

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/fault"
	"github.com/podfall/podfall/internal/partition"
)

// FaultState is the shared state of a cluster's faults, cuts and clock. It is a value: a change
// returns another.
type FaultState struct {
	// Epoch names the run of the keeper. Revision counts the changes in that run.
	Epoch    string `json:"epoch"`
	Revision uint64 `json:"revision"`
	// Clock is the cluster's clock schedule. It is never empty once the keeper holds the state.
	Clock clock.Schedule `json:"clock"`
	// Members are all members that a cut can affect.
	Members []string        `json:"parties"`
	Faults  []fault.Fault   `json:"faults,omitempty"`
	Cuts    []partition.Cut `json:"cuts,omitempty"`
}

// Instant is one instant, on both clocks.
type Instant struct{ Wall, Cluster time.Time }

// Change is a requested change of the fault state. Exactly one field is set.
type Change struct {
	AddFault    *AddFault    `json:"addFault,omitempty"`
	ClearFaults *Selection   `json:"clearFaults,omitempty"`
	Cut         *AddCut      `json:"cut,omitempty"`
	Heal        *Selection   `json:"heal,omitempty"`
	MoveClock   *ClockChange `json:"moveClock,omitempty"`
	// Renew names a cut whose lease is extended by another [LeaseDuration].
	Renew string `json:"renew,omitempty"`
}

// AddFault requests a fault that begins now.
type AddFault struct {
	Name string     `json:"name"`
	Spec fault.Spec `json:"spec"`
	// Owner is the UID of the API object that defines the fault, if any.
	Owner string `json:"owner,omitempty"`
	// Replace allows replacing a fault of the same name.
	Replace bool `json:"replace,omitempty"`
}

// AddCut requests a cut that begins now.
type AddCut struct {
	Name    string         `json:"name"`
	Spec    partition.Spec `json:"spec"`
	Owner   string         `json:"owner,omitempty"`
	Replace bool           `json:"replace,omitempty"`
	// Holder turns the cut into a lease of [LeaseDuration] that the holder renews.
	Holder string `json:"holder,omitempty"`
}

// Selection selects what to end: everything, or these names.
type Selection struct {
	All   bool     `json:"all,omitempty"`
	Names []string `json:"names,omitempty"`
	// Members selects every cut that affects one of them; for cuts only.
	Members []string `json:"parties,omitempty"`
}

// The errors of a change, besides those that name an invalid field.
var (
	// ErrNotFound means that the fault state has no such name.
	ErrNotFound = errors.New("not found")
	// ErrExists means that the fault state has the name already.
	ErrExists = errors.New("exists already")
	// ErrNoChange means that a change has no field set.
	ErrNoChange = errors.New("the change has no field set")
)

// Apply returns the state after a change at an instant, without what has expired by then.
func (b FaultState) Apply(change Change, at Instant) (FaultState, error) {
	next := b.WithoutExpired(at)
	var err error
	switch {
	case change.AddFault != nil:
		err = next.addFault(*change.AddFault, at)
	case change.ClearFaults != nil:
		next.Faults, err = removeSelected(next.Faults, change.ClearFaults.faultSelectors())
	case change.Cut != nil:
		err = next.addCut(*change.Cut, at)
	case change.Heal != nil:
		next.Cuts, err = removeSelected(next.Cuts, change.Heal.cutSelectors(next.Members))
	case change.MoveClock != nil:
		next.Clock, err = change.MoveClock.apply(next.Clock, at.Wall.Add(ClockChangeLead))
	case change.Renew != "":
		err = next.renew(change.Renew, at)
	default:
		err = ErrNoChange
	}
	if err != nil {
		return b, err
	}
	next.Revision = b.Revision + 1
	return next, nil
}

func (b *FaultState) addFault(add AddFault, at Instant) error {
	added, err := fault.New(add.Name, add.Spec, at.Cluster)
	if err != nil {
		return err
	}
	added.Owner = add.Owner
	i := slices.IndexFunc(b.Faults, func(f fault.Fault) bool { return f.Name == add.Name })
	if i >= 0 && !add.Replace {
		return fmt.Errorf("fault %q %w", add.Name, ErrExists)
	}
	b.Faults = replaceOrAppend(b.Faults, i, added)
	return b.checkSize()
}

func (b *FaultState) addCut(add AddCut, at Instant) error {
	added, err := partition.New(add.Name, add.Spec, b.Members, at.Cluster)
	if err != nil {
		return err
	}
	added.Owner = add.Owner
	if add.Holder != "" {
		added.Lease = &partition.Lease{Holder: add.Holder, Expires: at.Wall.Add(LeaseDuration)}
	}
	i := slices.IndexFunc(b.Cuts, func(c partition.Cut) bool { return c.Name == add.Name })
	if i >= 0 && !add.Replace {
		return fmt.Errorf("cut %q %w", add.Name, ErrExists)
	}
	b.Cuts = replaceOrAppend(b.Cuts, i, added)
	return b.checkSize()
}

// maxStateSize is the maximum size of the state in bytes. The state is published as one message,
// and the hub carries messages up to 8 MiB.
const maxStateSize = 1 << 20

// checkSize returns an error if the state is too large.
func (b *FaultState) checkSize() error {
	data, err := json.Marshal(b)
	if err != nil {
		return err
	}
	if len(data) > maxStateSize {
		return fmt.Errorf("the fault state would have %d bytes, want at most %d: clear faults or heal cuts first", len(data), maxStateSize)
	}
	return nil
}

// replaceOrAppend replaces element i, or appends if i is negative.
func replaceOrAppend[T any](all []T, i int, one T) []T {
	if i < 0 {
		return append(all, one)
	}
	all[i] = one
	return all
}

func (b *FaultState) renew(name string, at Instant) error {
	i := slices.IndexFunc(b.Cuts, func(c partition.Cut) bool { return c.Name == name })
	if i < 0 || b.Cuts[i].Lease == nil {
		return fmt.Errorf("lease of cut %q %w", name, ErrNotFound)
	}
	b.Cuts[i].Lease = &partition.Lease{Holder: b.Cuts[i].Lease.Holder, Expires: at.Wall.Add(LeaseDuration)}
	return nil
}

// selector selects elements of a list.
type selector[T any] struct {
	// missing is the error text if nothing matches; empty for a selector that may match nothing.
	missing string
	matches func(T) bool
}

// removeSelected returns the list without the selected elements.
func removeSelected[T any](all []T, selectors []selector[T]) ([]T, error) {
	var missing []string
	for _, one := range selectors {
		if one.missing != "" && !slices.ContainsFunc(all, one.matches) {
			missing = append(missing, one.missing)
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("%s %w", strings.Join(missing, ", "), ErrNotFound)
	}
	return slices.DeleteFunc(all, func(candidate T) bool {
		return slices.ContainsFunc(selectors, func(one selector[T]) bool { return one.matches(candidate) })
	}), nil
}

func (s Selection) faultSelectors() []selector[fault.Fault] {
	var selectors []selector[fault.Fault]
	if s.All {
		selectors = append(selectors, selector[fault.Fault]{matches: func(fault.Fault) bool { return true }})
	}
	for _, name := range s.Names {
		selectors = append(selectors, selector[fault.Fault]{fmt.Sprintf("fault %q", name), func(f fault.Fault) bool { return f.Name == name }})
	}
	return selectors
}

func (s Selection) cutSelectors(members []string) []selector[partition.Cut] {
	var selectors []selector[partition.Cut]
	if s.All {
		selectors = append(selectors, selector[partition.Cut]{matches: func(partition.Cut) bool { return true }})
	}
	for _, name := range s.Names {
		selectors = append(selectors, selector[partition.Cut]{fmt.Sprintf("cut %q", name), func(c partition.Cut) bool { return c.Name == name }})
	}
	for _, member := range s.Members {
		selectors = append(selectors, selector[partition.Cut]{fmt.Sprintf("cut of %q", member), func(c partition.Cut) bool {
			return slices.Contains(c.Spec.CutOff(members), member)
		}})
	}
	return selectors
}

// WithoutExpired returns the state without what has expired. Its slices are copies.
func (b FaultState) WithoutExpired(at Instant) FaultState {
	next := b
	next.Faults = slices.DeleteFunc(slices.Clone(b.Faults), func(f fault.Fault) bool { return f.Expired(at.Cluster) })
	next.Cuts = slices.DeleteFunc(slices.Clone(b.Cuts), func(c partition.Cut) bool { return c.Expired(at.Wall, at.Cluster) })
	if len(next.Faults) != len(b.Faults) || len(next.Cuts) != len(b.Cuts) {
		next.Revision++
	}
	return next
}

// NextExpiry returns when the first fault or cut expires, on each clock; zero for never.
func (b FaultState) NextExpiry() Instant {
	var ends Instant
	sooner := func(at *time.Time, end time.Time) {
		if !end.IsZero() && (at.IsZero() || end.Before(*at)) {
			*at = end
		}
	}
	for _, f := range b.Faults {
		sooner(&ends.Cluster, f.Until)
	}
	for _, c := range b.Cuts {
		sooner(&ends.Cluster, c.Until)
		if c.Lease != nil {
			sooner(&ends.Wall, c.Lease.Expires)
		}
	}
	return ends
}

// AllFaults returns the faults, and the faults that the cuts impose on single kinds of message.
func (b FaultState) AllFaults() []fault.Fault {
	all := slices.Clone(b.Faults)
	for _, c := range b.Cuts {
		all = append(all, c.Faults(b.Members)...)
	}
	return all
}

// IsNewerThan reports whether the state replaces old, which was read before: it is from another run
// of the keeper, or has changed since.
func (b FaultState) IsNewerThan(old FaultState) bool {
	return b.Epoch != old.Epoch || b.Revision > old.Revision
}
