package apiserver_test

import (
	"net/http"
	"sync/atomic"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/proto"
)

// TestADeleteThatChangesNothingCallsNoWebhook deletes a pod again: that is answered before
// anybody is asked, and a delete with less grace is asked about (API-07, API-23).
func TestADeleteThatChangesNothingCallsNoWebhook(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	c := s.client("client:admin")
	var refuse atomic.Bool
	j := newHookServer(t, func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		if refuse.Load() {
			return deny("not now")
		}
		return allow()
	})
	c.create()
	c.bind()
	c.validateWith(everything(j))
	c.delete(grace(30))
	const asked = "DELETE pods p as Pod by kubernetes-admin old=true new=false"
	expectAsked(t, j, asked)
	refuse.Store(true)
	if pod := c.delete(metav1.DeleteOptions{}); *pod.DeletionGracePeriodSeconds != 30 {
		t.Errorf("grace %d, want 30", *pod.DeletionGracePeriodSeconds)
	}
	c.delete(grace(40))
	s.client(proto.Node("n2")).delete(grace(30)) // not its pod; NodeRestriction is not asked either
	expectAsked(t, j)
	if _, err := c.api.Delete(t.Context(), pods("p", ""), grace(5)); !isCode(err, http.StatusForbidden) {
		t.Errorf("a delete with less grace: %v, want 403", err)
	}
	expectAsked(t, j, asked)
}
