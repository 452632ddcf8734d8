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

// Board is what is set for a whole cluster. It is a value: a change makes another.
type Board struct {
	// Epoch names the life of the keeper, and Revision counts the board's changes in it.
	Epoch    string `json:"epoch"`
	Revision uint64 `json:"revision"`
	// Clock is what the cluster's clock shows; never empty, once it is kept.
	Clock clock.Schedule `json:"clock"`
	// Parties are all that a cut can be about.
	Parties []string        `json:"parties"`
	Faults  []fault.Fault   `json:"faults,omitempty"`
	Cuts    []partition.Cut `json:"cuts,omitempty"`
}

// Moment is an instant, on both clocks.
type Moment struct{ Wall, Cluster time.Time }

// Change is what is to become of a board; one of its fields is set.
type Change struct {
	AddFault    *AddFault  `json:"addFault,omitempty"`
	ClearFaults *Selection `json:"clearFaults,omitempty"`
	Cut         *AddCut    `json:"cut,omitempty"`
	Heal        *Selection `json:"heal,omitempty"`
	MoveClock   *MoveClock `json:"moveClock,omitempty"`
	// Renew names a cut whose lease goes on for another [Term].
	Renew string `json:"renew,omitempty"`
}

// AddFault is a fault that is to begin now.
type AddFault struct {
	Name string     `json:"name"`
	Spec fault.Spec `json:"spec"`
	// Owner is the UID of the object that it stands for, if it does.
	Owner string `json:"owner,omitempty"`
	// Replace lets it take the place of another of its name.
	Replace bool `json:"replace,omitempty"`
}

// AddCut is a cut that is to begin now.
type AddCut struct {
	Name    string         `json:"name"`
	Spec    partition.Spec `json:"spec"`
	Owner   string         `json:"owner,omitempty"`
	Replace bool           `json:"replace,omitempty"`
	// Holder makes the cut a lease of [Term], which its holder renews.
	Holder string `json:"holder,omitempty"`
}

// Selection is what to end: all, or these names.
type Selection struct {
	All   bool     `json:"all,omitempty"`
	Names []string `json:"names,omitempty"`
	// Parties ends every cut that is about one of them; for cuts alone.
	Parties []string `json:"parties,omitempty"`
}

// The reasons for which a change is refused beside those that name a field.
var (
	// ErrNotFound says that a name is not on the board.
	ErrNotFound = errors.New("not found")
	// ErrExists says that a name is on the board already.
	ErrExists = errors.New("exists already")
	// ErrNoChange says that a change says nothing.
	ErrNoChange = errors.New("the change has no field set")
)

// Apply is the board after a change at a moment, and without what is over by then.
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

// largest is how many bytes a board may have. It is published whole, and the hub carries no
// message of more than 8 MiB.
const largest = 1 << 20

// fits refuses a board that holds too much.
func (b *Board) fits() error {
	data, err := json.Marshal(b)
	if err != nil {
		return err
	}
	if len(data) > largest {
		return fmt.Errorf("the board would have %d bytes, want at most %d: clear faults or heal cuts first", len(data), largest)
	}
	return nil
}

// placed puts one in the place of number i, or behind all.
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

// choice is one thing that a selection asks for.
type choice[T any] struct {
	// what is said when there is none; empty for a choice that need not be of something.
	what string
	is   func(T) bool
}

// without leaves out all that is chosen.
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

// Expired is the board without what is over at a moment; its slices are its own.
func (b Board) Expired(at Moment) Board {
	next := b
	next.Faults = slices.DeleteFunc(slices.Clone(b.Faults), func(f fault.Fault) bool { return f.Expired(at.Cluster) })
	next.Cuts = slices.DeleteFunc(slices.Clone(b.Cuts), func(c partition.Cut) bool { return c.Expired(at.Wall, at.Cluster) })
	if len(next.Faults) != len(b.Faults) || len(next.Cuts) != len(b.Cuts) {
		next.Revision++
	}
	return next
}

// Ends is when the first thing on the board is over by itself, on each clock; zero for
// never.
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

// AllFaults are the faults, and what the cuts do to single kinds of message.
func (b Board) AllFaults() []fault.Fault {
	all := slices.Clone(b.Faults)
	for _, c := range b.Cuts {
		all = append(all, c.Faults(b.Parties)...)
	}
	return all
}

// Newer reports whether the board is to take the place of old, which was read before: it
// is of another life of its keeper, or has changed since.
func (b Board) Newer(old Board) bool { return b.Epoch != old.Epoch || b.Revision > old.Revision }
