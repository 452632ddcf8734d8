package kubelet

import (
	"context"
	"encoding/json"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	protobuf "google.golang.org/protobuf/proto"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/remote"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/kubelet/pleg"
	"github.com/podfall/podfall/services/kubelet/podsource"
	"github.com/podfall/podfall/services/kubelet/podstate"
	"github.com/podfall/podfall/services/kubelet/status"
)

// recordingRuntime is a runtime that remembers what it was asked last.
type recordingRuntime struct {
	*fakeRuntime
	logs   *proto.ContainerLogsRequest
	stream *proto.ContainerStreamRequest
}

func (a *recordingRuntime) ContainerLogs(_ context.Context, req *proto.ContainerLogsRequest) ([]byte, error) {
	a.logs = req
	return []byte("hello\n"), nil
}

func (a *recordingRuntime) Stream(_ context.Context, req *proto.ContainerStreamRequest, _ remote.Conn) error {
	a.stream = req
	return nil
}

// newFuzzParts are the parts of a kubelet that has two pods of one name, p: the older of a container
// that has ended, the newer of c, which runs for the second time, and d, which has ended.
func newFuzzParts(f *testing.F) (*parts, *recordingRuntime) {
	f.Helper()
	in := func(uid, name, id string, attempt uint32, state proto.ContainerState) *fakeContainer {
		return &fakeContainer{Container: &proto.Container{Id: id, Name: name, Attempt: attempt, State: state, Labels: map[string]string{podstate.LabelPodUID: uid}}}
	}
	const running, exited = proto.ContainerState_CONTAINER_STATE_RUNNING, proto.ContainerState_CONTAINER_STATE_EXITED
	runtime := &recordingRuntime{fakeRuntime: &fakeRuntime{
		sandboxes: []*proto.Sandbox{
			{Id: "s1", PodName: "p", PodNamespace: "default", PodUid: "older", CreatedAtUnixNano: 1},
			{Id: "s2", PodName: "p", PodNamespace: "default", PodUid: "newer", CreatedAtUnixNano: 2},
		},
		containers: []*fakeContainer{
			in("older", "c", "c1", 0, exited), in("newer", "c", "c2", 0, exited), in("newer", "c", "c3", 1, running), in("newer", "d", "d1", 0, exited),
		},
	}}
	kinds, err := loadKinds()
	if err != nil {
		f.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	p := &parts{cfg: Config{Node: "n1", Log: log}, kinds: kinds}
	p.sources, p.reporter = sources{set: podsource.New(), files: podsource.New()}, status.NewReporter(status.Config{})
	p.engine = engine{runtime: runtime, relister: pleg.New(runtime, clock.Clock{}, pleg.Timing{}, log)}
	for _, sandbox := range runtime.sandboxes {
		if _, err := p.relister.Read(f.Context(), types.UID(sandbox.PodUid), nil); err != nil {
			f.Fatal(err)
		}
	}
	return p, runtime
}

// FuzzLogs: of whatever is asked for a log, the runtime is asked for the lines that are meant,
// since the time that is meant as far as nanoseconds reach, of a container of that pod, and as
// before when the request is written again; what is refused says why.
func FuzzLogs(f *testing.F) {
	p, runtime := newFuzzParts(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		runtime.logs = nil
		text, err := p.recoverLogs(t.Context(), data)
		if err != nil {
			checkRefused(t, data, err, "logs: ")
			return
		}
		var request proto.LogsRequest
		if err := json.Unmarshal(data, &request); err != nil {
			t.Fatalf("%q was answered: %v", data, err)
		}
		if none := request.TailLines != nil && *request.TailLines <= 0; none != (runtime.logs == nil) || none != (text == "") {
			t.Fatalf("%q: %q, and the runtime was asked for %v", data, text, runtime.logs)
		}
		if runtime.logs == nil {
			return
		}
		checkContainerFound(t, data, request.UID, runtime.logs.ContainerId)
		if tail := runtime.logs.TailLines; request.TailLines == nil && tail != 0 || request.TailLines != nil && tail != *request.TailLines {
			t.Errorf("%q: the last %d lines", data, tail)
		}
		since := time.Unix(0, runtime.logs.SinceUnixNano)
		switch reaches := request.SinceTime; {
		case reaches.Before(time.Unix(0, 1)): // all, as for no time
			if runtime.logs.SinceUnixNano > 0 {
				t.Errorf("%q: since %v", data, since)
			}
		case reaches.After(time.Unix(0, math.MaxInt64)):
			if runtime.logs.SinceUnixNano != math.MaxInt64 {
				t.Errorf("%q: since %v", data, since)
			}
		case !reaches.Equal(since):
			t.Errorf("%q: since %v", data, since)
		}
		first := runtime.logs
		if again, err := p.recoverLogs(t.Context(), encode(t, request)); err != nil || again != text || !protobuf.Equal(first, runtime.logs) {
			t.Errorf("%q: %v, and written again %v (%v)", data, first, runtime.logs, err)
		}
	})
}

// FuzzStream: of whatever is asked for a conversation, the runtime is asked for one with at
// least one stream, none of stderr with a terminal, of a container that runs, with a command
// or without as the verb has it, and as before when the request is written again; what is
// refused says why.
func FuzzStream(f *testing.F) {
	p, runtime := newFuzzParts(f)
	f.Fuzz(func(t *testing.T, attach bool, data []byte) {
		verb := "exec"
		if attach {
			verb = "attach"
		}
		runtime.stream = nil
		if err := p.runStream(t.Context(), verb, data, nil); err != nil {
			checkRefused(t, data, err, verb+": ")
			return
		}
		var request proto.StreamRequest
		if err := json.Unmarshal(data, &request); err != nil || runtime.stream == nil {
			t.Fatalf("%q was taken, and the runtime was asked for %v: %v", data, runtime.stream, err)
		}
		first := runtime.stream
		checkContainerFound(t, data, request.UID, first.ContainerId)
		switch streams := first.Stdin || first.Stdout || first.Stderr; {
		case first.ContainerId != "c3":
			t.Errorf("%s %q: %v does not run", verb, data, first)
		case !streams, first.Tty && first.Stderr, attach != (len(first.Command) == 0):
			t.Errorf("%s %q: %v", verb, data, first)
		}
		if err := p.runStream(t.Context(), verb, encode(t, request), nil); err != nil || !protobuf.Equal(first, runtime.stream) {
			t.Errorf("%s %q: %v, and written again %v (%v)", verb, data, first, runtime.stream, err)
		}
	})
}

// checkRefused: what is refused could not be read, which is said first, makes no sense, or is
// not there; and the kubelet is not broken by it.
func checkRefused(t *testing.T, data []byte, err error, unread string) {
	t.Helper()
	switch text := err.Error(); {
	case !json.Valid(data):
		if !apierrors.IsBadRequest(err) || !strings.HasPrefix(text, unread) || text == unread {
			t.Errorf("%q: %v, want %q and why", data, err, unread)
		}
	case !apierrors.IsBadRequest(err) && !apierrors.IsNotFound(err) && !strings.Contains(text, "container not found"), text == "":
		t.Errorf("%q: %v", data, err)
	}
}

// checkContainerFound: a container is of the pod that is meant, which is the newer unless the request
// says the older's UID.
func checkContainerFound(t *testing.T, data []byte, uid types.UID, container string) {
	t.Helper()
	if older := uid == "older"; older != (container == "c1") {
		t.Errorf("%q: container %s", data, container)
	}
}

func encode(t *testing.T, request any) []byte {
	t.Helper()
	data, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
