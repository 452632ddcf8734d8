package faults

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/fault"
	"github.com/podfall/podfall/internal/mgmt"
	"github.com/podfall/podfall/internal/partition"
)

// errSpec is the cause of a spec that cannot be read.
var errSpec = errors.New("spec")

// half is what one kind has on the board.
type half interface {
	// entries are what the board has of the kind.
	entries(board mgmt.FaultState) []Entry
	// place puts an object with a spec on the board; it may take the place of another of its name.
	place(spec []byte, object Object, replaces bool) (mgmt.Change, error)
	// remove takes names off the board.
	remove(names []string) mgmt.Change
}

// side is the half of the board that holds values of a type.
type side[T any] struct {
	list  func(mgmt.FaultState) []T
	entry func(T) Entry
	// add is a change that puts an object on the board once its spec has been read into what
	// comes with it.
	add func(object Object, replaces bool) (change mgmt.Change, spec any)
	end func(these *mgmt.Selection) mgmt.Change
}

// faultSide is the half of the Faults.
func faultSide() half {
	return side[fault.Fault]{
		list: func(b mgmt.FaultState) []fault.Fault { return b.Faults },
		entry: func(f fault.Fault) Entry {
			return Entry{Name: f.Name, Owner: types.UID(f.Owner), Since: f.Since, Until: f.Until}
		},
		add: func(o Object, replaces bool) (mgmt.Change, any) {
			add := &mgmt.AddFault{Name: o.Name, Owner: string(o.UID), Replace: replaces}
			return mgmt.Change{AddFault: add}, &add.Spec
		},
		end: func(these *mgmt.Selection) mgmt.Change { return mgmt.Change{ClearFaults: these} },
	}
}

// cutSide is the half of the Partitions.
func cutSide() half {
	return side[partition.Cut]{
		list: func(b mgmt.FaultState) []partition.Cut { return b.Cuts },
		entry: func(c partition.Cut) Entry {
			return Entry{Name: c.Name, Owner: types.UID(c.Owner), Since: c.Since, Until: c.Until}
		},
		add: func(o Object, replaces bool) (mgmt.Change, any) {
			add := &mgmt.AddCut{Name: o.Name, Owner: string(o.UID), Replace: replaces}
			return mgmt.Change{Cut: add}, &add.Spec
		},
		end: func(these *mgmt.Selection) mgmt.Change { return mgmt.Change{Heal: these} },
	}
}

func (s side[T]) entries(board mgmt.FaultState) []Entry {
	all := s.list(board)
	entries := make([]Entry, 0, len(all))
	for _, one := range all {
		entries = append(entries, s.entry(one))
	}
	return entries
}

func (s side[T]) place(spec []byte, object Object, replaces bool) (mgmt.Change, error) {
	change, into := s.add(object, replaces)
	return change, decode(spec, into)
}

func (s side[T]) remove(names []string) mgmt.Change { return s.end(&mgmt.Selection{Names: names}) }

func decode(spec []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(spec))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return fmt.Errorf("%w: %w", errSpec, err)
	}
	return nil
}
