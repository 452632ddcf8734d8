package proto

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestErrorsCrossTheBusUnchanged(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	conflict := apierrors.NewConflict(pods, "x", errors.New("modified"))
	for name, test := range map[string]struct {
		err  error
		code int32
		is   func(error) bool
	}{
		"not found":        {apierrors.NewNotFound(pods, "x"), http.StatusNotFound, apierrors.IsNotFound},
		"wrapped conflict": {fmt.Errorf("delete pod x: %w", conflict), http.StatusConflict, apierrors.IsConflict},
		"anything else":    {errors.New("disk on fire"), http.StatusInternalServerError, apierrors.IsInternalError},
	} {
		t.Run(name, func(t *testing.T) {
			status := StatusFrom(test.err)
			if status.Code != test.code || status.Kind != "Status" || status.APIVersion != "v1" {
				t.Errorf("status = %+v, want code %d and its kind", status, test.code)
			}
			if err := ErrorFrom(status); !test.is(err) {
				t.Errorf("came back as %v", err)
			}
		})
	}
	if err := ErrorFrom(&metav1.Status{Status: metav1.StatusSuccess}); err != nil {
		t.Errorf("success came back as %v", err)
	}
	if err := ErrorFrom(nil); err != nil {
		t.Errorf("nothing came back as %v", err)
	}
}

func TestRuntimeErrorReadsAsGRPC(t *testing.T) {
	err := fmt.Errorf("stop: %w", &RuntimeError{Code: CodeDeadlineExceeded, Desc: "context deadline exceeded"})
	if want := "stop: rpc error: code = DeadlineExceeded desc = context deadline exceeded"; err.Error() != want {
		t.Errorf("text = %q, want %q", err, want)
	}
	if !IsRuntimeCode(err, CodeDeadlineExceeded) || IsRuntimeCode(err, CodeNotFound) || IsRuntimeCode(nil, CodeNotFound) {
		t.Error("IsRuntimeCode does not tell codes apart")
	}
}

func TestBootsSortByTime(t *testing.T) {
	begin := time.Unix(1_700_000_000, 0)
	older, newer := NewBoot(begin, [4]byte{0xff}), NewBoot(begin.Add(time.Nanosecond), [4]byte{})
	if !older.OlderThan(newer) || newer.OlderThan(older) || older.OlderThan(older) {
		t.Errorf("%s and %s do not sort by time", older, newer)
	}
	if same := NewBoot(begin, [4]byte{1}); same == older {
		t.Error("two boots of one instant are one")
	}
}

func TestCompatFor(t *testing.T) {
	current, err := CompatFor("")
	if err != nil || current.Release != DefaultRelease {
		t.Fatalf("CompatFor(\"\") = %+v, %v, want %s", current, err, DefaultRelease)
	}
	old, err := CompatFor("v1.22")
	if err != nil {
		t.Fatal(err)
	}
	if current.NodeMonitorGrace != 50*time.Second || old.NodeMonitorGrace != 40*time.Second {
		t.Errorf("node monitor grace = %v and %v, want 50s and 40s", current.NodeMonitorGrace, old.NodeMonitorGrace)
	}
	if current.TerminatingUntilGone || !old.TerminatingUntilGone || !current.DeletedNamesNamespace || old.DeletedNamesNamespace ||
		current.RemoveContainersFirst || !old.RemoveContainersFirst || current.DeadlineMayPass || !old.DeadlineMayPass ||
		!current.TracksGeneration || old.TracksGeneration || !current.PublishesTerminalPhase || old.PublishesTerminalPhase {
		t.Error("the two columns are not opposites")
	}
	if _, err := CompatFor("v1.0"); err == nil || !strings.Contains(err.Error(), "v1.37, v1.22") {
		t.Errorf("CompatFor(v1.0) = %v, want an error that lists the releases", err)
	}
}

func TestIdentityClass(t *testing.T) {
	for id, want := range map[Identity]string{
		Node("n1.example"): "node.n1%2Eexample", Controllers: "cluster", Client("admin"): "cluster", Gateway: "cluster",
	} {
		if got := id.Class(); got != want {
			t.Errorf("%s reads %s, want %s", id, got, want)
		}
	}
}
