package apiserver

import (
	"context"
	"fmt"
	"testing"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/apiserver/verbs"
)

// TestTheMemoryIsBounded by the number of operations and by their bytes; what is over is
// the oldest.
func TestTheMemoryIsBounded(t *testing.T) {
	for _, row := range []struct{ answers, size, kept int }{
		{maxAnswered + 10, 0, maxAnswered},
		{10, maxAnsweredBytes / 4, 3},
		{1, maxAnsweredBytes, 0},
	} {
		turns, done := newTurns(), 0
		part := &proto.Response{Item: &proto.Item{Object: make([]byte, row.size)}}
		ask := func(i int) {
			req := request{fmt.Sprint("subject ", i), &proto.Request{}}
			discard := func(context.Context, *proto.Response, bool) error { return nil }
			err := turns.once(t.Context(), fmt.Sprint(i), req, discard, func(send verbs.Send) error {
				done++
				return send(t.Context(), part, false)
			})
			if err != nil {
				t.Error(err)
			}
		}
		for i := range row.answers {
			ask(i)
		}
		if done != row.answers || len(turns.answered) != row.kept || len(turns.order) != row.kept || turns.size > maxAnsweredBytes {
			t.Errorf("%d of %d bytes: carried out %d, remembered %d of %d bytes, want %d",
				row.answers, row.size, done, len(turns.answered), turns.size, row.kept)
		}
		for i := row.answers - row.kept; i < row.answers; i++ {
			ask(i)
		}
		if done != row.answers {
			t.Errorf("%d that are remembered were carried out again", done-row.answers)
		}
	}
}
