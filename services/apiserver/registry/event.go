package registry

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/podfall/podfall/proto/kinds"
)

// eventStrategy is the strategy of Events of both groups. Upstream checks little about them, so
// that no component fails because of its own events.
type eventStrategy struct{ generic }

func (eventStrategy) PrepareForCreate(kinds.Object, time.Time) {}

func (eventStrategy) PrepareForUpdate(_, _ kinds.Object, _ string) {}

func (s eventStrategy) Validate(obj kinds.Object) field.ErrorList {
	return append(ValidateMeta(s.kind, obj), validateEvent(obj)...)
}

func (s eventStrategy) ValidateUpdate(obj, _ kinds.Object, _ string) field.ErrorList {
	return validateEvent(obj)
}

// The longest texts of an Event whose eventTime is set.
const (
	maxInstance = 128
	maxAction   = 128
	maxReason   = 128
	maxNote     = 1024
)

// validateEvent returns what is wrong with an Event besides its metadata. Events without an
// eventTime are old ones; for these only the namespaces must match.
func validateEvent(obj kinds.Object) field.ErrorList {
	event, controller := coreEvent(obj)
	f := &findings{}
	about := field.NewPath("involvedObject", "namespace")
	const mismatch = "does not match event.namespace"
	if event.EventTime.IsZero() {
		clusterScoped := event.InvolvedObject.Namespace == "" &&
			(event.Namespace == "" || event.Namespace == metav1.NamespaceDefault)
		if !clusterScoped && event.Namespace != event.InvolvedObject.Namespace {
			f.invalid(about, event.InvolvedObject.Namespace, mismatch)
		}
		return f.errs
	}
	if event.InvolvedObject.Namespace == "" &&
		event.Namespace != metav1.NamespaceDefault && event.Namespace != metav1.NamespaceSystem {
		f.invalid(about, "", mismatch)
	}
	f.checkNotEmpty(controller, event.ReportingController)
	f.checkQualifiedName(controller, event.ReportingController)
	f.checkText(field.NewPath("reportingInstance"), event.ReportingInstance, maxInstance)
	f.checkText(field.NewPath("action"), event.Action, maxAction)
	f.checkText(field.NewPath("reason"), event.Reason, maxReason)
	if len(event.Message) > maxNote {
		f.invalid(field.NewPath("message"), "", "can have at most 1024 characters")
	}
	return f.errs
}

// checkText requires a text of at most limit characters. The message names 128, the limit of every
// field that is checked.
func (f *findings) checkText(at *field.Path, value string, limit int) {
	f.checkNotEmpty(at, value)
	if len(value) > limit {
		f.invalid(at, "", "can have at most 128 characters")
	}
}

// coreEvent returns an Event of either group as one of the core group, and the path of the
// reporter's name in its own group.
func coreEvent(obj kinds.Object) (*corev1.Event, *field.Path) {
	event, ok := obj.(*eventsv1.Event)
	if !ok {
		return as[*corev1.Event](obj), field.NewPath("reportingComponent")
	}
	return &corev1.Event{
		ObjectMeta: event.ObjectMeta, InvolvedObject: event.Regarding, Reason: event.Reason, Message: event.Note,
		Source: event.DeprecatedSource, FirstTimestamp: event.DeprecatedFirstTimestamp,
		LastTimestamp: event.DeprecatedLastTimestamp, Count: event.DeprecatedCount, Type: event.Type,
		EventTime: event.EventTime, Action: event.Action, Related: event.Related,
		ReportingController: event.ReportingController, ReportingInstance: event.ReportingInstance,
	}, field.NewPath("reportingController")
}

func (s eventStrategy) Fields(obj kinds.Object) fields.Set {
	event, _ := coreEvent(obj)
	source := event.Source.Component
	fill(&source, event.ReportingController)
	return fields.Set{
		"metadata.name":                  event.Name,
		"metadata.namespace":             event.Namespace,
		"involvedObject.kind":            event.InvolvedObject.Kind,
		"involvedObject.namespace":       event.InvolvedObject.Namespace,
		"involvedObject.name":            event.InvolvedObject.Name,
		"involvedObject.uid":             string(event.InvolvedObject.UID),
		"involvedObject.apiVersion":      event.InvolvedObject.APIVersion,
		"involvedObject.resourceVersion": event.InvolvedObject.ResourceVersion,
		"involvedObject.fieldPath":       event.InvolvedObject.FieldPath,
		"reason":                         event.Reason,
		"reportingComponent":             event.ReportingController,
		"source":                         source,
		"type":                           event.Type,
	}
}
