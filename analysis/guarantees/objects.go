package guarantees

import (
	"cmp"
	"strings"
)

// object holds all versions of one resource and key, over all its incarnations.
type object struct {
	// namespace is empty for cluster-scoped objects.
	namespace, name string
	versions        []*commit
}

// reference identifies an object by resource and key.
type reference struct{ resource, key string }

// splitKey returns the namespace of a key, which may be empty, and the name.
func splitKey(key string) (namespace, name string) {
	namespace, name, found := strings.Cut(key, "/")
	if !found {
		return "", namespace
	}
	return namespace, name
}

// objectOf returns the object of a reference, and adds it if it is new.
func (h *clusterHistory) objectOf(of reference) *object {
	one := h.objects[of]
	if one == nil {
		one = &object{}
		one.namespace, one.name = splitKey(of.key)
		h.objects[of] = one
	}
	return one
}

// versions returns the commits of an object.
func (h *clusterHistory) versions(resource, key string) []*commit {
	if one := h.objects[reference{resource, key}]; one != nil {
		return one.versions
	}
	return nil
}

// compare orders objects by namespace and name.
func (o *object) compare(namespace, name string) int {
	return cmp.Or(strings.Compare(o.namespace, namespace), strings.Compare(o.name, name))
}
