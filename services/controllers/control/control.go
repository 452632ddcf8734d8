// Package control is what a controller of podfall is given and what it is.
package control

import (
	"context"
	"log/slog"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/directory"
	"github.com/podfall/podfall/internal/fault"
	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/internal/metrics"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/controllers/view"
)

// Controller acts on the cluster until ctx ends. It leaves no goroutine.
type Controller interface {
	Run(ctx context.Context) error
}

// Base holds what every controller is built from.
type Base struct {
	API API
	// Collections deletes whole collections.
	Collections Collections
	// Kinds returns the directory of all kinds, which is kept up to date from the first call on.
	// Call it while the controller is built.
	Kinds  func() *directory.Directory
	Clock  clock.Clock
	Compat proto.Compat
	// Views are the local copies. Ask for them while the controller is built. They are filled when
	// it runs.
	Views *view.Set
	// Events returns a recorder with a component's name, for example "deployment-controller".
	Events func(component string) Recorder
	Machine
	// Metrics counts what the controllers do; nil counts nothing.
	Metrics *metrics.Registry
	Log     *slog.Logger
	// History records decisions; nil records nothing.
	History *history.Recorder
}

// Machine is what controllers use besides the API.
type Machine struct {
	// Faults are injected at the controllers' fault points; nil injects none.
	Faults *fault.Table
	// Ask queries a process of the cluster over the management connection, which no cut affects;
	// nil if there is none.
	Ask func(ctx context.Context, process string) ([]byte, error)
	// Storage is the directory of the persistent volumes, which all nodes share. If it is empty,
	// the files of volumes are not removed.
	Storage string
	// RootCA is the authority of the gateway's certificate, as PEM; empty publishes none.
	RootCA []byte
	// StuckEvents records an event on each pod that stays in Terminating. No real cluster does.
	StuckEvents bool
}

// API is the part of the API that controllers use besides their views. *podapi.Client implements
// it.
type API interface {
	Create(ctx context.Context, target podapi.Target, obj kinds.Object, options metav1.CreateOptions) (kinds.Object, error)
	Get(ctx context.Context, target podapi.Target, options metav1.GetOptions) (kinds.Object, error)
	Update(ctx context.Context, target podapi.Target, obj kinds.Object, options metav1.UpdateOptions) (kinds.Object, error)
	Patch(ctx context.Context, target podapi.Target, kind types.PatchType, patch []byte, options metav1.PatchOptions) (kinds.Object, error)
	Delete(ctx context.Context, target podapi.Target, options metav1.DeleteOptions) (runtime.Object, error)
	List(ctx context.Context, target podapi.Target, options metav1.ListOptions) (*podapi.List, error)
	Follow(ctx context.Context, target podapi.Target, options metav1.ListOptions, sink podapi.Sink) error
}

// Collections deletes whole collections. *podapi.Client implements it.
type Collections interface {
	DeleteCollection(ctx context.Context, target podapi.Target, options metav1.DeleteOptions, list metav1.ListOptions) (*podapi.List, error)
}

// Recorder writes events about objects; it does not wait for them to be stored.
type Recorder interface {
	Event(about kinds.Object, eventType, reason, message string)
}
