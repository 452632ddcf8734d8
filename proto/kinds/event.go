package kinds

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// isEvent reports whether a kind is Event, which two groups serve. Every Event is stored once, in
// the core group's form; events.k8s.io has other field names.
func isEvent(gk schema.GroupKind) bool {
	return gk.Kind == "Event" && (gk.Group == corev1.GroupName || gk.Group == eventsv1.GroupName)
}

// convertEvent converts an Event to the form of the other group.
func convertEvent(obj Object, to schema.GroupVersionKind) (Object, []string, error) {
	var converted Object
	switch event := obj.(type) {
	case *corev1.Event:
		converted = coreToEventsV1(event)
	case *eventsv1.Event:
		converted = eventsV1ToCore(event)
	default: // an older version of events.k8s.io differs in name only
		stable, lost, err := Convert(obj, eventsv1.SchemeGroupVersion.WithKind("Event"))
		if err != nil {
			return nil, lost, fmt.Errorf("convert %T: %w", obj, err)
		}
		return convertEvent(stable, to)
	}
	return Convert(converted, to)
}

func coreToEventsV1(event *corev1.Event) *eventsv1.Event {
	event = event.DeepCopy()
	newer := &eventsv1.Event{
		ObjectMeta: event.ObjectMeta, EventTime: event.EventTime,
		ReportingController: event.ReportingController, ReportingInstance: event.ReportingInstance,
		Action: event.Action, Reason: event.Reason, Regarding: event.InvolvedObject, Related: event.Related,
		Note: event.Message, Type: event.Type, DeprecatedSource: event.Source,
		DeprecatedFirstTimestamp: event.FirstTimestamp, DeprecatedLastTimestamp: event.LastTimestamp,
		DeprecatedCount: event.Count,
	}
	if event.Series != nil {
		newer.Series = &eventsv1.EventSeries{Count: event.Series.Count, LastObservedTime: event.Series.LastObservedTime}
	}
	newer.SetGroupVersionKind(eventsv1.SchemeGroupVersion.WithKind("Event"))
	return newer
}

func eventsV1ToCore(event *eventsv1.Event) *corev1.Event {
	event = event.DeepCopy()
	core := &corev1.Event{
		ObjectMeta: event.ObjectMeta, EventTime: event.EventTime,
		ReportingController: event.ReportingController, ReportingInstance: event.ReportingInstance,
		Action: event.Action, Reason: event.Reason, InvolvedObject: event.Regarding, Related: event.Related,
		Message: event.Note, Type: event.Type, Source: event.DeprecatedSource,
		FirstTimestamp: event.DeprecatedFirstTimestamp, LastTimestamp: event.DeprecatedLastTimestamp,
		Count: event.DeprecatedCount,
	}
	if event.Series != nil {
		core.Series = &corev1.EventSeries{Count: event.Series.Count, LastObservedTime: event.Series.LastObservedTime}
	}
	core.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Event"))
	return core
}
