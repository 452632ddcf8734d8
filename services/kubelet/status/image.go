package status

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// ImageID is what a runtime says of an image: its repository and a digest. The digest of an image
// that names none is made of its name, so that the same name has the same digest everywhere.
func ImageID(image string) string {
	name, digest, has := strings.Cut(image, "@")
	repository := name
	if tag := strings.LastIndexByte(name, ':'); tag > strings.LastIndexByte(name, '/') {
		repository = name[:tag]
	}
	if has {
		return qualified(repository) + "@" + digest
	}
	if repository == name {
		name += ":latest"
	}
	sum := sha256.Sum256([]byte(qualified(name)))
	return qualified(repository) + "@sha256:" + hex.EncodeToString(sum[:])
}

// qualified is a repository with its registry, which is Docker's if the name has none.
func qualified(repository string) string {
	first, _, several := strings.Cut(repository, "/")
	switch {
	case !several:
		return "docker.io/library/" + repository
	case strings.ContainsAny(first, ".:") || first == "localhost":
		return repository
	}
	return "docker.io/" + repository
}
