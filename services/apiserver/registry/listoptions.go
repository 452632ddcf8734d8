package registry

import (
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/podfall/podfall/proto/kinds"
)

// Match says which state of the store a list or a watch may start from.
type Match int

// The states that can be asked for (WCH-02).
const (
	// Latest includes every write that was answered before the request.
	Latest Match = iota
	// Any is whatever state is available.
	Any
	// NotOlderThan is the requested revision, or a newer one.
	NotOlderThan
	// Exact is the requested revision.
	Exact
)

// ListPlan holds the checked and parsed options of a list or a watch.
type ListPlan struct {
	// Labels and Fields are never nil. Their String is the canonical form from which watch scopes
	// are made.
	Labels labels.Selector
	Fields fields.Selector
	Match  Match
	// Revision belongs to NotOlderThan and Exact.
	Revision int64
	// After is where a list continues, as in [Continue]; "" means from the start.
	After string
	// Limit is the largest number of items in a page; 0 means no limit.
	Limit int64
	// Initial asks a watch to begin with every existing object (WCH-11, WCH-12).
	Initial bool
	// EndBookmark asks a watch to send a bookmark after the initial events.
	EndBookmark bool
	// Bookmarks asks a watch for periodic bookmarks.
	Bookmarks bool
}

// ParseListOptions checks the options of a list, of a deletecollection, or, if opts.Watch is set,
// of a watch, in namespace ("" for all). Its errors are apierrors values: 400 for unreadable
// options, 422 for contradictory ones (WCH-04).
func ParseListOptions(kind kinds.Kind, namespace string, opts metav1.ListOptions) (ListPlan, error) {
	plan := ListPlan{Limit: max(opts.Limit, 0), Bookmarks: opts.AllowWatchBookmarks}
	var err error
	if plan.Labels, err = labels.Parse(opts.LabelSelector); err != nil {
		return plan, apierrors.NewBadRequest(err.Error())
	}
	if plan.Fields, err = fields.ParseSelector(opts.FieldSelector); err != nil {
		return plan, apierrors.NewBadRequest(err.Error())
	}
	if errs := validateListOptions(opts); len(errs) > 0 {
		named := schema.GroupKind{Group: metav1.GroupName, Kind: "ListOptions"}
		return plan, apierrors.NewInvalid(named, "", errs)
	}
	if plan.Fields, err = checkFieldSelector(kind, plan.Fields); err != nil {
		return plan, apierrors.NewBadRequest(err.Error())
	}
	if opts.Watch {
		return plan.startWatch(kind, opts)
	}
	if opts.Continue != "" {
		return plan.continueList(kind, namespace, opts)
	}
	return plan.startList(opts)
}

// checkFieldSelector refuses fields that the kind cannot be selected by (API-72), and translates
// field names to those of strategies.
func checkFieldSelector(kind kinds.Kind, selector fields.Selector) (fields.Selector, error) {
	return selector.Transform(func(name, value string) (string, string, error) {
		name = fieldName(kind, name)
		return name, value, checkSelectable(kind, name)
	})
}

func (plan ListPlan) startList(opts metav1.ListOptions) (ListPlan, error) {
	revision, invalid := parseRevision(opts.ResourceVersion)
	if invalid != nil {
		return plan, apierrors.NewBadRequest(fmt.Sprintf("invalid resource version: %v", invalid))
	}
	plan.Revision = revision
	switch {
	case opts.ResourceVersion == "":
		plan.Match = Latest
	case opts.ResourceVersionMatch == metav1.ResourceVersionMatchExact:
		plan.Match = Exact
	case revision == 0:
		plan.Match = Any
	case opts.ResourceVersionMatch == "" && plan.Limit > 0:
		plan.Match = Exact // as it was before there was a match to ask for
	default:
		plan.Match = NotOlderThan
	}
	return plan, nil
}

func (plan ListPlan) continueList(kind kinds.Kind, namespace string, opts metav1.ListOptions) (ListPlan, error) {
	at, err := DecodeContinue(kind, namespace, opts.Continue)
	if err != nil {
		return plan, err
	}
	if opts.ResourceVersion != "" && opts.ResourceVersion != "0" {
		return plan, apierrors.NewBadRequest("specifying resource version is not allowed when using continue")
	}
	plan.After = at.After
	if at.Revision != AnyRevision {
		plan.Match, plan.Revision = Exact, at.Revision
	}
	return plan, nil
}

func (plan ListPlan) startWatch(kind kinds.Kind, opts metav1.ListOptions) (ListPlan, error) {
	revision, invalid := parseRevision(opts.ResourceVersion)
	if invalid != nil {
		named := schema.GroupKind{Group: kind.Group, Kind: kind.Resource}
		return plan, apierrors.NewInvalid(named, "", field.ErrorList{invalid})
	}
	plan.Revision = revision
	legacy := opts.SendInitialEvents == nil && revision == 0
	plan.Initial = legacy || opts.SendInitialEvents != nil && *opts.SendInitialEvents
	plan.EndBookmark = plan.Initial && opts.AllowWatchBookmarks
	switch {
	case opts.ResourceVersion == "":
		plan.Match = Latest
	case revision == 0:
		plan.Match = Any
	default:
		plan.Match = NotOlderThan
	}
	return plan, nil
}

// parseRevision reads a resourceVersion; "" is 0. Lists and watches have different messages for the
// error.
func parseRevision(resourceVersion string) (int64, *field.Error) {
	if resourceVersion == "" {
		return 0, nil
	}
	revision, err := strconv.ParseUint(resourceVersion, 10, 63)
	if err != nil {
		return 0, field.Invalid(field.NewPath("resourceVersion"), resourceVersion, err.Error())
	}
	return int64(revision), nil
}

// validateListOptions is upstream's ValidateListOptions (WCH-04, WCH-12).
func validateListOptions(opts metav1.ListOptions) field.ErrorList {
	if opts.Watch {
		return validateWatchOptions(opts)
	}
	var errs field.ErrorList
	at := field.NewPath("resourceVersionMatch")
	if match := opts.ResourceVersionMatch; match != "" {
		if opts.ResourceVersion == "" {
			errs = append(errs, field.Forbidden(at, "resourceVersionMatch is forbidden unless resourceVersion is provided"))
		}
		if opts.Continue != "" {
			errs = append(errs, field.Forbidden(at, "resourceVersionMatch is forbidden when continue is provided"))
		}
		if match != metav1.ResourceVersionMatchExact && match != metav1.ResourceVersionMatchNotOlderThan {
			errs = append(errs, field.NotSupported(at, match, []string{
				string(metav1.ResourceVersionMatchExact), string(metav1.ResourceVersionMatchNotOlderThan), "",
			}))
		}
		if match == metav1.ResourceVersionMatchExact && opts.ResourceVersion == "0" {
			errs = append(errs, field.Forbidden(at, `resourceVersionMatch "exact" is forbidden for resourceVersion "0"`))
		}
	}
	if opts.SendInitialEvents != nil {
		errs = append(errs, field.Forbidden(field.NewPath("sendInitialEvents"), "sendInitialEvents is forbidden for list"))
	}
	return errs
}

func validateWatchOptions(opts metav1.ListOptions) field.ErrorList {
	var errs field.ErrorList
	at := field.NewPath("resourceVersionMatch")
	match := opts.ResourceVersionMatch
	if opts.SendInitialEvents != nil && match != metav1.ResourceVersionMatchNotOlderThan {
		errs = append(errs, field.Forbidden(at, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"))
	}
	if match == "" {
		return errs
	}
	if opts.SendInitialEvents == nil {
		errs = append(errs, field.Forbidden(at, "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"))
	}
	if match != metav1.ResourceVersionMatchNotOlderThan {
		errs = append(errs, field.NotSupported(at, match, []string{string(metav1.ResourceVersionMatchNotOlderThan)}))
	}
	if opts.Continue != "" {
		errs = append(errs, field.Forbidden(at, "resourceVersionMatch is forbidden when continue is provided"))
	}
	return errs
}
