package fault

import "slices"

// HasMatch reports whether a fault selects an action at the point, whether or not the fault
// triggers. It counts nothing.
func (t *Table) HasMatch(point Point, attrs Attributes) bool {
	if t == nil {
		return false
	}
	attrs.Process = t.cfg.Process
	if attrs.Node == "" {
		attrs.Node = t.cfg.Node
	}
	p := occurrence{point, attrs, t.cfg.Clock.Steady()}
	return slices.ContainsFunc(t.Faults(), func(f Fault) bool { return !f.Expired(p.now) && f.matches(p) })
}

// Values returns the values of all faults of the kind [Value] that trigger.
func (t *Table) Values(point Point, attrs Attributes) []string {
	var values []string
	for _, f := range t.trigger(point, attrs, Value) {
		values = append(values, f.Spec.Effect.Value)
	}
	return values
}

// Matches reports whether the spec selects an action at the point.
func (s Spec) Matches(point Point, attrs Attributes) bool {
	return Fault{Spec: s}.matches(occurrence{point: point, attrs: attrs})
}
