package podworker

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// expand replaces each $(NAME) that is known; $$ is a dollar. What is not known stays as it
// is, and what is within its brackets too: a program may know it (upstream's
// expansion.Expand).
func expand(text string, lookup func(string) (string, bool)) string {
	if !strings.Contains(text, "$") {
		return text
	}
	var out strings.Builder
	for {
		before, after, found := strings.Cut(text, "$")
		out.WriteString(before)
		if !found {
			return out.String()
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

// expandAll is expand of a command line.
func expandAll(words []string, known map[string]string) []string {
	if words == nil {
		return nil
	}
	out := make([]string, len(words))
	for i, word := range words {
		out[i] = expand(word, lookupIn(known))
	}
	return out
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
		var missing *string
		paths[i] = expand(mount.SubPathExpr, func(name string) (string, bool) {
			value, is := known[name]
			if !is {
				missing = &name
			}
			return value, is
		})
		if missing != nil {
			return nil, fmt.Errorf("missing value for %q", *missing)
		}
	}
	return paths, nil
}
