package apiserver

import (
	"context"
	"errors"
	"math/bits"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver/registry"
	"github.com/podfall/podfall/services/apiserver/verbs"
)

// recordRead answers a read and records it once it has been answered. A read changes nothing, so
// one that was never answered need not be recorded.
func (s *server) recordRead(req *verbs.Request, send verbs.Send, do func(verbs.Send) error) error {
	if s.history == nil || req.Subresource == proto.SubresourceRenew || req.Verb == proto.VerbGet && !s.history.SampleGet() {
		return do(send)
	}
	read := lookup{}
	began := s.history.Now()
	err := do(func(ctx context.Context, part *proto.Response, more bool) error {
		read.addPart(part)
		if !more {
			s.history.RecordSince(began, req.Envelope.GetOperation(), read.entry(req))
		}
		return send(ctx, part, more)
	})
	if refused := apierrors.APIStatus(nil); errors.As(asStatusError(err), &refused) && read.Code == 0 {
		read.Code = refused.Status().Code
		s.history.RecordSince(began, req.Envelope.GetOperation(), read.entry(req))
	}
	return err
}

// lookup collects what a read was answered.
type lookup struct {
	history.OpRead
	sum history.Sum
}

// addPart adds a part of the answer.
func (l *lookup) addPart(part *proto.Response) {
	l.Code = max(l.Code, part.GetCode())
	if item := part.GetItem(); item != nil {
		l.Revision = int64(item.GetRevision())
	}
	if list := part.GetList(); list != nil {
		l.Revision, l.More = int64(list.GetRevision()), l.More || list.GetContinue() != ""
		for _, item := range list.GetItems() {
			l.sum.Add("", int64(item.GetRevision()))
		}
	}
	for _, event := range part.GetEvents() {
		l.addEvent(event)
	}
	if join := part.GetJoin(); join != nil {
		l.Revision = int64(join.GetRevision())
	}
}

// addEvent adds an event of a watch.
func (l *lookup) addEvent(event *proto.Event) {
	switch event.GetType() {
	case proto.EventType_EVENT_TYPE_BOOKMARK:
		l.InitialEventsEnd = int64(event.GetRevision())
	case proto.EventType_EVENT_TYPE_ERROR:
		if status, err := kinds.DecodeAny(event.GetObject()); err == nil {
			if failure, is := status.(*metav1.Status); is {
				l.Code = failure.Code
			}
		}
	case proto.EventType_EVENT_TYPE_ADDED, proto.EventType_EVENT_TYPE_MODIFIED, proto.EventType_EVENT_TYPE_DELETED:
		l.sum.Add(strings.TrimPrefix(event.GetType().String(), "EVENT_TYPE_"), int64(event.GetRevision()))
		l.Revision = int64(event.GetRevision())
	case proto.EventType_EVENT_TYPE_UNSPECIFIED: // nobody makes one
	}
}

// entry returns the history entry for the whole answer.
func (l *lookup) entry(req *verbs.Request) history.OpRead {
	l.Identity, l.Verb, l.Resource, l.Key = string(req.Identity), string(req.Verb), req.Kind.GroupResource().String(), req.Namespace
	if req.Verb == proto.VerbGet {
		l.Key = keyOf(req)
	}
	l.ReadOptions, l.Items, l.Digest = readOptions(req), l.sum.Count, l.sum.String()
	return l.OpRead
}

// readOptions returns the options of a read for the history. Unreadable options were refused
// before.
func readOptions(req *verbs.Request) history.ReadOptions {
	data := req.Envelope.GetOptions()
	if len(data) == 0 {
		return history.ReadOptions{}
	}
	if req.Verb == proto.VerbGet {
		var opts metav1.GetOptions
		_ = opts.Unmarshal(data)
		return history.ReadOptions{Revision: opts.ResourceVersion}
	}
	var opts metav1.ListOptions
	_ = opts.Unmarshal(data)
	options := history.ReadOptions{
		Revision: opts.ResourceVersion, Match: string(opts.ResourceVersionMatch), Labels: opts.LabelSelector, Fields: opts.FieldSelector,
		Limit: opts.Limit, SendInitialEvents: opts.SendInitialEvents, AllowBookmarks: opts.AllowWatchBookmarks,
	}
	if opts.Continue != "" {
		if at, err := registry.DecodeContinue(req.Kind, req.Namespace, opts.Continue); err == nil {
			options.ContinueAfter, options.ContinueRevision = at.After, at.Revision
		}
	}
	return options
}

// maxMalformed is how many malformed calls are recorded one by one.
const maxMalformed = 100

// recordMalformed records a call that is no valid request. After maxMalformed calls it records
// every doubling only, so that a sender of many cannot push everything else out of the history.
func (s *server) recordMalformed(call message, err error) {
	if s.history == nil {
		return
	}
	code := int32(http.StatusInternalServerError) // as verbs.Refusal has it
	if refused := apierrors.APIStatus(nil); errors.As(asStatusError(err), &refused) {
		code = refused.Status().Code
	}
	if n := s.malformed.Add(1); n <= maxMalformed || bits.OnesCount64(n) == 1 {
		s.history.Record("", history.OpRefused{Subject: quoteShort(call.subject), Code: code, Count: n})
	}
}
