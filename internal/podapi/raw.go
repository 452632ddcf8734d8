package podapi

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/proto"
)

// Raw is a request of any verb but watch, for callers that pass on what others ask.
type Raw struct {
	Verb   proto.Verb
	Target Target
	// Options is the verb's metav1 options message.
	Options interface{ Marshal() ([]byte, error) }
	// List goes with deletecollection only.
	List *metav1.ListOptions
	// ContentType of Body; both are empty for verbs without a body.
	ContentType string
	Body        []byte
}

// Answer is what the apiserver said to a Raw request that it did not refuse.
type Answer struct {
	// Code is the HTTP status code, from 200 to 299.
	Code int
	// Object is an object, or a *metav1.Status of success; nil when Page is not.
	Object runtime.Object
	// Page is what list and deletecollection found.
	Page *List
}

// Do carries out a Raw request.
func (c *Client) Do(ctx context.Context, raw Raw) (*Answer, error) {
	what := call{
		verb: raw.Verb, target: raw.Target, options: raw.Options, list: raw.List,
		contentType: raw.ContentType, body: raw.Body,
	}
	if raw.Verb == proto.VerbList || raw.Verb == proto.VerbDeleteCollection {
		page, err := c.list(ctx, what)
		if err != nil {
			return nil, err
		}
		return &Answer{Code: 200, Page: page}, nil
	}
	answer, err := c.one(ctx, what)
	if err != nil {
		return nil, err
	}
	obj, err := decodeItem(answer.GetItem())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return &Answer{Code: int(answer.GetCode()), Object: obj}, nil
}

// WithWarn is c, but for the warnings, which go to warn.
func (c *Client) WithWarn(warn func(text string)) *Client {
	other := *c
	other.cfg.Warn = warn
	return &other
}

// Past is what a watch begins with.
type Past struct {
	// Events are in the order of Watch's. An ERROR is the last, and ends the watch.
	Events []watch.Event
	// Revision is the store's after the last event.
	Revision uint64
	// Complete says that nothing has happened between the last event and Revision;
	// otherwise ask again behind the last event.
	Complete bool
}

// CatchUp asks once for what a watch under opts would deliver before it becomes live.
// Who has been reading a live watch of the same selection since before the call misses
// nothing: what it delivers beyond Revision comes next.
func (c *Client) CatchUp(ctx context.Context, t Target, opts metav1.ListOptions) (Past, error) {
	t, opts = collection(t, opts)
	opts.Watch = true
	parts, err := c.parts(ctx, call{verb: proto.VerbWatch, target: t, options: &opts})
	if err != nil {
		return Past{}, err
	}
	var past Past
	for _, part := range parts {
		for _, event := range part.GetEvents() {
			decoded, err := decodeEvent(t.Kind, event)
			if err != nil {
				return Past{}, fmt.Errorf("watch %s: %w", t, err)
			}
			past.Events = append(past.Events, decoded)
			past.Revision = max(past.Revision, event.GetRevision())
		}
		if join := part.GetJoin(); join != nil {
			past.Complete, past.Revision = true, max(past.Revision, join.GetRevision())
		}
	}
	return past, nil
}
