package fieldmanager_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/podfall/podfall/services/apiserver/fieldmanager"
)

// FuzzApply: whatever part of an object is applied, the object that there is stays as it was;
// what is refused is refused in the API's words; and who applies the same again changes
// nothing.
func FuzzApply(f *testing.F) {
	fields := fieldmanager.New(nil)
	f.Fuzz(func(t *testing.T, patch []byte, force bool, validation uint8) {
		r := newRig(t, "deployments.apps")
		r.fields = fields
		r.must(r.apply("first", deployment))
		write := fieldmanager.Write{Kind: r.kind, Manager: "second"}
		applied := fieldmanager.Patch{Data: patch, Force: force, FieldValidation: []string{"", "Ignore", "Warn", "Strict"}[validation%4]}
		before := encoded(t, r.obj)
		merged, warnings, err := r.fields.Apply(write, r.obj, applied)
		if encoded(t, r.obj) != before {
			t.Fatal("the object that there is was changed")
		}
		if err != nil {
			var status apierrors.APIStatus
			if !errors.As(err, &status) || status.Status().Code < http.StatusBadRequest || status.Status().Message == "" || len(warnings) > 0 {
				t.Errorf("%q: %v (%q)", patch, err, warnings)
			}
			return
		}
		if validation%4 == 1 && len(warnings) > 0 {
			t.Errorf("%q: warnings %q of what is not to be looked at", patch, warnings)
		}
		if merged.GetUID() != r.obj.GetUID() {
			return // another incarnation's, which the verbs refuse
		}
		r.store(merged)
		mine := 0
		for _, owner := range r.owners() {
			if strings.HasPrefix(owner, "second Apply: ") {
				mine++
			}
		}
		if mine > 1 {
			t.Errorf("%q: owned by %q", patch, r.owners())
		}
		after := encoded(t, r.obj)
		again, _, err := r.fields.Apply(write, r.obj, applied)
		if err != nil {
			t.Fatalf("%q: applied, and again: %v", patch, err)
		}
		fieldmanager.StampTimes(again, r.obj, r.now)
		if encoded(t, again) != after {
			t.Errorf("%q: applied %s, and again %s", patch, after, encoded(t, again))
		}
	})
}

func encoded(t *testing.T, value any) string {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
