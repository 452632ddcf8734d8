package scenario

import (
	"fmt"
	"slices"
	"strings"
)

// containsPrefix marks a wanted text that must only be contained in the actual one.
const containsPrefix = "~"

// Mismatches returns how got differs from want; nothing if it matches. A mapping matches if each
// wanted field matches. A list matches if each wanted item matches some item. Null matches an
// absent value. A text with the prefix ~ matches if the rest is contained in the actual text.
// Everything else must be equal. Both values come from JSON.
func Mismatches(want, got any) []string { return mismatches("", want, got) }

func mismatches(at string, want, got any) []string {
	switch want := want.(type) {
	case nil:
		if got == nil {
			return nil
		}
	case map[string]any:
		if fields, ok := got.(map[string]any); ok {
			return fieldMismatches(at, want, fields)
		}
	case []any:
		if items, ok := got.([]any); ok || got == nil {
			return itemMismatches(at, want, items)
		}
	case string:
		text, ok := got.(string)
		if part, partly := strings.CutPrefix(want, containsPrefix); ok && partly && strings.Contains(text, part) {
			return nil
		}
		if ok && text == want {
			return nil
		}
	default:
		if fmt.Sprint(want) == fmt.Sprint(got) { // numbers may be int64 or float64
			return nil
		}
	}
	return []string{fmt.Sprintf("%s is %s, want %s", at, formatValue(got), formatValue(want))}
}

func fieldMismatches(at string, want, got map[string]any) (wrong []string) {
	names := make([]string, 0, len(want))
	for name := range want {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		wrong = append(wrong, mismatches(strings.TrimPrefix(at+"."+name, "."), want[name], got[name])...)
	}
	return wrong
}

func itemMismatches(at string, want, got []any) (wrong []string) {
	if len(want) == 0 && len(got) > 0 {
		return []string{fmt.Sprintf("%s has %d items, want none", at, len(got))}
	}
	for i, item := range want {
		if !slices.ContainsFunc(got, func(have any) bool { return len(Mismatches(item, have)) == 0 }) {
			wrong = append(wrong, fmt.Sprintf("%s has nothing like item %d, %s, in %s", at, i, formatValue(item), formatValue(got)))
		}
	}
	return wrong
}

// formatValue formats a value for a message.
func formatValue(value any) string {
	switch value := value.(type) {
	case nil:
		return "absent"
	case string:
		return fmt.Sprintf("%q", value)
	}
	const most = 300
	text := fmt.Sprint(value)
	if len(text) > most {
		text = text[:most] + "…"
	}
	return text
}
