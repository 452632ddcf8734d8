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
type Board struct {
	// Epoch names the run of the keeper. Revision counts the changes in that run.
	Epoch    string `json:"epoch"`
	Revision uint64 `json:"revision"`
	// Clock is the cluster's clock schedule. It is never empty once the keeper holds the state.
	Clock clock.Schedule `json:"clock"`
	// Members are all members that a cut can affect.
	Parties []string        `json:"parties"`
	Faults  []fault.Fault   `json:"faults,omitempty"`
	Cuts    []partition.Cut `json:"cuts,omitempty"`
}

// Instant is one instant, on both clocks.
type Moment struct{ Wall, Cluster time.Time }

// Change is a requested change of the fault state. Exactly one field is set.
type Change struct {
	AddFault    *AddFault  `json:"addFault,omitempty"`
	ClearFaults *Selection `json:"clearFaults,omitempty"`
	Cut         *AddCut    `json:"cut,omitempty"`
	Heal        *Selection `json:"heal,omitempty"`
	MoveClock   *MoveClock `json:"moveClock,omitempty"`
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
	Parties []string `json:"parties,omitempty"`
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
func (b Board) Apply(change Change, at Moment) (Board, error) {
	next := b.Expired(at)
	var err error
	switch {
	case change.AddFault != nil:
		err = next.addFault(*change.AddFault, at)
	case change.ClearFaults != nil:
		next.Faults, err = without(next.Faults, change.ClearFaults.faults())
	case change.Cut != nil:
		err = next.addCut(*change.Cut, at)
	case change.Heal != nil:
		next.Cuts, err = without(next.Cuts, change.Heal.cuts(next.Parties))
	case change.MoveClock != nil:
		next.Clock, err = change.MoveClock.apply(next.Clock, at.Wall.Add(Lead))
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

func (b *Board) addFault(add AddFault, at Moment) error {
	made, err := fault.New(add.Name, add.Spec, at.Cluster)
	if err != nil {
		return err
	}
	made.Owner = add.Owner
	i := slices.IndexFunc(b.Faults, func(f fault.Fault) bool { return f.Name == add.Name })
	if i >= 0 && !add.Replace {
		return fmt.Errorf("fault %q %w", add.Name, ErrExists)
	}
	b.Faults = placed(b.Faults, i, made)
	return b.fits()
}

func (b *Board) addCut(add AddCut, at Moment) error {
	made, err := partition.New(add.Name, add.Spec, b.Parties, at.Cluster)
	if err != nil {
		return err
	}
	made.Owner = add.Owner
	if add.Holder != "" {
		made.Lease = &partition.Lease{Holder: add.Holder, Expires: at.Wall.Add(Term)}
	}
	i := slices.IndexFunc(b.Cuts, func(c partition.Cut) bool { return c.Name == add.Name })
	if i >= 0 && !add.Replace {
		return fmt.Errorf("cut %q %w", add.Name, ErrExists)
	}
	b.Cuts = placed(b.Cuts, i, made)
	return b.fits()
}

// maxStateSize is the maximum size of the state in bytes. The state is published as one message,
// and the hub carries messages up to 8 MiB.
const largest = 1 << 20

// checkSize returns an error if the state is too large.
func (b *Board) fits() error {
	data, err := json.Marshal(b)
	if err != nil {
		return err
	}
	if len(data) > largest {
		return fmt.Errorf("the fault state would have %d bytes, want at most %d: clear faults or heal cuts first", len(data), largest)
	}
	return nil
}

// replaceOrAppend replaces element i, or appends if i is negative.
func placed[T any](all []T, i int, one T) []T {
	if i < 0 {
		return append(all, one)
	}
	all[i] = one
	return all
}

func (b *Board) renew(name string, at Moment) error {
	i := slices.IndexFunc(b.Cuts, func(c partition.Cut) bool { return c.Name == name })
	if i < 0 || b.Cuts[i].Lease == nil {
		return fmt.Errorf("lease of cut %q %w", name, ErrNotFound)
	}
	b.Cuts[i].Lease = &partition.Lease{Holder: b.Cuts[i].Lease.Holder, Expires: at.Wall.Add(Term)}
	return nil
}

// selector selects elements of a list.
type choice[T any] struct {
	// missing is the error text if nothing matches; empty for a selector that may match nothing.
	what string
	is   func(T) bool
}

// removeSelected returns the list without the selected elements.
func without[T any](all []T, choices []choice[T]) ([]T, error) {
	var missing []string
	for _, one := range choices {
		if one.what != "" && !slices.ContainsFunc(all, one.is) {
			missing = append(missing, one.what)
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("%s %w", strings.Join(missing, ", "), ErrNotFound)
	}
	return slices.DeleteFunc(all, func(candidate T) bool {
		return slices.ContainsFunc(choices, func(one choice[T]) bool { return one.is(candidate) })
	}), nil
}

func (s Selection) faults() []choice[fault.Fault] {
	var choices []choice[fault.Fault]
	if s.All {
		choices = append(choices, choice[fault.Fault]{is: func(fault.Fault) bool { return true }})
	}
	for _, name := range s.Names {
		choices = append(choices, choice[fault.Fault]{fmt.Sprintf("fault %q", name), func(f fault.Fault) bool { return f.Name == name }})
	}
	return choices
}

func (s Selection) cuts(parties []string) []choice[partition.Cut] {
	var choices []choice[partition.Cut]
	if s.All {
		choices = append(choices, choice[partition.Cut]{is: func(partition.Cut) bool { return true }})
	}
	for _, name := range s.Names {
		choices = append(choices, choice[partition.Cut]{fmt.Sprintf("cut %q", name), func(c partition.Cut) bool { return c.Name == name }})
	}
	for _, party := range s.Parties {
		choices = append(choices, choice[partition.Cut]{fmt.Sprintf("cut of %q", party), func(c partition.Cut) bool {
			return slices.Contains(c.Spec.CutOff(parties), party)
		}})
	}
	return choices
}

// WithoutExpired returns the state without what has expired. Its slices are copies.
func (b Board) Expired(at Moment) Board {
	next := b
	next.Faults = slices.DeleteFunc(slices.Clone(b.Faults), func(f fault.Fault) bool { return f.Expired(at.Cluster) })
	next.Cuts = slices.DeleteFunc(slices.Clone(b.Cuts), func(c partition.Cut) bool { return c.Expired(at.Wall, at.Cluster) })
	if len(next.Faults) != len(b.Faults) || len(next.Cuts) != len(b.Cuts) {
		next.Revision++
	}
	return next
}

// NextExpiry returns when the first fault or cut expires, on each clock; zero for never.
func (b Board) Ends() Moment {
	var ends Moment
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
func (b Board) AllFaults() []fault.Fault {
	all := slices.Clone(b.Faults)
	for _, c := range b.Cuts {
		all = append(all, c.Faults(b.Parties)...)
	}
	return all
}

// IsNewerThan reports whether the state replaces old, which was read before: it is from another run
// of the keeper, or has changed since.
func (b Board) Newer(old Board) bool { return b.Epoch != old.Epoch || b.Revision > old.Revision }
