package status

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// ImageID returns the id that a runtime reports of an image: its repository and a digest. If the
// image names no digest, it is computed from the name, so that the same name has the same digest
// everywhere.
func ImageID(image string) string {
	name, digest, has := strings.Cut(image, "@")
	repository := name
	if tag := strings.LastIndexByte(name, ':'); tag > strings.LastIndexByte(name, '/') {
		repository = name[:tag]
	}
	if has {
		return qualifyRepository(repository) + "@" + digest
	}
	if repository == name {
		name += ":latest"
	}
	sum := sha256.Sum256([]byte(qualifyRepository(name)))
	return qualifyRepository(repository) + "@sha256:" + hex.EncodeToString(sum[:])
}

// qualifyRepository returns a repository with its registry, Docker's if the name has none.
func qualifyRepository(repository string) string {
	first, _, several := strings.Cut(repository, "/")
	switch {
	case !several:
		return "docker.io/library/" + repository
	case strings.ContainsAny(first, ".:") || first == "localhost":
		return repository
	}
	return "docker.io/" + repository
}
