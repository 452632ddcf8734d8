package scenario

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto/kinds"
)

// Environment is the cluster in which a scenario runs: processes, or a cluster in a test.
type Environment interface {
	API
	FaultInjector
	Observer
}

// API is the part of the apiserver that scenarios use; *podapi.Client implements it.
type API interface {
	CreateRaw(ctx context.Context, t podapi.Target, contentType string, body []byte, opts metav1.CreateOptions) (kinds.Object, error)
	Get(ctx context.Context, t podapi.Target, opts metav1.GetOptions) (kinds.Object, error)
	List(ctx context.Context, t podapi.Target, opts metav1.ListOptions) (*podapi.List, error)
	Patch(ctx context.Context, t podapi.Target, pt types.PatchType, patch []byte, opts metav1.PatchOptions) (kinds.Object, error)
	Delete(ctx context.Context, t podapi.Target, opts metav1.DeleteOptions) (runtime.Object, error)
}

// FaultInjector injects and ends faults. Each method returns when its change is in force
// everywhere.
type FaultInjector interface {
	Break(ctx context.Context, what Break) error
	Mend(ctx context.Context, what Mend) error
}

// Observer reports what the API does not show.
type Observer interface {
	// Why returns the ids of the blockers of an object, for example stk-06.
	Why(ctx context.Context, t podapi.Target) ([]string, error)
	// CountRunning returns how many containers of the pod with the UID run on all nodes.
	CountRunning(ctx context.Context, uid types.UID) (int, error)
	// Signals returns the signals sent to the pod's containers, in order.
	Signals(ctx context.Context, uid types.UID) ([]history.Event, error)
}
