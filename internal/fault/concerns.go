package fault

import "slices"

// Concerns reports whether a fault is about what comes by the point, whether it strikes or
// not. It counts nothing.
func (t *Table) Concerns(point Point, about About) bool {
	if t == nil {
		return false
	}
	about.Process = t.cfg.Process
	if about.Node == "" {
		about.Node = t.cfg.Node
	}
	p := passage{point, about, t.cfg.Clock.Steady()}
	return slices.ContainsFunc(t.Faults(), func(f Fault) bool { return !f.Over(p.now) && f.selects(p) })
}

// Values are what all faults of the kind [Value] that strike what comes by read there.
func (t *Table) Values(point Point, about About) []string {
	var values []string
	for _, f := range t.strike(point, about, Value) {
		values = append(values, f.Spec.Effect.Value)
	}
	return values
}

// Concerns reports whether the spec is about what comes by the point.
func (s Spec) Concerns(point Point, about About) bool {
	return Fault{Spec: s}.selects(passage{point: point, about: about})
}
