package gateway

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/podfall/podfall/proto/kinds"
)

// TestDecodeBodyChecksKind refuses a body of another kind in each encoding.
func TestDecodeBodyChecksKind(t *testing.T) {
	kind := authorizationv1.SchemeGroupVersion.WithKind("SelfSubjectAccessReview")
	review := &authorizationv1.SelfSubjectAccessReview{}
	review.SetGroupVersionKind(kind)
	pod := &corev1.Pod{}
	pod.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	encoded := func(obj runtime.Object) []byte {
		data, err := kinds.Encode(obj)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	for name, c := range map[string]struct {
		media string
		body  []byte
		fits  bool
	}{
		"JSON":                     {mediaJSON, []byte(`{"spec":{}}`), true},
		"another kind in JSON":     {mediaJSON, []byte(`{"apiVersion":"v1","kind":"Pod"}`), false},
		"protobuf":                 {mediaProtobuf, encoded(review), true},
		"another kind in protobuf": {mediaProtobuf, encoded(pod), false},
	} {
		r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(c.body))
		r.Header.Set("Content-Type", c.media)
		obj, err := decodeBody(r, kind)
		if _, ok := obj.(*authorizationv1.SelfSubjectAccessReview); ok != c.fits || (err == nil) != c.fits {
			t.Errorf("%s: %T, %v", name, obj, err)
		}
		if !c.fits && (err == nil || !strings.Contains(err.Error(), `Pod in version "v1" cannot be handled as a SelfSubjectAccessReview`)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestYAMLAliasBomb is T11: YAML with aliases that would fill the memory is refused.
func TestYAMLAliasBomb(t *testing.T) {
	bomb := "a: &a " + strings.Repeat("x", 10_000) + "\nb: [" + strings.Repeat("*a, ", 10_000) + "]"
	request := func() *http.Request {
		r := httptest.NewRequest(http.MethodDelete, "/", strings.NewReader(bomb))
		r.Header.Set("Content-Type", mediaYAML)
		return r
	}
	if _, _, err := readObjectBody(request()); !apierrors.IsRequestEntityTooLargeError(err) {
		t.Errorf("an object: %v", err)
	}
	if _, err := readDeleteOptions(request()); !apierrors.IsRequestEntityTooLargeError(err) {
		t.Errorf("options: %v", err)
	}
}
