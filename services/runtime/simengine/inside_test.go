package simengine

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/runtime/engine"
)

// TestInside checks a script's network answers and the results of its commands.
func TestInside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := New(clock.Clock{})
		began := time.Now()
		for id, script := range map[string]string{
			"late": "answers after 5s, stops answering after 8s, exec exits 3 after 2s", "hangs": "exec hangs", "plain": "",
		} {
			_, err := e.Load(t.Context(), engine.Container{
				ID: id, Request: &proto.CreateContainerRequest{Name: id, Script: script}, Events: engine.Events{Start: began},
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		answers := func(id, scheme string) int32 {
			answer, err := e.Reach(t.Context(), &proto.ReachRequest{ContainerId: id, Scheme: scheme, Port: 80})
			if err != nil {
				return -1
			}
			return answer.Code
		}
		for _, moment := range []struct {
			at   time.Duration
			want int32
		}{{0, -1}, {4999 * time.Millisecond, -1}, {5 * time.Second, 200}, {7999 * time.Millisecond, 200}, {8 * time.Second, -1}} {
			time.Sleep(time.Until(began.Add(moment.at)))
			if got := answers("late", "http"); got != moment.want {
				t.Errorf("after %v it answers %d, want %d", moment.at, got, moment.want)
			}
		}
		for scheme, want := range map[string]int32{"http": 200, "https": 200, "grpc": 1, "tcp": 0} {
			if got := answers("plain", scheme); got != want {
				t.Errorf("it answers %s with %d, want %d", scheme, got, want)
			}
		}
		from := time.Now()
		answer, err := e.Exec(t.Context(), &proto.ExecSyncRequest{ContainerId: "late"})
		if err != nil || answer.ExitCode != 3 || time.Since(from) != 2*time.Second {
			t.Errorf("exec: %v, %v after %v", answer, err, time.Since(from))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := e.Exec(ctx, &proto.ExecSyncRequest{ContainerId: "hangs"}); err == nil {
			t.Error("a command that hangs has ended")
		}
	})
}
