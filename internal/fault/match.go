package fault

import "slices"

// HasMatch reports whether a fault selects an action at the point, whether or not the fault
// triggers. It counts nothing.
func (t *Table) HasMatch(point Point, about Attributes) bool {
	if t == nil {
		return false
	}
	about.Process = t.cfg.Process
	if about.Node == "" {
		about.Node = t.cfg.Node
	}
	p := occurrence{point, about, t.cfg.Clock.Steady()}
	return slices.ContainsFunc(t.Faults(), func(f Fault) bool { return !f.Expired(p.now) && f.matches(p) })
}

// Values returns the values of all faults of the kind [Value] that trigger.
func (t *Table) Values(point Point, about Attributes) []string {
	var values []string
	for _, f := range t.trigger(point, about, Value) {
		values = append(values, f.Spec.Effect.Value)
	}
	return values
}

// Matches reports whether the spec selects an action at the point.
func (s Spec) Matches(point Point, about Attributes) bool {
	return Fault{Spec: s}.matches(occurrence{point: point, about: about})
}
