package custom

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestYAMLIsNoBomb: a resource whose aliases would fill the memory is not read (T11).
func TestYAMLIsNoBomb(t *testing.T) {
	bomb := "a: &a " + strings.Repeat("x", 10_000) + "\nb: [" + strings.Repeat("*a, ", 10_000) + "]"
	if _, err := toJSON(runtime.ContentTypeYAML, []byte(bomb)); !apierrors.IsRequestEntityTooLargeError(err) {
		t.Errorf("want a 413, have %v", err)
	}
	if converted, err := toJSON(runtime.ContentTypeYAML, []byte("a: &a x\nb: *a")); err != nil || string(converted) != `{"a":"x","b":"x"}` {
		t.Errorf("one alias: %s %v", converted, err)
	}
}
