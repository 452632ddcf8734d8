package podlog_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/gateway/podlog"
)

// kubelet has a log whose lines are a second apart.
type kubelet struct {
	t     *testing.T
	lines []string
	// sent is how many bytes it has answered.
	sent int
	// most is how many lines an answer has; 0 for all.
	most int
	err  error
}

var began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func (k *kubelet) answer(_ context.Context, data []byte) ([]byte, error) {
	var request proto.LogsRequest
	if err := json.Unmarshal(data, &request); err != nil {
		k.t.Fatal(err)
	}
	if k.err != nil {
		return nil, k.err
	}
	if request.Previous {
		return json.Marshal(proto.StatusFrom(apierrors.NewBadRequest("no previous one")))
	}
	var chosen []string
	for i, text := range k.lines {
		if at := began.Add(time.Duration(i) * time.Second); !at.Before(request.SinceTime) {
			chosen = append(chosen, at.Format(time.RFC3339Nano)+" "+text)
		}
	}
	if tail := request.TailLines; tail != nil {
		chosen = chosen[max(0, len(chosen)-int(*tail)):]
	}
	if k.most > 0 && len(chosen) > k.most {
		chosen = chosen[:k.most]
	}
	text := strings.Join(chosen, "")
	k.sent += len(text)
	return []byte(text), nil
}

func texts(lines []podlog.Line) string {
	var all strings.Builder
	for _, line := range lines {
		all.Write(line.Text)
	}
	return all.String()
}

func TestReader(t *testing.T) {
	for name, row := range map[string]struct {
		request     proto.LogsRequest
		first, next string
	}{
		"all":        {proto.LogsRequest{}, "a\nb\nc\n", "d\n"},
		"tail":       {proto.LogsRequest{TailLines: new(int64(2))}, "b\nc\n", "d\n"},
		"tail of 0":  {proto.LogsRequest{TailLines: new(int64(0))}, "", "d\n"},
		"since":      {proto.LogsRequest{SinceTime: began.Add(time.Second)}, "b\nc\n", "d\n"},
		"since then": {proto.LogsRequest{SinceTime: began.Add(3 * time.Second)}, "", "d\n"},
	} {
		k := &kubelet{t: t, lines: []string{"a\n", "b\n", "c\n"}}
		r := podlog.NewReader(k.answer, row.request)
		if got, err := r.Next(t.Context(), false); err != nil || texts(got) != row.first {
			t.Errorf("%s: first %q, %v, want %q", name, texts(got), err, row.first)
		}
		k.lines = append(k.lines, "d\n", "not yet whole")
		if got, err := r.Next(t.Context(), false); err != nil || texts(got) != row.next {
			t.Errorf("%s: then %q, %v, want %q", name, texts(got), err, row.next)
		}
		if got, err := r.Next(t.Context(), false); err != nil || len(got) > 0 {
			t.Errorf("%s: again %q, %v", name, texts(got), err)
		}
		if got, err := r.Next(t.Context(), true); err != nil || texts(got) != "not yet whole" {
			t.Errorf("%s: at the end %q, %v", name, texts(got), err)
		}
	}
}

// TestFollowingCostsWhatIsNew: a log that is long already is not sent again.
func TestFollowingCostsWhatIsNew(t *testing.T) {
	k := &kubelet{t: t}
	for i := range 10_000 {
		k.lines = append(k.lines, fmt.Sprintf("line %d\n", i))
	}
	r := podlog.NewReader(k.answer, proto.LogsRequest{})
	if got, err := r.Next(t.Context(), false); err != nil || len(got) != 10_000 {
		t.Fatalf("%d lines, %v", len(got), err)
	}
	k.sent = 0
	for i := range 100 {
		k.lines = append(k.lines, "more\n")
		if got, err := r.Next(t.Context(), false); err != nil || texts(got) != "more\n" {
			t.Fatalf("line %d: %q, %v", i, texts(got), err)
		}
	}
	if k.sent > 100*100 {
		t.Errorf("100 lines cost %d bytes", k.sent)
	}
}

// TestAnswersInParts: an answer that was cut is asked for until its end.
func TestAnswersInParts(t *testing.T) {
	k := &kubelet{t: t, most: 3}
	long := strings.Repeat("x", 500_000)
	for i := range 10 {
		k.lines = append(k.lines, fmt.Sprintf("%d %s\n", i, long))
	}
	r := podlog.NewReader(k.answer, proto.LogsRequest{})
	if got, err := r.Next(t.Context(), false); err != nil || len(got) != 10 {
		t.Errorf("%d lines, %v, want 10", len(got), err)
	}
}

func TestRefusals(t *testing.T) {
	k := &kubelet{t: t, lines: []string{`{"kind":"Status"}` + "\n"}}
	if _, err := podlog.NewReader(k.answer, proto.LogsRequest{Previous: true}).Next(t.Context(), false); !apierrors.IsBadRequest(err) {
		t.Errorf("a refusal: %v", err)
	}
	if got, err := podlog.NewReader(k.answer, proto.LogsRequest{}).Next(t.Context(), false); err != nil || len(got) != 1 {
		t.Errorf("a log of JSON: %q, %v", texts(got), err)
	}
	k.err = errors.New("away")
	if _, err := podlog.NewReader(k.answer, proto.LogsRequest{}).Next(t.Context(), false); !errors.Is(err, k.err) {
		t.Errorf("a kubelet that is away: %v", err)
	}
}

func TestHasEnded(t *testing.T) {
	terminated := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
	for name, row := range map[string]struct {
		change func(pod *corev1.Pod)
		want   bool
	}{
		"it runs":              {func(*corev1.Pod) {}, false},
		"another incarnation":  {func(pod *corev1.Pod) { pod.UID = "v" }, true},
		"the pod has ended":    {func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodFailed }, true},
		"it will be restarted": {func(pod *corev1.Pod) { pod.Status.ContainerStatuses[0].State = terminated }, false},
		"it is not restarted": {func(pod *corev1.Pod) {
			pod.Status.ContainerStatuses[0].State = terminated
			pod.Spec.RestartPolicy = corev1.RestartPolicyNever
		}, true},
		"an init container has": {func(pod *corev1.Pod) {
			pod.Status.InitContainerStatuses = pod.Status.ContainerStatuses
			pod.Status.ContainerStatuses = nil
			pod.Status.InitContainerStatuses[0].State = terminated
			pod.Spec.RestartPolicy = corev1.RestartPolicyNever
		}, true},
	} {
		pod := &corev1.Pod{}
		pod.UID = "u"
		pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app"}}
		row.change(pod)
		if got := podlog.HasEnded(pod, "u", "app"); got != row.want {
			t.Errorf("%s: %v, want %v", name, got, row.want)
		}
	}
}
