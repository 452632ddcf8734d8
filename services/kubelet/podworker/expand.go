package podworker

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// The limits on Linux: one string (MAX_ARG_STRLEN), and the environment with the command line
// (ARG_MAX). References can refer to references, so that a few lines expand to more than any
// machine holds. Therefore the limits are checked before anything is built.
const (
	maxExpanded    = 128 << 10
	maxEnvironment = 2 << 20
)

// tooLongError says that a variable or argument is too long, so that the container cannot be
// created.
func tooLongError(what string, limit int) error {
	return fmt.Errorf("%s has more than %d bytes once the variables in it are expanded", what, limit)
}

// expand replaces each $(NAME) that is known; $$ becomes a dollar. An unknown reference stays as it
// is, because the program may know it (upstream's expansion.Expand). Errors call the text what.
func expand(what, text string, lookup func(string) (string, bool)) (string, error) {
	if !strings.Contains(text, "$") {
		return text, nil
	}
	var out strings.Builder
	for {
		before, after, found := strings.Cut(text, "$")
		out.WriteString(before)
		if !found {
			return out.String(), nil
		}
		name, rest, closed := strings.Cut(strings.TrimPrefix(after, "("), ")")
		switch {
		case strings.HasPrefix(after, "$"):
			out.WriteString("$")
			text = after[1:]
		case strings.HasPrefix(after, "(") && closed:
			value, is := lookup(name)
			if !is {
				value = "$(" + name + ")"
			}
			if out.Len()+len(value) > max(maxExpanded, len(text)) {
				return "", tooLongError(what, maxExpanded)
			}
			out.WriteString(value)
			text = rest
		default:
			out.WriteString("$")
			text = after
		}
	}
}

// lookupIn returns a lookup in a finished environment.
func lookupIn(known map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		value, is := known[name]
		return value, is
	}
}

// budget is the number of bytes left for a program's environment and command line.
type budget int

// spend takes a string and its terminator from the budget.
func (b *budget) spend(what, text string) error {
	if *b -= budget(len(text) + 1); *b < 0 {
		return fmt.Errorf("%s: the environment and the command line have more than %d bytes together", what, maxEnvironment)
	}
	return nil
}

// expandAll expands a command line. Errors name it by the first argument.
func expandAll(called string, words []string, known map[string]string, left *budget) ([]string, error) {
	if words == nil {
		return nil, nil
	}
	out := make([]string, len(words))
	for i, word := range words {
		what := fmt.Sprintf("%s[%d]", called, i)
		text, err := expand(what, word, lookupIn(known))
		if err == nil {
			err = left.spend(what, text)
		}
		if err != nil {
			return nil, err
		}
		out[i] = text
	}
	return out, nil
}

// expandSubPaths returns the subPaths of a container's volumeMounts, in their order. Variables in a
// subPathExpr must be known (upstream's ExpandContainerVolumeMounts).
func expandSubPaths(spec *corev1.Container, known map[string]string) ([]string, error) {
	paths := make([]string, len(spec.VolumeMounts))
	for i, mount := range spec.VolumeMounts {
		paths[i] = mount.SubPath
		if mount.SubPathExpr == "" {
			continue
		}
		var missing []string
		path, err := expand(fmt.Sprintf("subPathExpr of volume mount %q", mount.Name), mount.SubPathExpr, func(name string) (string, bool) {
			value, is := known[name]
			if value == "" {
				missing = append(missing, name)
			}
			return value, is
		})
		if err != nil {
			return nil, err
		}
		paths[i] = path
		if len(missing) > 0 {
			slices.Sort(missing)
			return nil, fmt.Errorf("missing value for %s", strings.Join(slices.Compact(missing), ", "))
		}
	}
	return paths, nil
}
