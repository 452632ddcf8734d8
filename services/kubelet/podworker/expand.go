package podworker

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// The limits of what a container's program can be given on Linux: one string (MAX_ARG_STRLEN), and all
// of them together (ARG_MAX). A reference can be made of references, so that a few lines can stand for
// more than any machine holds: the limits are checked before anything is built.
const (
	maxExpanded    = 128 << 10
	maxEnvironment = 2 << 20
)

// tooLong is why a container cannot be made whose variable or argument is too long.
func tooLong(what string, limit int) error {
	return fmt.Errorf("%s has more than %d bytes once the variables in it are expanded", what, limit)
}

// expand replaces each $(NAME) that is known; $$ is a dollar. What is not known stays as it
// is, and what is within its brackets too: a program may know it (upstream's
// expansion.Expand). What is how an error names the text.
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
				return "", tooLong(what, maxExpanded)
			}
			out.WriteString(value)
			text = rest
		default:
			out.WriteString("$")
			text = after
		}
	}
}

// lookupIn looks names up in a finished environment.
func lookupIn(known map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		value, is := known[name]
		return value, is
	}
}

// budget is how many bytes are left of what a program can be given.
type budget int

// take takes a string with its terminator from the budget.
func (b *budget) take(what, text string) error {
	if *b -= budget(len(text) + 1); *b < 0 {
		return fmt.Errorf("%s: the environment and the command line have more than %d bytes together", what, maxEnvironment)
	}
	return nil
}

// expandAll is expand of a command line, which errors call so.
func expandAll(called string, words []string, known map[string]string, left *budget) ([]string, error) {
	if words == nil {
		return nil, nil
	}
	out := make([]string, len(words))
	for i, word := range words {
		what := fmt.Sprintf("%s[%d]", called, i)
		text, err := expand(what, word, lookupIn(known))
		if err == nil {
			err = left.take(what, text)
		}
		if err != nil {
			return nil, err
		}
		out[i] = text
	}
	return out, nil
}

// subPathsOf are the subPaths of a container's volumeMounts, in their order; a variable of
// a subPathExpr has to be known (upstream's ExpandContainerVolumeMounts).
func subPathsOf(spec *corev1.Container, known map[string]string) ([]string, error) {
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
