package client

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestExplain(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	notFound := apierrors.NewNotFound(pods, "x")
	dgps := field.Invalid(field.NewPath("metadata", "deletionGracePeriodSeconds"), 5, "field is immutable")
	spec := field.Forbidden(field.NewPath("spec"), "pod updates may not change fields")
	kind := schema.GroupKind{Kind: "Pod"}
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"ours", errors.New("no"), "error: no"},
		{"ours, said to be one", errors.New("error: no"), "error: no"},
		{"the server's", notFound, `Error from server (NotFound): pods "x" not found`},
		{"the server's, wrapped", fmt.Errorf("get: %w", notFound), `Error from server (NotFound): pods "x" not found`},
		{"without a reason", &apierrors.StatusError{ErrStatus: metav1.Status{Message: "no"}}, "Error from server: no"},
		{"not logged in", apierrors.NewUnauthorized("who"), "error: You must be logged in to the server (who)"},
		{"several", joined([]error{notFound, errors.New("no")}), "Error from server (NotFound): pods \"x\" not found\nno"},
		{"several in several", joined([]error{joined([]error{errors.New("a"), errors.New("b")}), errors.New("c")}), "a\nb\nc"},
		{"one of several", joined([]error{notFound}), `Error from server (NotFound): pods "x" not found`},
		{"invalid", apierrors.NewInvalid(kind, "x", field.ErrorList{dgps}), `The Pod "x" is invalid: metadata.deletionGracePeriodSeconds: Invalid value: 5: field is immutable`},
		{"invalid, the cause twice as servers do (API-55)", apierrors.NewInvalid(kind, "x", field.ErrorList{dgps, dgps}), `The Pod "x" is invalid: metadata.deletionGracePeriodSeconds: Invalid value: 5: field is immutable`},
		{"invalid in two ways", apierrors.NewInvalid(kind, "x", field.ErrorList{dgps, spec}), "The Pod \"x\" is invalid: \n* metadata.deletionGracePeriodSeconds: Invalid value: 5: field is immutable\n* spec: Forbidden: pod updates may not change fields"},
		{"invalid, nothing known", &apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonInvalid, Message: "why"}}, "The request is invalid: why"},
		{"too many", apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 10), "Error from server (TooManyRequests): Cannot evict pod as it would violate the pod's disruption budget."},
		{"the context's", context.DeadlineExceeded, "error: context deadline exceeded"},
	} {
		if got := Explain(c.err); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

// TestConditionMet: a condition that was seen on an older generation does not count.
func TestConditionMet(t *testing.T) {
	pod := func(generation, status, condition int64) *corev1.Pod {
		p := &corev1.Pod{}
		p.Generation, p.Status.ObservedGeneration = generation, status
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, ObservedGeneration: condition}}
		return p
	}
	for _, c := range []struct {
		name string
		pod  *corev1.Pod
		aim  string
		want bool
	}{
		{"no generation", pod(0, 0, 0), "condition=Ready", true},
		{"seen", pod(2, 2, 0), "condition=Ready", true},
		{"not seen by the status", pod(2, 1, 0), "condition=Ready", false},
		{"not seen by the condition", pod(2, 2, 1), "condition=Ready", false},
		{"another value", pod(1, 1, 1), "condition=Ready=False", false},
		{"another case", pod(1, 1, 1), "condition=rEADY=tRUE", true},
		{"another condition", pod(1, 1, 1), "condition=Initialized", false},
	} {
		aim, err := parseWaitAim(c.aim)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := aim.met(c.pod); got != c.want || err != nil {
			t.Errorf("%s: %t, %v; want %t", c.name, got, err, c.want)
		}
	}
}
