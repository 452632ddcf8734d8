package guarantees

import (
	"cmp"
	"strings"
)

// object is what a resource and a key name, in all its incarnations.
type object struct {
	// namespace is empty for none.
	namespace, name string
	versions        []*commit
}

// reference is a resource and a key.
type reference struct{ resource, key string }

// splitKey is the namespace, empty for none, and the name.
func splitKey(key string) (namespace, name string) {
	namespace, name, found := strings.Cut(key, "/")
	if !found {
		return "", namespace
	}
	return namespace, name
}

// object is the one that a resource and a key name.
func (p *past) object(of reference) *object {
	one := p.objects[of]
	if one == nil {
		one = &object{}
		one.namespace, one.name = splitKey(of.key)
		p.objects[of] = one
	}
	return one
}

// versions are the commits of an object.
func (p *past) versions(resource, key string) []*commit {
	if one := p.objects[reference{resource, key}]; one != nil {
		return one.versions
	}
	return nil
}

// compare has objects be in the order of namespaces and names.
func (o *object) compare(namespace, name string) int {
	return cmp.Or(strings.Compare(o.namespace, namespace), strings.Compare(o.name, name))
}
