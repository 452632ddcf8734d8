package custom

import (
	"context"
	"log/slog"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver/store"
)

// Writer carries out what a definition needs, like any other request.
type Writer interface {
	// UpdateDefinition stores a new status and finalizers of a definition, if its version is still
	// current.
	UpdateDefinition(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition) error
	// DeleteInstances deletes every object of a kind.
	DeleteInstances(ctx context.Context, kind kinds.Kind) error
}

// Janitor accepts the names of definitions, and deletes the objects of definitions that are being
// deleted. [NextStep] decides what it does.
type Janitor struct {
	Catalog *Catalog
	// Snapshot returns the state of the store.
	Snapshot func() *store.Snapshot
	Writer   Writer
	// EndWatches ends the watches of a resource whose definition is removed.
	EndWatches func(resource string)
	Clock      clock.Clock
	Log        *slog.Logger
	// wake holds one token if something has changed.
	wake chan struct{}
}

// NewJanitor returns a janitor; Run does the work.
func NewJanitor(j Janitor) *Janitor {
	j.wake = make(chan struct{}, 1)
	j.wake <- struct{}{} // what an earlier run has left
	return &j
}

// OnCommit follows every committed batch, after the catalog. It never blocks.
func (j *Janitor) OnCommit(events []store.Event) {
	for _, event := range events {
		resource := event.Record.Key.Resource
		if resource == Resource && event.Type == store.Deleted {
			j.EndWatches(event.Record.Key.Name)
		}
		if resource != Resource && (event.Type != store.Deleted || !j.Catalog.IsTerminating(resource)) {
			continue
		}
		select {
		case j.wake <- struct{}{}:
		default:
		}
	}
}

// retryDelay is the cluster time between a failure and the next try.
const retryDelay = 5 * time.Second

// Run works until ctx ends, and returns nil.
func (j *Janitor) Run(ctx context.Context) error {
	for {
		select {
		case <-j.wake:
		case <-ctx.Done():
			return nil
		}
		if j.stepAll(ctx) {
			continue
		}
		timer := j.Clock.Timer(retryDelay)
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		select {
		case j.wake <- struct{}{}:
		default:
		}
	}
}

// stepAll takes one step for every definition. It returns false if a step has failed.
func (j *Janitor) stepAll(ctx context.Context) bool {
	all, ok := j.Catalog.Definitions(), true
	for _, crd := range all {
		if err := j.step(ctx, crd, all); err != nil {
			j.Log.InfoContext(ctx, "a definition is not settled yet", "definition", crd.Name, "cause", err)
			ok = false
		}
	}
	return ok
}

func (j *Janitor) step(
	ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition, all []*apiextensionsv1.CustomResourceDefinition,
) error {
	now := metav1.Unix(j.Clock.Now().Unix(), 0)
	have := Instances{Left: j.Snapshot().Count(crd.Name, "")}
	next := NextStep(crd, all, have, now)
	if next.DeleteInstances {
		if have.Failed = j.Writer.DeleteInstances(ctx, StoredKind(crd)); have.Failed != nil {
			next = NextStep(crd, all, have, now)
		}
	}
	if next.Definition == nil {
		return have.Failed
	}
	err := j.Writer.UpdateDefinition(ctx, next.Definition)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return have.Failed // it has changed, which has woken us already
	}
	if err != nil {
		return err
	}
	return have.Failed
}
