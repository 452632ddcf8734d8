package client

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/jsonpath"
)

// waitKind is the form of a --for.
type waitKind int

// The forms of --for.
const (
	waitDelete waitKind = iota
	waitCreate
	waitCondition
	waitPath
)

// waitAim is what one --for asks.
type waitAim struct {
	kind waitKind
	// name is a condition's.
	name string
	// value is the condition's status, or the text at the path; an empty one at a
	// path is any.
	value string
	path  *jsonpath.JSONPath
}

func parseWaitAims(asked []string) ([]waitAim, error) {
	var aims []waitAim
	for _, text := range asked {
		a, err := parseWaitAim(text)
		if err != nil {
			return nil, err
		}
		aims = append(aims, a)
	}
	if len(aims) == 0 {
		return nil, fmt.Errorf("unrecognized condition: %q", asked)
	}
	return aims, nil
}

func parseWaitAim(text string) (waitAim, error) {
	if condition, ok := strings.CutPrefix(text, "condition="); ok {
		name, value, given := strings.Cut(condition, "=")
		if !given {
			value = "true"
		}
		return waitAim{kind: waitCondition, name: name, value: value}, nil
	}
	if expression, ok := strings.CutPrefix(text, "jsonpath="); ok {
		return parseWaitPath(expression)
	}
	switch strings.ToLower(text) {
	case "delete":
		return waitAim{kind: waitDelete}, nil
	case "create":
		return waitAim{kind: waitCreate}, nil
	default:
		return waitAim{}, fmt.Errorf("unrecognized condition: %q", text)
	}
}

// parseWaitPath splits at the equals sign that is not part of "==".
func parseWaitPath(text string) (waitAim, error) {
	const both = "\x00"
	parts := strings.Split(strings.ReplaceAll(text, "==", both), "=")
	if len(parts) > 2 {
		return waitAim{}, errors.New("jsonpath wait format must be --for=jsonpath='{.status.readyReplicas}'=3 or --for=jsonpath='{.status.readyReplicas}'")
	}
	a := waitAim{kind: waitPath}
	if len(parts) == 2 {
		a.value = strings.Trim(strings.ReplaceAll(parts[1], both, "=="), `'"`)
		if a.value == "" {
			return waitAim{}, errors.New("jsonpath wait has to have a value after equal sign, like --for=jsonpath='{.status.readyReplicas}'=3")
		}
	}
	expression := strings.ReplaceAll(parts[0], both, "==")
	if expression == "" {
		return waitAim{}, errors.New("jsonpath expression cannot be empty")
	}
	path, err := parsePathExpression("wait", expression)
	a.path = path
	return a, err
}

// met reports whether obj is as the aim wants it.
func (a waitAim) met(obj runtime.Object) (bool, error) {
	plain, err := asUnstructured(obj)
	if err != nil {
		return false, err
	}
	object, ok := plain.(*unstructured.Unstructured)
	if !ok {
		return false, fmt.Errorf("wait: a %T is no object", obj)
	}
	if a.kind == waitPath {
		return a.pathMet(object.Object)
	}
	return a.conditionMet(object)
}

// conditionMet goes by the first condition of the name. One that was observed on an
// older generation than the object's does not count.
func (a waitAim) conditionMet(object *unstructured.Unstructured) (bool, error) {
	conditions, _, err := unstructured.NestedSlice(object.Object, "status", "conditions")
	if err != nil {
		return false, err
	}
	for _, item := range conditions {
		condition, ok := item.(map[string]any)
		if !ok {
			continue
		}
		name, _, _ := unstructured.NestedString(condition, "type")
		status, found, _ := unstructured.NestedString(condition, "status")
		if !found || !strings.EqualFold(name, a.name) {
			continue
		}
		observed, known, _ := unstructured.NestedInt64(condition, "observedGeneration")
		if !known {
			observed, known, _ = unstructured.NestedInt64(object.Object, "status", "observedGeneration")
		}
		if known && observed < object.GetGeneration() {
			return false, nil
		}
		return strings.EqualFold(status, a.value), nil
	}
	return false, nil
}

func (a waitAim) pathMet(object map[string]any) (bool, error) {
	found, err := a.path.FindResults(object)
	switch {
	case err != nil:
		return false, err
	case len(found) == 0 || len(found[0]) == 0:
		return false, nil
	case len(found) > 1:
		return false, errors.New("given jsonpath expression matches more than one list")
	case len(found[0]) > 1:
		return false, errors.New("given jsonpath expression matches more than one value")
	case a.value == "":
		return true, nil
	}
	value := found[0][0].Interface()
	switch value.(type) {
	case map[string]any, []any:
		return false, errors.New("jsonpath leads to a nested object or list which is not supported")
	}
	return strings.TrimSpace(fmt.Sprint(value)) == strings.TrimSpace(a.value), nil
}
