package staticpod

import (
	"context"
	"log/slog"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/kubelet/podstate"
)

// API is the part of the apiserver that mirrors use.
type API interface {
	Create(ctx context.Context, target podapi.Target, obj kinds.Object, opts metav1.CreateOptions) (kinds.Object, error)
	Delete(ctx context.Context, target podapi.Target, opts metav1.DeleteOptions) (runtime.Object, error)
}

// Mirrors keeps the mirror pods. It waits for the API; its callers do not.
type Mirrors struct {
	api   API
	pods  kinds.Kind
	log   *slog.Logger
	views chan View
}

// NewMirrors returns a keeper that does nothing until Run.
func NewMirrors(api API, pods kinds.Kind, log *slog.Logger) *Mirrors {
	return &Mirrors{api: api, pods: pods, log: log, views: make(chan View, 1)}
}

// SetView passes the present state. It never blocks: only the latest view counts. The caller is one
// goroutine, and repeats the view from time to time.
func (m *Mirrors) SetView(view View) {
	m.dropView()
	m.views <- view
}

// Run carries out what views ask for until ctx ends. Failures are retried with the next view.
func (m *Mirrors) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case view := <-m.views:
			steps := Decide(view)
			for _, step := range steps {
				m.carryOut(ctx, step)
			}
			if len(steps) > 0 {
				m.dropView()
			}
		}
	}
}

// dropView drops a view from before a step was carried out: the watch had not shown its result.
func (m *Mirrors) dropView() {
	select {
	case <-m.views:
	default:
	}
}

func (m *Mirrors) carryOut(ctx context.Context, step Step) {
	what, pod := "create", step.Create
	var err error
	if pod != nil {
		_, err = m.api.Create(ctx, podapi.Target{Kind: m.pods, Namespace: pod.Namespace}, pod, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return // the watch will show it
		}
	} else {
		what, pod = "delete", step.Delete
		uid := pod.UID
		_, err = m.api.Delete(ctx, podapi.Target{Kind: m.pods, Namespace: pod.Namespace, Name: pod.Name}, metav1.DeleteOptions{
			GracePeriodSeconds: new(int64(0)), Preconditions: &metav1.Preconditions{UID: &uid},
		})
		if apierrors.IsNotFound(err) {
			return
		}
	}
	if err != nil && ctx.Err() == nil {
		m.log.WarnContext(ctx, "a mirror pod is not as it should be; trying again", "doing", what, "pod", podstate.Key(pod), "err", err)
	}
}
