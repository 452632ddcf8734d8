package kubelet

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/bus"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/kubelet/podstate"
	podstatus "github.com/podfall/podfall/services/kubelet/status"
)

// logLimit is the size in bytes to which a log is cut, in whole lines, so that an answer fits into
// one message.
const logLimit = 2 << 20

// handleLogs answers a request for logs.
func (p *parts) handleLogs(ctx context.Context, call *bus.Call) {
	text, err := p.recoverLogs(ctx, call.Data)
	answer := []byte(text)
	if err != nil {
		if answer, err = json.Marshal(proto.StatusFrom(err)); err != nil {
			p.cfg.Log.ErrorContext(ctx, "encode why there is no log", "err", err)
			return
		}
	}
	if err := call.Send(ctx, answer, false); err != nil && ctx.Err() == nil {
		p.cfg.Log.WarnContext(ctx, "send a log", "err", err)
	}
}

var errPanic = errors.New("this request made the kubelet panic; its log says how")

// recoverLogs calls readLogs, and returns a panic as an error: no request ends the process.
func (p *parts) recoverLogs(ctx context.Context, data []byte) (text string, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			p.cfg.Log.ErrorContext(ctx, "a request for logs made the kubelet panic",
				"cause", fmt.Sprint(cause), "stack", string(debug.Stack()))
			text, err = "", apierrors.NewInternalError(errPanic)
		}
	}()
	return p.readLogs(ctx, data)
}

func (p *parts) readLogs(ctx context.Context, data []byte) (string, error) {
	var request proto.LogsRequest
	if err := json.Unmarshal(data, &request); err != nil {
		return "", apierrors.NewBadRequest("logs: " + err.Error())
	}
	container, err := p.findLogContainer(request)
	if err != nil {
		return "", err
	}
	call := &proto.ContainerLogsRequest{ContainerId: container, Timestamps: request.Timestamps}
	cut := lastLines
	if !request.SinceTime.IsZero() {
		call.SinceUnixNano = clampedNanos(request.SinceTime)
		cut = firstLines
	}
	if request.TailLines != nil {
		if call.TailLines = *request.TailLines; call.TailLines <= 0 {
			return "", nil // to the runtime 0 would mean all
		}
	}
	text, err := p.runtime.ContainerLogs(ctx, call)
	if err != nil {
		return "", apierrors.NewInternalError(fmt.Errorf("logs of %s/%s: %w", request.Namespace, request.Pod, err))
	}
	return string(cut(text, logLimit)), nil
}

// clampedNanos returns a time in nanoseconds as the runtime counts it. Times out of range become
// the first or last possible.
func clampedNanos(at time.Time) int64 {
	switch {
	case at.Before(time.Unix(0, math.MinInt64)):
		return math.MinInt64
	case at.After(time.Unix(0, math.MaxInt64)):
		return math.MaxInt64
	}
	return at.UnixNano()
}

// firstLines returns the beginning of a text, at most so many bytes, in whole lines if it contains
// one.
func firstLines(text []byte, most int) []byte {
	if len(text) <= most {
		return text
	}
	if end := bytes.LastIndexByte(text[:most], '\n'); end >= 0 {
		return text[:end+1]
	}
	return text[:most]
}

// lastLines returns the end of a text, at most so many bytes, from the beginning of a line if there
// is one.
func lastLines(text []byte, most int) []byte {
	if len(text) <= most {
		return text
	}
	cut := len(text) - most
	if line := bytes.IndexByte(text[cut-1:], '\n'); line >= 0 && cut+line < len(text) {
		cut += line
	}
	return text[cut:]
}

// findLogContainer returns the id of the container of a request. The reported status of the pod
// says whether there is one. For a pod that the API has forgotten, the runtime's data does.
func (p *parts) findLogContainer(request proto.LogsRequest) (string, error) {
	if status, known := p.reportedStatus(request); known && request.Container != "" {
		id, err := podstatus.ContainerForLogs(&status, request.Pod, request.Container, request.Previous)
		if err != nil {
			return "", apierrors.NewBadRequest(err.Error())
		}
		return id, nil
	}
	pod, found := p.findPod(request.Namespace, request.Pod, request.UID)
	if !found {
		return "", apierrors.NewNotFound(p.kinds.pods.GroupResource(), request.Pod)
	}
	name := request.Container
	if name == "" {
		var names []string
		for _, c := range pod.Containers {
			names = append(names, c.GetName())
		}
		if names = slices.Compact(names); len(names) > 1 {
			return "", apierrors.NewBadRequest(fmt.Sprintf("a container name must be specified for pod %s, choose one of: %v", request.Pod, names))
		} else if len(names) == 1 {
			name = names[0]
		}
	}
	container := pod.Latest(name)
	if request.Previous {
		container = pod.Previous(name)
	}
	if container == nil && request.Previous {
		return "", apierrors.NewBadRequest(fmt.Sprintf("previous terminated container %q in pod %q not found", name, request.Pod))
	}
	if container == nil {
		return "", apierrors.NewBadRequest(fmt.Sprintf("container %q in pod %q is not available", name, request.Pod))
	}
	return container.GetId(), nil
}

// reportedStatus returns the status of the pod of a request, if the node has such a pod.
func (p *parts) reportedStatus(request proto.LogsRequest) (corev1.PodStatus, bool) {
	uid := request.UID
	for _, pod := range p.set.All() {
		if uid == "" && pod.Namespace == request.Namespace && pod.Name == request.Pod {
			uid = pod.UID
		}
	}
	if status, known := p.reporter.Status(uid); known {
		return status, true
	}
	if pod, _ := p.set.Get(uid); pod != nil {
		return pod.Status, true
	}
	return corev1.PodStatus{}, false
}

// findPod returns the runtime's pod of a name, the newest unless the UID is given.
func (p *parts) findPod(namespace, name string, uid types.UID) (podstate.Pod, bool) {
	var found []podstate.Pod
	for _, pod := range p.relister.All() {
		if pod.Namespace == namespace && pod.Name == name && (uid == "" || uid == pod.UID) {
			found = append(found, pod)
		}
	}
	if len(found) == 0 {
		return podstate.Pod{}, false
	}
	return slices.MaxFunc(found, func(a, b podstate.Pod) int { return cmp.Compare(createdAt(a), createdAt(b)) }), true
}

func createdAt(pod podstate.Pod) int64 {
	if len(pod.Sandboxes) == 0 {
		return 0
	}
	return pod.Sandboxes[0].GetCreatedAtUnixNano()
}
