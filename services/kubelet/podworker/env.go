package podworker

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// environment is what a container's program is to find in its environment. What refers to
// other objects, ConfigMaps and Secrets, or to the container's resources, is left out.
func environment(pod *corev1.Pod, spec *corev1.Container, podIP string) (map[string]string, error) {
	if len(spec.Env) == 0 {
		return nil, nil
	}
	env := make(map[string]string, len(spec.Env))
	for i, variable := range spec.Env {
		value := expand(variable.Value, env)
		if from := variable.ValueFrom; from != nil {
			if from.FieldRef == nil {
				continue
			}
			var err error
			if value, err = podField(pod, from.FieldRef.FieldPath, podIP); err != nil {
				return nil, fmt.Errorf("env[%d].valueFrom.fieldRef: %w", i, err)
			}
		}
		env[variable.Name] = value
	}
	return env, nil
}

// podField is a field of the pod, of those that the downward API gives (upstream's
// fieldpath.ExtractFieldPathAsString).
func podField(pod *corev1.Pod, path, podIP string) (string, error) {
	if base, rest, subscript := strings.Cut(path, "['"); subscript {
		key, closed := strings.CutSuffix(rest, "']")
		switch {
		case closed && base == "metadata.labels":
			return pod.Labels[key], nil
		case closed && base == "metadata.annotations":
			return pod.Annotations[key], nil
		}
		return "", fmt.Errorf("fieldPath %q: want metadata.labels['<key>'] or metadata.annotations['<key>']", path)
	}
	switch path {
	case "metadata.name":
		return pod.Name, nil
	case "metadata.namespace":
		return pod.Namespace, nil
	case "metadata.uid":
		return string(pod.UID), nil
	case "spec.nodeName":
		return pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName, nil
	case "status.podIP", "status.podIPs":
		return podIP, nil
	case "status.hostIP", "status.hostIPs":
		return pod.Status.HostIP, nil
	}
	return "", fmt.Errorf("fieldPath %q is not one that an environment can have", path)
}

// expand replaces each $(NAME) that is known; $$ is a dollar (upstream's
// expansion.Expand).
func expand(text string, known map[string]string) string {
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
		value, is := known[name]
		switch {
		case strings.HasPrefix(after, "$"):
			out.WriteString("$")
			text = after[1:]
		case strings.HasPrefix(after, "(") && closed && is:
			out.WriteString(value)
			text = rest
		default: // as it is: a program may know it
			out.WriteString("$")
			text = after
		}
	}
}

// expandAll is expand of a command line.
func expandAll(words []string, known map[string]string) []string {
	if words == nil {
		return nil
	}
	out := make([]string, len(words))
	for i, word := range words {
		out[i] = expand(word, known)
	}
	return out
}
