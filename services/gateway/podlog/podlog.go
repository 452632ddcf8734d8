// Package podlog reads the log of a container from the kubelet of its node and follows it. The
// kubelet keeps no streams, so the reader requests repeatedly what was written since.
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

// RequestFunc sends a request, a proto.LogsRequest in JSON, to the kubelet of the pod's node, and
// returns its answer.
type RequestFunc func(ctx context.Context, request []byte) ([]byte, error)

// Line is a line of a log.
type Line struct {
	// Stamp is the line's time in the log, in RFC 3339.
	Stamp []byte
	// Text is the line with its newline.
	Text []byte
}

// Format returns the line as printed, with or without its time.
func (l Line) Format(timestamp bool) []byte { //nolint:revive // the reader's wish, not a choice of behaviour
	if !timestamp {
		return l.Text
	}
	return slices.Concat(l.Stamp, []byte(" "), l.Text)
}

// Reader reads one log. It must be used by one goroutine.
type Reader struct {
	ask     RequestFunc
	request proto.LogsRequest
	tail    *int64
	// last is the time of the last line returned. No two lines of a log have the same time.
	last time.Time
}

// NewReader returns a reader of the log that a request selects. It starts at SinceTime; the first
// read returns at most TailLines lines.
func NewReader(ask RequestFunc, request proto.LogsRequest) *Reader {
	request.Timestamps = true
	r := &Reader{ask: ask, request: request, tail: request.TailLines}
	if r.tail != nil && *r.tail == 0 {
		r.request.TailLines = new(int64(1)) // to know where the log ends
	}
	return r
}

// truncationSize is the size from which on an answer may be incomplete.
const truncationSize = 1 << 20

// Next returns whole lines written since the last call. A line without an end is left for later,
// unless ended is set: then nothing more will be written. It fails with the kubelet's refusal, or
// if the kubelet does not answer.
func (r *Reader) Next(ctx context.Context, ended bool) ([]Line, error) {
	var lines []Line
	for {
		more, size, err := r.requestLines(ctx, ended)
		if err != nil {
			return lines, err
		}
		lines = append(lines, more...)
		if size < truncationSize || len(more) == 0 || r.tail != nil {
			break
		}
	}
	if r.tail != nil {
		lines = lines[max(0, int64(len(lines))-*r.tail):]
		r.tail, r.request.TailLines = nil, nil
	}
	return lines, nil
}

func (r *Reader) requestLines(ctx context.Context, ended bool) (lines []Line, size int, err error) { //nolint:revive // as in Next
	data, err := json.Marshal(r.request)
	if err != nil {
		return nil, 0, err
	}
	text, err := r.ask(ctx, data)
	if err != nil {
		return nil, 0, err
	}
	if status, ok := parseRefusal(text); ok {
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
			continue // a line without a time would be returned repeatedly
		}
		r.last = at
		lines = append(lines, line)
	}
	if !r.last.IsZero() {
		r.request.SinceTime = r.last
	}
	return lines, len(text), nil
}

// parseRefusal tells a kubelet's refusal from a log that happens to be JSON.
func parseRefusal(answer []byte) (*metav1.Status, bool) {
	var status metav1.Status
	if !bytes.HasPrefix(answer, []byte("{")) || json.Unmarshal(answer, &status) != nil {
		return nil, false
	}
	return &status, status.Kind == "Status" && status.APIVersion == "v1" && status.Status == metav1.StatusFailure
}

// HasEnded reports whether a container of the pod's incarnation uid will write no more.
func HasEnded(pod *corev1.Pod, uid types.UID, container string) bool {
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
