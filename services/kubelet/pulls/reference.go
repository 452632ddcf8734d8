package pulls

import (
	"fmt"
	"regexp"
	"strings"
)

// The grammar of an image's name: a registry and a path of lower-case words, then perhaps
// a tag, then perhaps a digest.
var (
	domainPattern = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*(:[0-9]+)?$`)
	pathPattern   = regexp.MustCompile(`^[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*$`)
	tagPattern    = regexp.MustCompile(`^\w[\w.-]{0,127}$`)
	digestPattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]*([-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9A-Fa-f]{32,}$`)
)

// maxName is the longest registry and path together.
const maxName = 255

// withDefaultTag returns the image's name with its default tag, or an error in upstream's words if
// the name is invalid.
func withDefaultTag(image string) (string, error) {
	fail := func(what string) (string, error) {
		return "", fmt.Errorf("couldn't parse image name %q: %s", image, what)
	}
	rest, digest, digested := strings.Cut(image, "@")
	name, tag := rest, ""
	if colon := strings.LastIndexByte(rest, ':'); colon > strings.LastIndexByte(rest, '/') {
		name, tag = rest[:colon], rest[colon+1:]
		if !tagPattern.MatchString(tag) {
			return fail("invalid reference format")
		}
	}
	path := name
	if domain, after, found := strings.Cut(name, "/"); found && isDomain(domain) {
		if !domainPattern.MatchString(domain) {
			return fail("invalid reference format")
		}
		path = after
	}
	switch {
	case !pathPattern.MatchString(path) && pathPattern.MatchString(strings.ToLower(path)):
		return fail("invalid reference format: repository name (" + path + ") must be lowercase")
	case !pathPattern.MatchString(path), digested && !digestPattern.MatchString(digest):
		return fail("invalid reference format")
	case len(name) > maxName:
		return fail(fmt.Sprintf("repository name must not be more than %d characters", maxName))
	case tag == "" && !digested:
		return image + ":latest", nil
	}
	return image, nil
}

// isDomain reports whether the first word of a name is a registry, not a part of the path.
func isDomain(word string) bool {
	return strings.ContainsAny(word, ".:") || word == "localhost" || strings.ToLower(word) != word
}
