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

// World is the cluster that a scenario plays in: one of processes, or one in a test.
type World interface {
	API
	Breaker
	Witness
}

// API is what a scenario asks of the apiserver; *podapi.Client is one.
type API interface {
	CreateRaw(ctx context.Context, t podapi.Target, contentType string, body []byte, opts metav1.CreateOptions) (kinds.Object, error)
	Get(ctx context.Context, t podapi.Target, opts metav1.GetOptions) (kinds.Object, error)
	List(ctx context.Context, t podapi.Target, opts metav1.ListOptions) (*podapi.List, error)
	Patch(ctx context.Context, t podapi.Target, pt types.PatchType, patch []byte, opts metav1.PatchOptions) (kinds.Object, error)
	Delete(ctx context.Context, t podapi.Target, opts metav1.DeleteOptions) (runtime.Object, error)
}

// Breaker breaks and mends. Each method returns when what it did is in force everywhere.
type Breaker interface {
	Break(ctx context.Context, what Break) error
	Mend(ctx context.Context, what Mend) error
}

// Witness tells what the API does not.
type Witness interface {
	// Why are the blockers that are named for an object, by their names, such as stk-06.
	Why(ctx context.Context, t podapi.Target) ([]string, error)
	// Alive is how many containers of the pod with the UID run, on all nodes.
	Alive(ctx context.Context, uid types.UID) (int, error)
	// Signals are those that containers of the pod were sent, in order.
	Signals(ctx context.Context, uid types.UID) ([]history.Event, error)
}
