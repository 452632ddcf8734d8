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

// errInvalidSpec is the cause of a spec that cannot be read.
var errInvalidSpec = errors.New("spec")

// adapter reads and changes the part of the fault state for one kind.
type adapter interface {
	// entries are the fault state's entries of the kind.
	entries(state mgmt.FaultState) []Entry
	// place returns the change that adds an object with a spec; it may replace an entry of the same
	// name.
	place(spec []byte, object Object, replaces bool) (mgmt.Change, error)
	// remove returns the change that removes entries by name.
	remove(names []string) mgmt.Change
}

// stateAdapter adapts the list of one type in the fault state.
type stateAdapter[T any] struct {
	list  func(mgmt.FaultState) []T
	entry func(T) Entry
	// add returns a change that adds an object, once the spec is decoded into the returned value.
	add func(object Object, replaces bool) (change mgmt.Change, spec any)
	end func(these *mgmt.Selection) mgmt.Change
}

// newFaultAdapter adapts the Faults.
func newFaultAdapter() adapter {
	return stateAdapter[fault.Fault]{
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

// newCutAdapter adapts the Partitions.
func newCutAdapter() adapter {
	return stateAdapter[partition.Cut]{
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

func (s stateAdapter[T]) entries(state mgmt.FaultState) []Entry {
	all := s.list(state)
	entries := make([]Entry, 0, len(all))
	for _, one := range all {
		entries = append(entries, s.entry(one))
	}
	return entries
}

func (s stateAdapter[T]) place(spec []byte, object Object, replaces bool) (mgmt.Change, error) {
	change, into := s.add(object, replaces)
	return change, decodeSpec(spec, into)
}

func (s stateAdapter[T]) remove(names []string) mgmt.Change {
	return s.end(&mgmt.Selection{Names: names})
}

func decodeSpec(spec []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(spec))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return fmt.Errorf("%w: %w", errInvalidSpec, err)
	}
	return nil
}
