package pulls

import (
	"strings"
	"testing"
)

func TestComplete(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("a", 64)
	for image, want := range map[string]string{
		"nginx":                   "nginx:latest",
		"nginx:1.27":              "nginx:1.27",
		"example.com:5000/a/b":    "example.com:5000/a/b:latest",
		"example.com:5000/a/b:v1": "example.com:5000/a/b:v1",
		"a/b" + digest:            "a/b" + digest,
		"a/b:v1" + digest:         "a/b:v1" + digest,
		"a__b/c-d.e":              "a__b/c-d.e:latest",
		"localhost/web":           "localhost/web:latest",
		"Registry/web":            "Registry/web:latest",
		"NGINX":                   `couldn't parse image name "NGINX": invalid reference format: repository name (NGINX) must be lowercase`,
		"example.com/Web":         `couldn't parse image name "example.com/Web": invalid reference format: repository name (Web) must be lowercase`,
		"a/b:":                    `couldn't parse image name "a/b:": invalid reference format`,
		"a//b":                    `couldn't parse image name "a//b": invalid reference format`,
		"a b":                     `couldn't parse image name "a b": invalid reference format`,
		"a@sha256:12":             `couldn't parse image name "a@sha256:12": invalid reference format`,
		"-x.com/a":                `couldn't parse image name "-x.com/a": invalid reference format`,
	} {
		got, err := withDefaultTag(image)
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("complete(%q) = %q, want %q", image, got, want)
		}
	}
	if _, err := withDefaultTag(strings.Repeat("a", 256)); err == nil || !strings.Contains(err.Error(), "must not be more than 255 characters") {
		t.Errorf("a name of 256 characters: %v", err)
	}
}
