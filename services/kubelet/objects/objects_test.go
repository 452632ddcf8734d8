package objects_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/kubelet/objects"
)

// classes answers for RuntimeClasses; silent are those whose list never comes.
type classes struct {
	handlers map[string]string
	silent   []string
}

func (c classes) Follow(ctx context.Context, target podapi.Target, opts metav1.ListOptions, sink podapi.Sink) error {
	for name, handler := range c.handlers {
		class := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "u", ResourceVersion: "1"}, Handler: handler}
		if target.Kind.Kind == "RuntimeClass" && opts.FieldSelector == "metadata.name="+name {
			sink.Replace([]kinds.Object{class}, "1")
		}
	}
	if target.Kind.Kind == "RuntimeClass" && !slices.Contains(c.silent, opts.FieldSelector) {
		if _, known := c.handlers[opts.FieldSelector[len("metadata.name="):]]; !known {
			sink.Replace(nil, "1")
		}
	}
	<-ctx.Done()
	return ctx.Err()
}

// TestRuntimeHandler looks up the classes of pods.
func TestRuntimeHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		cache, err := objects.New(objects.Config{
			API:      classes{map[string]string{"fast": "scripted"}, []string{"metadata.name=late"}},
			Patience: time.Second,
		})
		if err != nil {
			t.Fatal(err)
		}
		for class, want := range map[string]string{"fast": "scripted", "": "", "vm": "NotFound", "late": "failed"} {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u"}, Spec: corev1.PodSpec{RuntimeClassName: &class}}
			cache.Register(ctx, pod)
			got, err := cache.RuntimeHandler(ctx, pod)
			switch {
			case apierrors.IsNotFound(err):
				got = "NotFound"
			case err != nil:
				got = "failed"
			}
			if got != want {
				t.Errorf("class %q: handler %q, %v; want %q", class, got, err, want)
			}
			cache.Forget(pod.UID)
		}
		if got, err := cache.RuntimeHandler(ctx, &corev1.Pod{}); got != "" || err != nil {
			t.Errorf("no class: %q, %v", got, err)
		}
		cancel()
		synctest.Wait()
	})
}
