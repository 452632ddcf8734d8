package kubelet

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podfall/podfall/proto"
)

// TestSourcesNotReady is TD-073, KBL-05 and K14: a kubelet that has not seen a list of
// pods concludes nothing from not knowing one.
func TestSourcesNotReady(t *testing.T) {
	onStage(t, func(s *stage) {
		s.running("ignores TERM", 5)
		s.stop()
		s.cut()
		s.delete("p", 0)
		s.boot()
		time.Sleep(5 * time.Minute)
		if text := s.trace.String(); strings.Contains(text, "StopContainer") {
			t.Errorf("TD-073: sources not ready, and it did\n%s", text)
		}
		s.heal(true)
		time.Sleep(10 * time.Second)
		if text := s.trace.String(); !strings.Contains(text, "StopContainer c timeout=2") || !strings.Contains(text, "KILL c") {
			t.Errorf("TD-073: sources ready, and it did\n%s", text)
		}
	})
}

// TestSameName is KBL-22: a new UID of the same name does not wait for the old one.
func TestSameName(t *testing.T) {
	onStage(t, func(s *stage) {
		s.running("ignores TERM", 60)
		s.delete("p", -1)
		time.Sleep(time.Second)
		s.delete("p", 0)
		again := podOf("p", "ignores TERM", 30)
		again.UID = "uid-again"
		s.create(again)
		time.Sleep(3 * time.Second)
		if got := describe(s.pod("p")); got != "p gen=1/1 Running ready=True c=running" {
			t.Errorf("beside the old one it is %s", got)
		}
		if text := s.trace.String(); strings.Contains(text, "KILL") {
			t.Errorf("KBL-18: the forced delete shortened a stop under way:\n%s", text)
		}
		time.Sleep(2 * time.Minute)
		if got := describe(s.pod("p")); got != "p gen=1/1 Running ready=True c=running" {
			t.Errorf("after the old one's end it is %s", got)
		}
	})
}

// TestLogs asks for the logs of a pod as a client does.
func TestLogs(t *testing.T) {
	onStage(t, func(s *stage) {
		p, err := assemble(Config{Node: "n1", DataDir: s.dir, Timing: s.timing, Compat: s.compat}, s.api, s.runtime)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(s.t.Context())
		done := make(chan error, 1)
		go func() { done <- p.relister.Run(ctx) }()
		defer func() {
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}()
		s.running("exits 1 after 1s", 30)
		for _, row := range []struct {
			request proto.LogsRequest
			want    string
		}{
			{proto.LogsRequest{Namespace: "default", Pod: "p"}, "hello\n"},
			{proto.LogsRequest{Namespace: "default", Pod: "p", Container: "c", Previous: true}, "hello\n"},
			{proto.LogsRequest{Namespace: "default", Pod: "p", TailLines: new(int64(0))}, ""},
			{proto.LogsRequest{Namespace: "default", Pod: "p", TailLines: new(int64(panics))}, "Internal error occurred: " + errPanic.Error()},
			{proto.LogsRequest{Namespace: "default", Pod: "q"}, `pods "q" not found`},
			{proto.LogsRequest{Namespace: "default", Pod: "p", Container: "d"}, `container "d" in pod "p" is not available`},
			{proto.LogsRequest{Namespace: "default", Pod: "p", Container: "d", Previous: true}, `previous terminated container "d" in pod "p" not found`},
		} {
			data, err := json.Marshal(row.request)
			if err != nil {
				t.Fatal(err)
			}
			got, err := p.recoverLogs(ctx, data)
			if err != nil {
				got = err.Error()
			}
			if got != row.want {
				t.Errorf("logs of %s is %q, want %q", data, got, row.want)
			}
		}
		if _, err := p.readLogs(ctx, []byte("{")); err == nil {
			t.Error("a malformed request is answered")
		}
	})
}

// TestOrphansVolume is K13: what only the runtime has keeps its volumes for as long as it
// runs.
func TestOrphansVolume(t *testing.T) {
	onStage(t, func(s *stage) {
		s.put("configmaps/conf", &corev1.ConfigMap{Data: map[string]string{"a": "1"}})
		s.boot()
		s.create(withConfig(podOf("p", "ignores TERM", 30)))
		time.Sleep(10 * time.Second)
		s.stop()
		s.delete("p", 0)
		s.trace.begin()
		s.boot()
		time.Sleep(3500 * time.Millisecond) // housekeeping has found it, and its grace runs
		if text := s.trace.String(); !strings.Contains(text, "StopContainer") || strings.Contains(text, "KILL") || s.mounted() != "1" {
			t.Errorf("while it runs its volume says %q, after\n%s", s.mounted(), text)
		}
		time.Sleep(20 * time.Second)
		s.gone()
	})
}
