package client

import (
	"errors"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podfall/podfall/proto/kinds"
)

// selection is what the arguments of a command name: kinds, or objects.
type selection struct {
	// kinds are set for "pods" and "po,no"; each is meant as a whole.
	kinds []kinds.Kind
	// objects are set for "pod x", "pods x y", "pod/x" and "po,no x".
	objects []object
	// combined says that objects were given as "pod/x".
	combined bool
}

// object is one object by kind and name.
type object struct {
	kind kinds.Kind
	name string
}

// errNothing is kubectl's answer to a command without arguments.
var errNothing = errors.New( //nolint:staticcheck // kubectl's text
	`You must provide one or more resources by argument or filename.
Example resource specifications include:
   '-f rsrc.yaml'
   '--filename=rsrc.json'
   '<resource> <name>'
   '<resource>'`)

// parseResources reads the arguments as kubectl does: "TYPE[,TYPE]", "TYPE NAME…",
// "TYPE,TYPE NAME…" and "TYPE/NAME…".
func parseResources(args []string, find *finder) (selection, error) {
	if len(args) == 0 {
		return selection{}, nil
	}
	types := splitTypes(args[0])
	if len(args) > 1 && len(types) > 1 {
		return parseEach(types, args[1:], find)
	}
	slashes := 0
	for _, arg := range args {
		if strings.Contains(arg, "/") {
			slashes++
		}
	}
	switch {
	case slashes == len(args):
		return parsePairs(args, find)
	case slashes > 0:
		return selection{}, errors.New("there is no need to specify a resource type as a separate argument when passing arguments in resource/name form (e.g. 'podfall get resource/<resource_name>' instead of 'podfall get resource resource/<resource_name>'")
	}
	var found selection
	for _, what := range types {
		more, err := find.all(what)
		if err != nil {
			return selection{}, err
		}
		found.kinds = append(found.kinds, more...)
	}
	if len(args) == 1 {
		return found, nil
	}
	if len(found.kinds) > 1 {
		return selection{}, errors.New("you must specify only one resource")
	}
	for _, name := range args[1:] {
		found.objects = append(found.objects, object{found.kinds[0], name})
	}
	found.kinds = nil
	return found, nil
}

// parseEach is "po,no x y": every name of every type.
func parseEach(types, names []string, find *finder) (selection, error) {
	var pairs []string
	for _, what := range types {
		for _, name := range names {
			pairs = append(pairs, what+"/"+name)
		}
	}
	return parsePairs(pairs, find)
}

func parsePairs(pairs []string, find *finder) (selection, error) {
	found := selection{combined: true}
	for _, pair := range pairs {
		what, name, _ := strings.Cut(pair, "/")
		switch {
		case strings.Contains(name, "/"):
			return selection{}, errors.New("arguments in resource/name form may not have more than one slash")
		case what == "" || name == "" || len(splitTypes(what)) != 1:
			return selection{}, errors.New("arguments in resource/name form must have a single resource and name")
		}
		kind, err := find.alias(what)
		if err != nil {
			return selection{}, err
		}
		found.objects = append(found.objects, object{kind, name})
	}
	return found, nil
}

// splitTypes splits "po,no", each type once.
func splitTypes(arg string) []string {
	var types []string
	for what := range strings.SplitSeq(arg, ",") {
		if !slices.Contains(types, what) {
			types = append(types, what)
		}
	}
	return types
}

// resourceName is an object as the messages of waiting name it: "pods/web-0".
func resourceName(kind kinds.Kind, name string) string {
	return kind.GroupResource().String() + "/" + name
}

// known is a kind that every build of podfall serves.
func known(gvk schema.GroupVersionKind) kinds.Kind {
	kind, _ := kinds.ByGVK(gvk)
	return kind
}

func podKind() kinds.Kind { return known(corev1.SchemeGroupVersion.WithKind("Pod")) }
