package pulls

import (
	"strings"
	"testing"
)

// FuzzComplete: a name that is taken has a tag or a digest, is taken as it is then, and is made
// of a registry's, a path's, a tag's and a digest's letters alone; one that is refused is
// named.
func FuzzComplete(f *testing.F) {
	f.Fuzz(func(t *testing.T, image string) {
		full, err := withDefaultTag(image)
		if err != nil {
			if !strings.Contains(err.Error(), "couldn't parse image name") {
				t.Errorf("%q: %v", image, err)
			}
			return
		}
		if again, err := withDefaultTag(full); err != nil || again != full {
			t.Errorf("%q is %q, and that is %q (%v)", image, full, again, err)
		}
		if full != image && full != image+":latest" {
			t.Errorf("%q is %q", image, full)
		}
		name, digest, digested := strings.Cut(full, "@")
		last := name[strings.LastIndexByte(name, '/')+1:]
		if !digested && !strings.Contains(last, ":") {
			t.Errorf("%q has neither a tag nor a digest", full)
		}
		if algorithm, hex, found := strings.Cut(digest, ":"); digested && (!found || algorithm == "" || len(hex) < 32) {
			t.Errorf("%q has the digest %q", full, digest)
		}
		const letters = "abcdefghijklmnopqrstuvwxyz0123456789._-/:@+ABCDEFGHIJKLMNOPQRSTUVWXYZ"
		if other := strings.Trim(full, letters); other != "" || len(full) > 2*maxName+len(digest) {
			t.Errorf("%q was taken", full)
		}
		if colon := strings.LastIndexByte(name, ':'); colon > strings.LastIndexByte(name, '/') {
			name = name[:colon]
		}
		if _, path, found := strings.Cut(name, "/"); found && strings.ToLower(path) != path {
			t.Errorf("%q has a path that is not lower-case", full)
		}
	})
}
