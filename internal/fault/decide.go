package fault

import (
	"hash/fnv"
	"strconv"
	"strings"
	"time"
)

// occurrence is one action at an injection point.
type occurrence struct {
	point Point
	attrs Attributes
	now   time.Time
}

// counts are what a process remembers of one fault.
type counts struct {
	// matched counts the selected actions, and triggered those in which the fault took effect.
	matched, triggered uint64
	// nth is how often an equal action occurred before.
	nth uint64
}

// triggers reports whether the fault takes effect. It is pure: time, chance and past counts are
// parameters.
func (f Fault) triggers(p occurrence, past counts) bool {
	switch {
	case f.Expired(p.now), past.matched < f.Spec.Skip:
		return false
	case f.Spec.Count > 0 && past.triggered >= f.Spec.Count:
		return false
	case f.Spec.Probability > 0 && f.drawChance(p, past.nth) >= f.Spec.Probability:
		return false
	}
	return true
}

// Expired reports whether the fault's time has passed.
func (f Fault) Expired(now time.Time) bool { return !f.Until.IsZero() && !now.Before(f.Until) }

// matches reports whether the fault selects the action.
func (f Fault) matches(p occurrence) bool {
	return matchesPattern(string(f.Spec.Point), string(p.point)) && f.Spec.Where.matches(p.attrs)
}

// drawChance returns a number in [0, 1). It depends only on the seed, the fault, the action and how
// often the action occurred; not on what other goroutines do.
func (f Fault) drawChance(p occurrence, nth uint64) float64 {
	return Chance(f.Spec.Seed, append([]string{f.Name, string(p.point), strconv.FormatUint(nth, 10)}, p.attrs.fields()...)...)
}

// Chance returns a number in [0, 1) that the seed and the parts determine.
func Chance(seed uint64, parts ...string) float64 {
	sum := fnv.New64a()
	for _, part := range append(parts, strconv.FormatUint(seed, 10)) {
		_, _ = sum.Write([]byte(part))
		_, _ = sum.Write([]byte{0})
	}
	// FNV's high bits differ little between short texts; multiplies and shifts mix them.
	x := sum.Sum64()
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	x ^= x >> 31
	const bits = 53
	return float64(x>>(64-bits)) / (1 << bits)
}

// matches reports whether the selector a matches the attributes of an action.
func (a Attributes) matches(attrs Attributes) bool {
	of := attrs.fields()
	for i, pattern := range a.fields() {
		if pattern != "" && !matchesPattern(pattern, of[i]) {
			return false
		}
	}
	return true
}

// fields returns the values of all fields, in the order of selectors.
func (a Attributes) fields() []string {
	return []string{a.Process, a.Node, a.Namespace, a.Pod, a.Container, a.Volume, a.Image, a.Client, a.Verb, a.Resource, a.Subresource, a.Name}
}

// selectors returns the names of the fields of Attributes, in order.
func selectors() []string {
	return []string{"process", "node", "namespace", "pod", "container", "volume", "image", "client", "verb", "resource", "subresource", "name"}
}

// matchesPattern reports whether text matches one of the pattern's alternatives.
func matchesPattern(pattern, text string) bool {
	for one := range strings.SplitSeq(pattern, ",") {
		if start, ok := strings.CutSuffix(one, "*"); ok && strings.HasPrefix(text, start) || one == text {
			return true
		}
	}
	return false
}
