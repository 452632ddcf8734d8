package podlog_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/gateway/podlog"
)

// FuzzReader: whatever a kubelet answers, its lines come once, in the order of their times,
// whole unless the log has ended, none older and no more than was asked for; and reading
// ends.
func FuzzReader(f *testing.F) {
	f.Fuzz(func(t *testing.T, answer []byte, since int64, tail int16, ended bool) {
		asked := 0
		ask := func(context.Context, []byte) ([]byte, error) {
			asked++
			return answer, nil
		}
		request := proto.LogsRequest{}
		if since != 0 {
			request.SinceTime = time.Unix(since, 0)
		}
		if tail >= 0 {
			request.TailLines = new(int64(tail))
		}
		r := podlog.NewReader(ask, request)
		lines, err := r.Next(t.Context(), ended)
		if err != nil {
			if _, ok := errors.AsType[*apierrors.StatusError](err); !ok || !bytes.HasPrefix(answer, []byte("{")) || len(lines) > 0 {
				t.Errorf("%q: %d lines and %v", answer, len(lines), err)
			}
			return
		}
		if tail >= 0 && len(lines) > int(tail) {
			t.Errorf("%d lines, want at most %d", len(lines), tail)
		}
		last := request.SinceTime.Add(-1)
		for _, line := range lines {
			at, err := time.Parse(time.RFC3339Nano, string(line.Stamp))
			if err != nil || !at.After(last) && since != 0 {
				t.Errorf("%q is not after %s (%v)", line.Format(true), last, err)
			}
			if !ended && !bytes.HasSuffix(line.Text, []byte("\n")) {
				t.Errorf("%q has no end", line.Text)
			}
			if !bytes.Contains(answer, line.Format(true)) && len(line.Text) > 0 {
				t.Errorf("%q is not in the answer", line.Format(true))
			}
			last = at
		}
		if again, err := r.Next(t.Context(), ended); err != nil || len(again) > 0 {
			t.Errorf("read %d lines again (%v)", len(again), err)
		}
		if asked > 3 { // once, once more for what an answer of a megabyte leaves, and again
			t.Errorf("asked %d times", asked)
		}
	})
}
