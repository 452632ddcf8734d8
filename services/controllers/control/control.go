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

// Controller acts on the cluster until ctx ends. It leaves nothing behind.
type Controller interface {
	Run(ctx context.Context) error
}

// Base is what every controller is made of.
type Base struct {
	API API
	// Collections deletes what has no name of its own.
	Collections Collections
	// Kinds is every kind there is, kept up to date from the first call on; call it while
	// the controller is made.
	Kinds  func() *directory.Directory
	Clock  clock.Clock
	Compat proto.Compat
	// Views are the local copies; ask for them while the controller is made. They are
	// filled when it runs.
	Views *view.Set
	// Events gives a recorder that speaks in a component's name: "deployment-controller".
	Events func(component string) Recorder
	Machine
	// Metrics counts what the controllers do; nil counts nothing.
	Metrics *metrics.Registry
	Log     *slog.Logger
	// History is told what is found out; nil for nobody.
	History *history.Recorder
}

// Machine is what controllers reach past the API.
type Machine struct {
	// Faults are what goes wrong on purpose; nil is nothing.
	Faults *fault.Table
	// Ask asks a process of the cluster how it is, past every cut; nil when that cannot be.
	Ask func(ctx context.Context, process string) ([]byte, error)
	// Storage is the directory of the persistent volumes, which all nodes share; empty when
	// it cannot be reached, and then no volume's files are removed.
	Storage string
	// StuckEvents records an event on each pod that stays in Terminating, which no real cluster
	// does.
	StuckEvents bool
}

// API is what controllers ask of the cluster besides their views. *podapi.Client is one.
type API interface {
	Create(ctx context.Context, target podapi.Target, obj kinds.Object, options metav1.CreateOptions) (kinds.Object, error)
	Get(ctx context.Context, target podapi.Target, options metav1.GetOptions) (kinds.Object, error)
	Update(ctx context.Context, target podapi.Target, obj kinds.Object, options metav1.UpdateOptions) (kinds.Object, error)
	Patch(ctx context.Context, target podapi.Target, kind types.PatchType, patch []byte, options metav1.PatchOptions) (kinds.Object, error)
	Delete(ctx context.Context, target podapi.Target, options metav1.DeleteOptions) (runtime.Object, error)
	List(ctx context.Context, target podapi.Target, options metav1.ListOptions) (*podapi.List, error)
	Follow(ctx context.Context, target podapi.Target, options metav1.ListOptions, sink podapi.Sink) error
}

// Collections is what controllers ask of whole collections. *podapi.Client is one.
type Collections interface {
	DeleteCollection(ctx context.Context, target podapi.Target, options metav1.DeleteOptions, list metav1.ListOptions) (*podapi.List, error)
}

// Recorder writes events about objects; it never waits for them to be stored.
type Recorder interface {
	Event(about kinds.Object, eventType, reason, message string)
}
