package podapi

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/proto"
)

// RawRequest is a request of any verb except watch, for callers that forward requests.
type RawRequest struct {
	Verb   proto.Verb
	Target Target
	// Options are the verb's metav1 options.
	Options interface{ Marshal() ([]byte, error) }
	// List is set for deletecollection only.
	List *metav1.ListOptions
	// ContentType is the type of Body. Both are empty for verbs without a body.
	ContentType string
	Body        []byte
}

// Result is the apiserver's answer to a RawRequest.
type Result struct {
	// Code is the HTTP status code, 200 to 299.
	Code int
	// Object is an object, or a *metav1.Status of success; nil if Page is set.
	Object runtime.Object
	// Page is the result of list and deletecollection.
	Page *List
}

// Do carries out a RawRequest.
func (c *Client) Do(ctx context.Context, raw RawRequest) (*Result, error) {
	req := call{
		verb: raw.Verb, target: raw.Target, options: raw.Options, list: raw.List,
		contentType: raw.ContentType, body: raw.Body,
	}
	if raw.Verb == proto.VerbList || raw.Verb == proto.VerbDeleteCollection {
		page, err := c.requestList(ctx, req)
		if err != nil {
			return nil, err
		}
		return &Result{Code: 200, Page: page}, nil
	}
	answer, err := c.request(ctx, req)
	if err != nil {
		return nil, err
	}
	obj, err := decodeItem(answer.GetItem())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", req, err)
	}
	return &Result{Code: int(answer.GetCode()), Object: obj}, nil
}

// WithWarn returns a copy of the client that passes warnings to warn.
func (c *Client) WithWarn(warn func(text string)) *Client {
	other := *c
	other.cfg.Warn = warn
	return &other
}

// Backlog is what a watch delivers before it becomes live.
type Backlog struct {
	// Events are in the order of Watch. An ERROR is the last event and ends the watch.
	Events []watch.Event
	// Revision is the store's revision after the last event.
	Revision uint64
	// Complete is set if nothing happened between the last event and Revision. Otherwise ask again
	// from the last event.
	Complete bool
}

// CatchUp asks once for what a watch under opts would deliver before it becomes live. A caller that
// has been reading a live watch of the same selection since before the call misses nothing: what
// that watch delivers beyond Revision comes next.
func (c *Client) CatchUp(ctx context.Context, t Target, opts metav1.ListOptions) (Backlog, error) {
	t, opts = selectByName(t, opts)
	opts.Watch = true
	parts, err := c.stream(ctx, call{verb: proto.VerbWatch, target: t, options: &opts})
	if err != nil {
		return Backlog{}, err
	}
	var past Backlog
	for _, part := range parts {
		for _, event := range part.GetEvents() {
			decoded, err := decodeEvent(t.Kind, event)
			if err != nil {
				return Backlog{}, fmt.Errorf("watch %s: %w", t, err)
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
