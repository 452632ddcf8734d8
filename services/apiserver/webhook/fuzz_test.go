package webhook

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FuzzReadAnswer: whatever a hook answers, it is an answer to this question, which allows what
// it says that it allows and refuses with an error of the API's that names it; or it is none,
// and what is told of it is short.
func FuzzReadAnswer(f *testing.F) {
	f.Fuzz(func(t *testing.T, code uint16, mutating bool, body []byte) {
		answer, err := readReview(&http.Response{StatusCode: int(code), Body: io.NopCloser(bytes.NewReader(body))})
		if err != nil {
			if len(err.Error()) > 8*maxErrorText+len(body) || code/100 == 2 && errors.As(err, new(*apierrors.StatusError)) {
				t.Errorf("%d bytes: %.200v", len(err.Error()), err)
			}
			return
		}
		if code/100 != 2 {
			t.Errorf("%d was taken for an answer", code)
		}
		h := &Hook{Mutating: mutating}
		h.Name = "hook.example.com"
		verdict, err := h.parseResponse("u", answer)
		said := answer.Response
		if err != nil {
			if verdict.Refused != nil || verdict.Patch != nil {
				t.Errorf("%s: %+v, and %v", body, verdict, err)
			}
			return
		}
		if said.UID != "u" || answer.APIVersion != "admission.k8s.io/v1" || answer.Kind != "AdmissionReview" || said.Allowed != (verdict.Refused == nil) {
			t.Errorf("%s was taken: %+v", body, verdict)
		}
		if len(verdict.Patch) > 0 && (!mutating || said.PatchType == nil || *said.PatchType != admissionv1.PatchTypeJSONPatch) {
			t.Errorf("%s: patch %q", body, verdict.Patch)
		}
		if verdict.Refused == nil {
			return
		}
		refused, ok := errors.AsType[*apierrors.StatusError](verdict.Refused)
		if !ok || refused.ErrStatus.Code < http.StatusBadRequest || refused.ErrStatus.Code > 999 || refused.ErrStatus.Status == metav1.StatusSuccess || !strings.Contains(refused.Error(), h.Name) {
			t.Errorf("%s: refused with %#v", body, verdict.Refused)
		}
	})
}
