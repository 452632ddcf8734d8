package custom_test

import (
	"errors"
	"net/http"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/services/apiserver/registry"
)

// FuzzDecode: a custom resource that is read has been pruned and has its defaults, so that it
// is read again as it is, without a warning; what is refused is the sender's fault.
func FuzzDecode(f *testing.F) {
	catalog := catalogOf(f, definition(f))
	kind := cronKind(f, catalog)
	f.Fuzz(func(t *testing.T, contentType string, body []byte, validation uint8) {
		said := []registry.FieldValidation{"", metav1.FieldValidationIgnore, metav1.FieldValidationWarn, metav1.FieldValidationStrict}[validation%4]
		obj, warnings, err := catalog.Decode(kind, contentType, body, said)
		if err != nil {
			var status apierrors.APIStatus
			if !errors.As(err, &status) || status.Status().Code < http.StatusBadRequest || status.Status().Code >= http.StatusInternalServerError {
				t.Errorf("%q: %v", body, err)
			}
			return
		}
		if len(warnings) > 0 && (said == metav1.FieldValidationIgnore || said == metav1.FieldValidationStrict) {
			t.Errorf("%q: warnings %q", body, warnings)
		}
		first := encode(t, obj)
		again, warnings, err := catalog.Decode(kind, "application/json", first, metav1.FieldValidationStrict)
		if err != nil || len(warnings) > 0 {
			t.Fatalf("read %q as %s, which cannot be read: %v, %q", body, first, err, warnings)
		}
		if second := encode(t, again); string(second) != string(first) {
			t.Errorf("read %q as %s, and that as %s", body, first, second)
		}
		if gvk := obj.GetObjectKind().GroupVersionKind(); gvk != kind.GroupVersionKind {
			t.Errorf("%q is a %s", body, gvk)
		}
		strategy, _ := catalog.Strategy(kind)
		err = registry.BeforeCreate(strategy, kind, obj, now(), "u-1")
		if err != nil && !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) {
			t.Errorf("%s: %v", first, err)
		}
	})
}
