package client

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/fvbommel/sortorder"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/podfall/podfall/proto/kinds"
)

// sortGroups orders the objects of each group by the value at a JSONPath; those without
// one come first.
func sortGroups(groups []group, expression string) error {
	if expression == "" {
		return nil
	}
	path, err := parsePathExpression("sorting", expression)
	if err != nil {
		return err
	}
	found := false
	for _, g := range groups {
		keys := map[kinds.Object]any{}
		for _, obj := range g.objects {
			plain, err := asUnstructured(obj)
			if err != nil {
				return err
			}
			values, err := lookUpPath(path, plain.(*unstructured.Unstructured).Object) //nolint:errcheck,forcetypeassert // an object with metadata is never a list
			if err != nil {
				return err
			}
			if len(values) > 0 {
				keys[obj] = values[0]
				found = true
			}
		}
		slices.SortStableFunc(g.objects, func(a, b kinds.Object) int { return compareValues(keys[a], keys[b]) })
	}
	if !found && len(groups) > 0 {
		return fmt.Errorf("couldn't find any field with path %q in the list of objects", expression)
	}
	return nil
}

// compareValues orders numbers, quantities and text, in which numbers count as such, as
// kubectl does; nothing comes before something.
func compareValues(a, b any) int {
	if a == nil || b == nil {
		return cmp.Compare(present(a), present(b))
	}
	x, xErr := resource.ParseQuantity(fmt.Sprint(a))
	y, yErr := resource.ParseQuantity(fmt.Sprint(b))
	if xErr == nil && yErr == nil {
		return x.Cmp(y)
	}
	return compareNatural(fmt.Sprint(a), fmt.Sprint(b))
}

// compareNatural orders texts by their letters, and by the numbers in them: web-9 is before web-10.
func compareNatural(a, b string) int {
	switch {
	case a == b:
		return 0
	case sortorder.NaturalLess(a, b):
		return -1
	}
	return 1
}

func present(value any) int {
	if value == nil {
		return 0
	}
	return 1
}
