package apiserver_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/fault"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/apiserver"
)

// TestFaultsOfTheStore has each point of the store do what docs/faults.md says: a write takes
// so long, or waits until the fault is cleared; reads go on.
func TestFaultsOfTheStore(t *testing.T) {
	second := fault.Effect{Kind: fault.Delay, Delay: metav1.Duration{Duration: time.Second}}
	const held = 20 * time.Second // until the fault is cleared
	hang, fails := fault.Effect{Kind: fault.Hang}, fault.Effect{Kind: fault.Error}
	for name, row := range map[string]struct {
		spec    fault.Spec
		took    time.Duration
		refused bool
	}{
		"commit fails":              {fault.Spec{Point: fault.StoreCommit, Effect: fails}, 0, true},
		"commit hangs":              {fault.Spec{Point: fault.StoreCommit, Effect: hang}, held, false},
		"commit is slow":            {fault.Spec{Point: fault.StoreCommit, Effect: second, Where: fault.Attributes{Resource: "pods"}}, time.Second, false},
		"another's commit hangs":    {fault.Spec{Point: fault.StoreCommit, Effect: hang, Where: fault.Attributes{Resource: "configmaps"}}, 0, false},
		"commit of this name fails": {fault.Spec{Point: fault.StoreCommit, Effect: fails, Where: fault.Attributes{Name: "new"}}, 0, true},
		"sync hangs":                {fault.Spec{Point: fault.StoreSync, Effect: hang}, held, false},
		"sync is slow":              {fault.Spec{Point: fault.StoreSync, Effect: second}, time.Second, false},
		"nobody is told":            {fault.Spec{Point: fault.StoreSynced, Effect: hang}, held, false},
		"all are told late":         {fault.Spec{Point: fault.StoreSynced, Effect: second}, time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				table := fault.NewTable(fault.Config{Process: "apiserver"})
				s := newHarness(t, func(cfg *apiserver.Config) { cfg.Faults = table })
				c := s.client(proto.Client("admin"))
				c.create(func(pod *corev1.Pod) { pod.Name = "old" })
				f, err := fault.New("f", row.spec, time.Now())
				if err != nil {
					t.Fatal(err)
				}
				table.Set([]fault.Fault{f})
				time.AfterFunc(held, func() { table.Set(nil) })
				began, ended := time.Now(), make(chan error, 1)
				go func() {
					pod := &corev1.Pod{
						ObjectMeta: metav1.ObjectMeta{Name: "new", Namespace: "default"},
						Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "scripted"}}},
					}
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					_, err := c.api.Create(ctx, pods("", ""), pod, metav1.CreateOptions{})
					ended <- err
				}()
				if row.took > 0 {
					time.Sleep(row.took / 2)
					if _, err := c.api.Get(t.Context(), pods("old", ""), metav1.GetOptions{}); err != nil {
						t.Errorf("a read meanwhile: %v", err)
					}
					select {
					case err := <-ended:
						t.Errorf("after half the time: %v", err)
						return
					default:
					}
				}
				err = <-ended
				if took := time.Since(began).Truncate(100 * time.Millisecond); took < row.took || took > row.took+row.took/10+time.Second/2 || (err != nil) != row.refused {
					t.Errorf("it took %v, %v; want %v, refused %v", took, err, row.took, row.refused)
				}
				if _, err := c.api.Get(t.Context(), pods("new", ""), metav1.GetOptions{}); (err != nil) != row.refused {
					t.Errorf("read afterwards: %v", err)
				}
			})
		})
	}
}

// TestWhoseFaultItIs has a request's time end at different places: the answer tells a store that
// does not write from a caller who came late and from a turn that came late. `podfall why`
// reads it (failure, in analysis/why/work.go).
func TestWhoseFaultItIs(t *testing.T) {
	const patience = 5 * time.Second
	for name, row := range map[string]struct {
		fault fault.Spec
		// busy has a request of the same operation under way.
		busy bool
		left time.Duration
		code int32
		says string
	}{
		"the store hangs":     {fault.Spec{Point: fault.StoreSync, Effect: fault.Effect{Kind: fault.Hang}}, false, patience, 504, "the store has not written before the deadline of the request; it may have taken effect or not"},
		"commits hang":        {fault.Spec{Point: fault.StoreCommit, Effect: fault.Effect{Kind: fault.Hang}}, false, patience, 504, "the store has not written before the deadline"},
		"commits fail":        {fault.Spec{Point: fault.StoreCommit, Effect: fault.Effect{Kind: fault.Error, Message: "no"}}, false, patience, 500, "the store has not written: no"},
		"its turn comes late": {fault.Spec{Point: fault.StoreCommit, Effect: fault.Effect{Kind: fault.Hang}}, true, patience, 504, "the deadline of the request has passed; it may have taken effect or not"},
		"it comes late":       {fault.Spec{Point: fault.StoreSync, Effect: fault.Effect{Kind: fault.Hang}}, false, -time.Second, 504, "the request came 1s after its deadline and has changed nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				table := fault.NewTable(fault.Config{Process: "apiserver"})
				s := newHarness(t, func(cfg *apiserver.Config) { cfg.Faults = table })
				s.client(proto.Client("admin")).create()
				f, err := fault.New("f", row.fault, time.Now())
				if err != nil {
					t.Fatal(err)
				}
				table.Set([]fault.Fault{f})
				defer table.Set(nil)
				conn := s.dial("client:admin")
				ask := func(left time.Duration) (*proto.Response, *metav1.Status) {
					return s.raw(conn, "api.client:admin.delete.pods.default.p", marshal(&proto.Request{
						Version: proto.Version, Operation: "op", DeadlineUnixNano: time.Now().Add(left).UnixNano(),
					}))
				}
				if row.busy {
					var first sync.WaitGroup
					first.Go(func() { ask(2 * patience) })
					defer first.Wait()
					synctest.Wait()
				}
				response, status := ask(row.left)
				if status == nil || response.GetCode() != row.code || !strings.Contains(status.Message, row.says) {
					t.Errorf("answered %d %v, want %d %s", response.GetCode(), status, row.code, row.says)
				}
			})
		})
	}
}
