// Package podlog reads the log of a container from the kubelet of its node, and goes on
// reading: the kubelet keeps no streams, so it is asked for what has been written since.
package podlog

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/proto"
)

// Ask sends a request, a proto.LogsRequest in JSON, to the kubelet of the pod's node, and
// returns its answer.
type Ask func(ctx context.Context, request []byte) ([]byte, error)

// Line is a line of a log.
type Line struct {
	// Stamp is the line's time as the log has it, in RFC 3339.
	Stamp []byte
	// Text is the line itself, with its end.
	Text []byte
}

// With is the line as it is printed, its time in front of it or not.
func (l Line) With(timestamp bool) []byte { //nolint:revive // the reader's wish, not a choice of behaviour
	if !timestamp {
		return l.Text
	}
	return slices.Concat(l.Stamp, []byte(" "), l.Text)
}

// Reader reads one log. It belongs to one goroutine.
type Reader struct {
	ask     Ask
	request proto.LogsRequest
	tail    *int64
	// last is the time of the last line that was returned: no two lines of a log have the
	// same.
	last time.Time
}

// NewReader reads the log that a request says, from its SinceTime on, and the first time no
// more lines than its TailLines.
func NewReader(ask Ask, request proto.LogsRequest) *Reader {
	request.Timestamps = true
	r := &Reader{ask: ask, request: request, tail: request.TailLines}
	if r.tail != nil && *r.tail == 0 {
		r.request.TailLines = new(int64(1)) // to know where the log ends
	}
	return r
}

// atOnce is from how many bytes on an answer may be a part of what there is.
const atOnce = 1 << 20

// Next is what has been written since it was last called, in whole lines. A line that has no
// end yet is left for later, unless nothing more will be written: ended says so. It fails
// with the kubelet's refusal, or when that does not answer.
func (r *Reader) Next(ctx context.Context, ended bool) ([]Line, error) {
	var lines []Line
	for {
		more, size, err := r.next(ctx, ended)
		if err != nil {
			return lines, err
		}
		lines = append(lines, more...)
		if size < atOnce || len(more) == 0 || r.tail != nil {
			break
		}
	}
	if r.tail != nil {
		lines = lines[max(0, int64(len(lines))-*r.tail):]
		r.tail, r.request.TailLines = nil, nil
	}
	return lines, nil
}

func (r *Reader) next(ctx context.Context, ended bool) (lines []Line, size int, err error) { //nolint:revive // as in Next
	data, err := json.Marshal(r.request)
	if err != nil {
		return nil, 0, err
	}
	text, err := r.ask(ctx, data)
	if err != nil {
		return nil, 0, err
	}
	if status, ok := refusal(text); ok {
		return nil, 0, proto.ErrorFrom(status)
	}
	for raw := range bytes.Lines(text) {
		if !ended && !bytes.HasSuffix(raw, []byte("\n")) {
			break
		}
		var line Line
		line.Stamp, line.Text, _ = bytes.Cut(raw, []byte(" "))
		at, err := time.Parse(time.RFC3339Nano, string(line.Stamp))
		if err != nil || !at.After(r.last) || at.Before(r.request.SinceTime) {
			continue // a line without a time would come again each time
		}
		r.last = at
		lines = append(lines, line)
	}
	if !r.last.IsZero() {
		r.request.SinceTime = r.last
	}
	return lines, len(text), nil
}

// refusal tells a kubelet's refusal from a log that happens to be JSON.
func refusal(answer []byte) (*metav1.Status, bool) {
	var status metav1.Status
	if !bytes.HasPrefix(answer, []byte("{")) || json.Unmarshal(answer, &status) != nil {
		return nil, false
	}
	return &status, status.Kind == "Status" && status.APIVersion == "v1" && status.Status == metav1.StatusFailure
}

// Ended reports whether a container of the incarnation uid of a pod will write no more.
func Ended(pod *corev1.Pod, uid types.UID, container string) bool {
	if pod.UID != uid || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return true
	}
	for _, status := range slices.Concat(pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses, pod.Status.EphemeralContainerStatuses) {
		if status.Name == container {
			return status.State.Terminated != nil && pod.Spec.RestartPolicy != corev1.RestartPolicyAlways
		}
	}
	return false
}
