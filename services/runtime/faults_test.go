package runtime_test

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/fault"
)

// TestFaultsOfSignals injects faults into the sending of signals. Dropped signals never arrive,
// delayed ones arrive late, and other containers and signals are unaffected.
func TestFaultsOfSignals(t *testing.T) {
	drop := fault.Effect{Kind: fault.Drop}
	late := fault.Effect{Kind: fault.Delay, Delay: metav1.Duration{Duration: 3 * time.Second}}
	for name, row := range map[string]struct {
		where  fault.Attributes
		effect fault.Effect
		took   time.Duration
		code   int32
		reason string
	}{
		"SIGTERM is dropped":           {fault.Attributes{Verb: "SIGTERM"}, drop, 10 * time.Second, 137, "Error"},
		"SIGTERM comes late":           {fault.Attributes{Verb: "SIGTERM"}, late, 4 * time.Second, 0, "Completed"},
		"SIGKILL, which is not sent":   {fault.Attributes{Verb: "SIGKILL"}, drop, time.Second, 0, "Completed"},
		"SIGTERM of another container": {fault.Attributes{Verb: "SIGTERM", Container: "other"}, drop, time.Second, 0, "Completed"},
		"SIGTERM of another pod":       {fault.Attributes{Verb: "SIGTERM", Pod: "other"}, drop, time.Second, 0, "Completed"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				n.withFault(row.where, row.effect)
				began := time.Now()
				_, id := n.runPod("on TERM exits 0 after 1s")
				took, err := timed(func() error { return n.StopContainer(t.Context(), id, 10) })
				wantError(t, "StopContainer", err, "")
				wantTook(t, "StopContainer", took, row.took)
				n.wantExit(id, began, row.took, row.code, row.reason)
			})
		})
	}
}

// TestKillSignalsDropped simulates uninterruptible sleep: the container outlives SIGKILL until the
// fault is cleared and a caller tries again.
func TestKillSignalsDropped(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.withFault(fault.Attributes{Verb: "SIGKILL"}, fault.Effect{Kind: fault.Drop})
		began := time.Now()
		_, id := n.runPod("ignores TERM")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := n.StopContainer(ctx, id, 5); err == nil {
			t.Error("it was stopped by a signal that has not come")
		}
		n.faults.Set(nil)
		if err := n.StopContainer(t.Context(), id, 5); err != nil {
			t.Error(err)
		}
		n.wantExit(id, began, time.Since(began), 137, "Error")
	})
}

// TestCrashAtASignal crashes the runtime as it is about to send a signal. The signal is on record,
// and the next incarnation sends it.
func TestCrashAtASignal(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		crashed := 0
		n.faults = fault.NewTable(fault.Config{Crash: func() { crashed++ }})
		n.restart(0)
		n.withFault(fault.Attributes{Verb: "SIGTERM"}, fault.Effect{Kind: fault.Crash})
		_, id := n.runPod("on TERM exits 3")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := n.StopContainer(ctx, id, 30); err == nil || crashed != 1 {
			t.Errorf("the call says %v, and the runtime was killed %d times", err, crashed)
		}
		n.faults.Set(nil)
		n.crash(0)
		if err := n.StopContainer(t.Context(), id, 30); err != nil {
			t.Error(err)
		}
		if status, err := n.ContainerStatus(t.Context(), id); err != nil || status.ExitCode != 3 {
			t.Errorf("it ended with %v, %v", status, err)
		}
	})
}

// withFault injects a fault into the sending of signals.
func (n *node) withFault(where fault.Attributes, effect fault.Effect) {
	n.t.Helper()
	f, err := fault.New("f", fault.Spec{Point: fault.EngineSignal, Where: where, Effect: effect}, time.Now())
	if err != nil {
		n.t.Fatal(err)
	}
	n.faults.Set([]fault.Fault{f})
}
