package runtimeapi_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	protobuf "google.golang.org/protobuf/proto"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/fault"
	"github.com/podfall/podfall/proto"
)

// TestCallFaults applies each fault to StopContainer of web, and checks that other calls are not
// affected.
func TestCallFaults(t *testing.T) {
	const deadline = 2*time.Minute + 5*time.Second // (CRI-06)
	for name, row := range map[string]struct {
		effect fault.Effect
		code   string // empty for success
		took   time.Duration
		made   bool
	}{
		"an error":       {fault.Effect{Kind: fault.Error, Code: proto.CodeUnavailable}, proto.CodeUnavailable, 0, false},
		"without a code": {fault.Effect{Kind: fault.Error}, proto.CodeUnknown, 0, false},
		"a hang":         {fault.Effect{Kind: fault.Hang}, proto.CodeDeadlineExceeded, deadline, false},
		"a lie":          {fault.Effect{Kind: fault.Lie}, "", 0, false},
		"a lost answer":  {fault.Effect{Kind: fault.Drop}, proto.CodeDeadlineExceeded, deadline, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				made := map[string]bool{}
				table := fault.NewTable(fault.Config{})
				n := startNodeWith(t, clock.Clock{}, table, func(_ context.Context, call string) error {
					made[call] = true
					return nil
				})
				injected, err := fault.New("f", fault.Spec{
					Point: fault.CRI("StopContainer"), Where: fault.Attributes{Container: "web"}, Effect: row.effect,
				}, time.Now())
				if err != nil {
					t.Fatal(err)
				}
				table.Set([]fault.Fault{injected})
				began := time.Now()
				err = n.client.StopContainer(t.Context(), "web", 5)
				if took := time.Since(began); took != row.took {
					t.Errorf("it took %s, want %s", took, row.took)
				}
				if row.code == "" && err != nil || row.code != "" && !proto.IsRuntimeCode(err, row.code) {
					t.Errorf("answered %v, want code %q", err, row.code)
				}
				if made["StopContainer web 5"] != row.made {
					t.Errorf("the runtime was asked: %v, want %v", made, row.made)
				}
				if err := n.client.StopContainer(t.Context(), "other", 5); err != nil || !made["StopContainer other 5"] {
					t.Errorf("another container: %v, the runtime was asked %v", err, made)
				}
			})
		})
	}
}

// about knows a container by its id.
func attributes(request protobuf.Message) fault.Attributes {
	if q, ok := request.(interface{ GetContainerId() string }); ok {
		return fault.Attributes{Container: q.GetContainerId()}
	}
	return fault.Attributes{}
}
