package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/podfall/podfall/internal/bus"
	"github.com/podfall/podfall/proto"
)

// kubelet answers for the logs of every container on its node.
type kubelet struct {
	mu    sync.Mutex
	lines []string
	asked []proto.LogsRequest
	times []time.Time // of the questions
}

func (k *kubelet) write(at time.Time, text string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lines = append(k.lines, at.UTC().Format(time.RFC3339Nano)+" "+text+"\n")
}

func (k *kubelet) answer(ctx context.Context, call *bus.Call) {
	k.mu.Lock()
	defer k.mu.Unlock()
	var request proto.LogsRequest
	if err := json.Unmarshal(call.Data, &request); err != nil {
		panic(err)
	}
	k.asked, k.times = append(k.asked, request), append(k.times, time.Now())
	text := []byte(strings.Join(k.lines, ""))
	if request.Previous {
		text, _ = json.Marshal(proto.StatusFrom(apierrors.NewBadRequest(`previous terminated container "web" in pod "web" not found`)))
	}
	_ = call.Send(ctx, text, false)
}

func (r *rig) startKubelet(node string) *kubelet {
	r.t.Helper()
	k, conn := &kubelet{}, r.dial(proto.Node(node))
	stop := r.begin(func(ctx context.Context, ready func()) error {
		service, err := conn.Listen(ctx, proto.NodeSubject(node, "logs"))
		if err != nil {
			return err
		}
		ready()
		return service.Serve(ctx, k.answer)
	})
	r.t.Cleanup(func() { stop(); conn.Close() })
	return k
}

func TestLogs(t *testing.T) {
	r := newRig(t)
	k := r.startKubelet("n")
	now := time.Now()
	k.write(now.Add(-time.Hour), "old")
	k.write(now.Add(-time.Minute), "one")
	k.write(now.Add(-time.Second), "two")
	r.made("POST "+pods, strings.Replace(podJSON("web"), `"spec":{`, `"spec":{"nodeName":"n",`, 1))
	r.made("POST "+pods, podJSON("nowhere"))
	log := "GET " + pods + "/web/log"
	for query, want := range map[string]string{
		"":                   "old\none\ntwo\n",
		"?tailLines=1":       "two\n",
		"?tailLines=9":       "old\none\ntwo\n",
		"?tailLines=0":       "",
		"?sinceSeconds=1800": "one\ntwo\n",
		"?sinceTime=" + now.Add(-30*time.Minute).UTC().Format(time.RFC3339): "one\ntwo\n",
		"?limitBytes=6":    "old\non",
		"?container=web":   "old\none\ntwo\n",
		"?timestamps=true": strings.Join(k.lines, ""),
	} {
		if resp, data := r.ask(log+query, ""); resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/plain" || string(data) != want {
			t.Errorf("log%s: %s %q, want %q", query, resp.Status, data, want)
		}
	}
	resp, data := r.ask(log+"?previous=true", "")
	if status := statusIn(t, data); resp.StatusCode != http.StatusBadRequest || !strings.Contains(status.Message, "previous terminated container") {
		t.Errorf("previous: %s", data)
	}
	if resp, _ := r.ask("GET "+pods+"/nowhere/log", ""); resp.StatusCode != http.StatusNoContent {
		t.Errorf("a pod without a node: %s", resp.Status)
	}
	if request := k.asked[0]; request.Pod != "web" || request.Namespace != "default" || request.Container != "web" || request.UID == "" {
		t.Errorf("the kubelet was asked for %+v", request)
	}
}

// TestLogsThatAreFollowed come as they are written, until the pod is gone.
func TestLogsThatAreFollowed(t *testing.T) {
	r := newRig(t)
	k := r.startKubelet("n")
	k.write(time.Now(), "line 0")
	r.made("POST "+pods, strings.Replace(podJSON("web"), `"spec":{`, `"spec":{"nodeName":"n",`, 1))
	resp := r.stream(t.Context(), "GET "+pods+"/web/log?follow=true&tailLines=1", "")
	defer resp.close()
	for i := range 3 {
		if i > 0 {
			k.write(time.Now(), fmt.Sprintf("line %d", i))
		}
		got := make([]byte, 7)
		if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != fmt.Sprintf("line %d\n", i) {
			t.Fatalf("%q %v, want line %d", got, err, i)
		}
	}
	r.kill("web")
	if rest, err := io.ReadAll(resp.Body); err != nil || len(rest) > 0 {
		t.Errorf("after the end: %q %v", rest, err)
	}
}

// TestTheLastLines of a pod that is being deleted are sent before they go with it: its
// follower asks when the pod changes, and often from the mark on.
func TestTheLastLines(t *testing.T) {
	r := newRig(t)
	k := r.startKubelet("n")
	k.write(time.Now(), "line 0")
	r.made("POST "+pods, strings.Replace(podJSON("web"), `"spec":{`, `"spec":{"nodeName":"n",`, 1))
	resp := r.stream(t.Context(), "GET "+pods+"/web/log?follow=true", "")
	defer resp.close()
	got := make([]byte, 7)
	if _, err := io.ReadFull(resp.Body, got); err != nil {
		t.Fatal(err)
	}
	r.made("DELETE "+pods+"/web", "")
	before := k.questions()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	// Of any other pod the second and the third come a second after the one before.
	for limit := time.Now().Add(patience); !k.often(before, 4, 1900*time.Millisecond); <-tick.C {
		if time.Now().After(limit) {
			t.Fatalf("in %v no four questions of a pod that is to go came within 1.9 s", patience)
		}
	}
	r.kill("web")
}

func (k *kubelet) questions() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.asked)
}

// often reports whether n questions in a row, the first ones left out, came within a time.
func (k *kubelet) often(first, n int, within time.Duration) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := first + n - 1; i < len(k.times); i++ {
		if k.times[i].Sub(k.times[i-n+1]) < within {
			return true
		}
	}
	return false
}
