package garbage

import (
	"context"
	"log/slog"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/directory"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/controllers/control"
)

// slow is an API that has one owner, and in which other things happen while it is read.
type slow struct {
	control.API

	owner     kinds.Object
	meanwhile func()
	patches   int
}

// Get implements control.API.
func (s *slow) Get(context.Context, podapi.Target, metav1.GetOptions) (kinds.Object, error) {
	s.meanwhile()
	return s.owner, nil
}

// Patch implements control.API.
func (s *slow) Patch(context.Context, podapi.Target, types.PatchType, []byte, metav1.PatchOptions) (kinds.Object, error) {
	s.patches++
	return s.owner, nil
}

// TestHeardWhileItIsRead has an owner that is deleted in the foreground wait for a dependent that
// the collector hears of while it asks for the owner.
func TestHeardWhileItIsRead(t *testing.T) {
	owner := &appsv1.ReplicaSet{}
	owner.Namespace, owner.Name, owner.UID = "default", "o", "o"
	owner.Finalizers, owner.DeletionTimestamp = []string{foreground}, new(metav1.Now())
	for _, hears := range []bool{true, false} {
		api := &slow{owner: owner, meanwhile: func() {}}
		c := New(control.Base{
			API: api, Kinds: directory.New, Events: func(string) control.Recorder { return nil }, Log: slog.New(slog.DiscardHandler),
		})
		kind, _ := kinds.ByResource("replicasets.apps")
		c.graph.Set(ItemOf(kind, owner))
		if hears {
			api.meanwhile = func() { c.graph.Set(item("a", "o!")) }
		}
		if err := c.process(t.Context(), "o"); err != nil {
			t.Fatal(err)
		}
		if waits := api.patches == 0; waits != hears {
			t.Errorf("a dependent is heard of: %t; the owner waits: %t", hears, waits)
		}
	}
}
