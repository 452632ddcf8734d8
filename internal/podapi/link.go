package podapi

import (
	"context"
	"iter"

	"github.com/podfall/podfall/internal/bus"
	"github.com/podfall/podfall/proto"
)

// link is the part of a bus connection that the client needs.
type link interface {
	Identity() proto.Identity
	Request(ctx context.Context, to proto.Identity, subject string, data []byte) ([]byte, error)
	Stream(ctx context.Context, to proto.Identity, subject string, data []byte) iter.Seq2[[]byte, error]
	Publish(subject string, data []byte) error
	Subscribe(subject string, limit int) (subscription, error)
}

// subscription is a bounded queue of messages; see bus.Subscription.
type subscription interface {
	Next(ctx context.Context) ([]byte, error)
	Close()
}

type busLink struct{ *bus.Conn }

func (l busLink) Subscribe(subject string, limit int) (subscription, error) {
	return l.Conn.Subscribe(subject, limit)
}
