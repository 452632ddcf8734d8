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

// logLimit is how many bytes a log is cut to, in whole lines, so that an answer fits into
// one message.
const logLimit = 2 << 20

// tellLogs answers a request for logs.
func (p *parts) tellLogs(ctx context.Context, call *bus.Call) {
	text, err := p.answerLogs(ctx, call.Data)
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

// answerLogs is logs, with a panic as an error: no request ends the process.
func (p *parts) answerLogs(ctx context.Context, data []byte) (text string, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			p.cfg.Log.ErrorContext(ctx, "a request for logs made the kubelet panic",
				"cause", fmt.Sprint(cause), "stack", string(debug.Stack()))
			text, err = "", apierrors.NewInternalError(errPanic)
		}
	}()
	return p.logs(ctx, data)
}

func (p *parts) logs(ctx context.Context, data []byte) (string, error) {
	var request proto.LogsRequest
	if err := json.Unmarshal(data, &request); err != nil {
		return "", apierrors.NewBadRequest("logs: " + err.Error())
	}
	container, err := p.logged(request)
	if err != nil {
		return "", err
	}
	call := &proto.ContainerLogsRequest{ContainerId: container, Timestamps: request.Timestamps}
	cut := lastLines
	if !request.SinceTime.IsZero() {
		call.SinceUnixNano = nanos(request.SinceTime)
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

// nanos is a time as the runtime counts it; one that is further off than can be counted is the
// first or the last that can.
func nanos(at time.Time) int64 {
	switch {
	case at.Before(time.Unix(0, math.MinInt64)):
		return math.MinInt64
	case at.After(time.Unix(0, math.MaxInt64)):
		return math.MaxInt64
	}
	return at.UnixNano()
}

// firstLines is the beginning of a text, of at most so many bytes, in whole lines if there
// is one.
func firstLines(text []byte, most int) []byte {
	if len(text) <= most {
		return text
	}
	if end := bytes.LastIndexByte(text[:most], '\n'); end >= 0 {
		return text[:end+1]
	}
	return text[:most]
}

// lastLines is the end of a text, of at most so many bytes, from the beginning of a line on
// if there is one.
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

// logged is the id of the container that a request means. What the kubelet reports of the pod says
// whether there is one; of a pod that the API has forgotten, what the runtime holds.
func (p *parts) logged(request proto.LogsRequest) (string, error) {
	if status, known := p.reported(request); known && request.Container != "" {
		id, err := podstatus.Logged(&status, request.Pod, request.Container, request.Previous)
		if err != nil {
			return "", apierrors.NewBadRequest(err.Error())
		}
		return id, nil
	}
	pod, found := p.named(request.Namespace, request.Pod, request.UID)
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

// reported is the status of the pod that a request means, if the node has such a pod.
func (p *parts) reported(request proto.LogsRequest) (corev1.PodStatus, bool) {
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

// named is the pod that a request means, the newest of the name unless it says the UID.
func (p *parts) named(namespace, name string, uid types.UID) (podstate.Pod, bool) {
	var found []podstate.Pod
	for _, pod := range p.relister.All() {
		if pod.Namespace == namespace && pod.Name == name && (uid == "" || uid == pod.UID) {
			found = append(found, pod)
		}
	}
	if len(found) == 0 {
		return podstate.Pod{}, false
	}
	return slices.MaxFunc(found, func(a, b podstate.Pod) int { return cmp.Compare(created(a), created(b)) }), true
}

func created(pod podstate.Pod) int64 {
	if len(pod.Sandboxes) == 0 {
		return 0
	}
	return pod.Sandboxes[0].GetCreatedAtUnixNano()
}
