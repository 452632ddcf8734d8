package partition

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Check returns the invalid fields of a cut, if any. The members are all members of the cluster.
func Check(name string, spec Spec, members []string) error {
	var errs field.ErrorList
	if name == "" {
		errs = append(errs, field.Required(field.NewPath("metadata", "name"), ""))
	} else {
		for _, text := range validation.IsDNS1123Subdomain(name) {
			errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), name, text))
		}
	}
	at := field.NewPath("spec")
	errs = append(errs, spec.checkMembers(at, members)...)
	errs = append(errs, spec.checkEffect(at)...)
	return append(errs, spec.checkAmounts(at)...).ToAggregate()
}

// checkMembers validates members and groups.
func (s Spec) checkMembers(at *field.Path, members []string) field.ErrorList {
	var errs field.ErrorList
	switch {
	case len(s.Members) == 0 && len(s.Groups) == 0:
		return field.ErrorList{field.Required(at.Child("parties"), "name who is cut off, or groups")}
	case len(s.Members) > 0 && len(s.Groups) > 0:
		errs = append(errs, field.Forbidden(at.Child("groups"), "must not be beside parties"))
	}
	named := map[string]bool{}
	know := func(at *field.Path, member string) {
		switch {
		case !slices.Contains(members, member):
			errs = append(errs, field.NotSupported(at, member, members))
		case named[member]:
			errs = append(errs, field.Duplicate(at, member))
		}
		named[member] = true
	}
	for i, member := range s.Members {
		know(at.Child("parties").Index(i), member)
	}
	for i, group := range s.Groups {
		if len(group) == 0 {
			errs = append(errs, field.Required(at.Child("groups").Index(i), "name at least one party"))
		}
		for j, member := range group {
			know(at.Child("groups").Index(i).Index(j), member)
		}
	}
	if len(errs) == 0 && len(s.CutOff(members)) == 0 {
		errs = append(errs, field.Invalid(at.Child("groups"), s.Groups, "everyone is in the group of the apiserver: nobody is cut off"))
	}
	return errs
}

// checkEffect validates what the cut does.
func (s Spec) checkEffect(at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if d := s.Direction; d != "" && d != Both && d != FromNode && d != ToNode {
		errs = append(errs, field.NotSupported(at.Child("direction"), d, []Direction{Both, FromNode, ToNode}))
	}
	switch m := s.Manner; {
	case m != "" && m != Hold && m != Reset && m != Carry:
		errs = append(errs, field.NotSupported(at.Child("manner"), m, []Manner{Hold, Reset, Carry}))
	case m == Reset && (s.Direction == FromNode || s.Direction == ToNode):
		errs = append(errs, field.Invalid(at.Child("direction"), s.Direction, "a connection is reset in both directions"))
	case m == Carry && !s.oneWay().IsSlow():
		errs = append(errs, field.Invalid(at.Child("manner"), m, "want a latency, a jitter or a bandwidth beside it"))
	}
	for i, message := range s.Only {
		if !slices.Contains(Messages(), message) {
			errs = append(errs, field.NotSupported(at.Child("only").Index(i), message, Messages()))
		}
	}
	if len(s.Only) == 0 {
		return errs
	}
	if s.Direction != "" || s.Manner != "" || s.Flap != (Flap{}) || (OneWay{Latency: s.Latency.Duration, Jitter: s.Jitter.Duration, Bandwidth: s.Bandwidth}).IsSlow() {
		errs = append(errs, field.Forbidden(at.Child("only"), "holds messages, each on its own way: no direction, manner, latency, jitter, bandwidth or flap beside it"))
	}
	if slices.Contains(s.CutOff([]string{APIServer}), APIServer) {
		errs = append(errs, field.Invalid(at.Child("only"), s.Only, "the apiserver is asked and does not ask: hold the messages of those who do"))
	}
	return errs
}

// checkAmounts validates durations and bandwidth.
func (s Spec) checkAmounts(at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, amount := range []struct {
		at    *field.Path
		value int64
		text  string
	}{
		{at.Child("latency"), int64(s.Latency.Duration), s.Latency.Duration.String()},
		{at.Child("jitter"), int64(s.Jitter.Duration), s.Jitter.Duration.String()},
		{at.Child("duration"), int64(s.Duration.Duration), s.Duration.Duration.String()},
	} {
		if amount.value < 0 {
			errs = append(errs, field.Invalid(amount.at, amount.text, "must not be negative"))
		}
	}
	if s.Bandwidth < 0 {
		errs = append(errs, field.Invalid(at.Child("bandwidth"), s.Bandwidth, "must not be negative"))
	}
	if s.Flap != (Flap{}) {
		for name, d := range map[string]int64{"down": int64(s.Flap.Down.Duration), "up": int64(s.Flap.Up.Duration)} {
			if d <= 0 {
				errs = append(errs, field.Invalid(at.Child("flap", name), d, "must be more than 0"))
			}
		}
	}
	return errs
}
