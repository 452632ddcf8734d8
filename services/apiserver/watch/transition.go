package watch

import (
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/apiserver/store"
)

// Transition returns the type of the event that readers with a selector get for a change. was and
// is say whether the selector matches the object before and after. UNSPECIFIED means no event
// (WCH-21; upstream's convertToWatchEvent).
//
//	            is not        is
//	was not     nothing       ADDED
//	was         DELETED       MODIFIED
func Transition(was, is bool) proto.EventType {
	switch {
	case is && was:
		return proto.EventType_EVENT_TYPE_MODIFIED
	case is:
		return proto.EventType_EVENT_TYPE_ADDED
	case was:
		return proto.EventType_EVENT_TYPE_DELETED
	}
	return proto.EventType_EVENT_TYPE_UNSPECIFIED
}

// eventFor returns the event that readers get; nil for none. DELETED carries the last content that
// matched, under the revision of the change (WCH-21, WCH-22).
func eventFor(event store.Event, was, is bool) *proto.Event {
	change := Transition(was, is)
	content := event.Record
	switch change {
	case proto.EventType_EVENT_TYPE_UNSPECIFIED:
		return nil
	case proto.EventType_EVENT_TYPE_DELETED:
		content = event.Previous
	case proto.EventType_EVENT_TYPE_ADDED, proto.EventType_EVENT_TYPE_MODIFIED,
		proto.EventType_EVENT_TYPE_BOOKMARK, proto.EventType_EVENT_TYPE_ERROR:
	}
	return &proto.Event{Type: change, Revision: uint64(event.Revision), Object: content.Data}
}
