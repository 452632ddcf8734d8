package watch

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver/store"
)

// selection is a scope in the form that matches objects.
type selection struct {
	scope    proto.WatchScope
	byLabel  labels.Selector
	byField  fields.Selector
	anything bool
	// term is one value that every match has, if there is one worth an index.
	term term
}

// term is a field and its value.
type term struct{ field, value string }

// indexed are the fields by which many groups select one value each: every kubelet
// follows its own node's pods, and a client may wait for one name.
func indexed() []string { return []string{"spec.nodeName", "metadata.name"} }

func selectionOf(scope proto.WatchScope) (selection, error) {
	byLabel, err := labels.Parse(scope.LabelSelector)
	if err != nil {
		return selection{}, err
	}
	byField, err := fields.ParseSelector(scope.FieldSelector)
	if err != nil {
		return selection{}, err
	}
	s := selection{scope: scope, byLabel: byLabel, byField: byField, anything: byLabel.Empty() && byField.Empty()}
	for _, field := range indexed() {
		if value, ok := byField.RequiresExactMatch(field); ok && s.term == (term{}) {
			s.term = term{field, value}
		}
	}
	return s, nil
}

func (s selection) matches(v view) bool {
	return s.anything || s.byLabel.Matches(v.labels) && s.byField.Matches(v.fields)
}

// covers reports whether the selection's resource and namespace include key.
func (s selection) covers(key store.Key) bool {
	return s.scope.Resource == key.Resource && (s.scope.Namespace == "" || s.scope.Namespace == key.Namespace)
}

// group is all readers of one class and one selection.
type group struct {
	selection
	class   string
	subject string
	// sequence of the last frame.
	sequence uint64
	renewed  time.Time
	// pending are events of the batch that is being matched.
	pending []*proto.Event
}

// index finds the groups of one resource that a change may concern.
type index struct {
	// scanned have no term: each is asked about each change.
	scanned []*group
	byTerm  map[term][]*group
}

// readers are those who share a group.
type readers struct {
	class string
	scope proto.WatchScope
}

// groups is every group.
type groups struct {
	byReaders map[readers]*group
	// inOrder are the groups by their subjects.
	inOrder    []*group
	byResource map[string]*index
	// retired is the highest sequence of a group that has been dropped. A group made
	// later begins beyond it, so that a reader who was not told of the drop sees a gap.
	retired uint64
}

// join is the group of a class and a selection, made if need be.
func (g *groups) join(class string, s selection, at time.Time) *group {
	of := readers{class, s.scope}
	joined := g.byReaders[of]
	if joined == nil {
		joined = &group{selection: s, class: class, subject: proto.WatchSubject(class, s.scope), sequence: g.retired + 1}
		g.byReaders[of] = joined
		g.add(joined)
	}
	joined.renewed = at
	return joined
}

func (g *groups) renew(of readers, at time.Time) bool {
	renewed := g.byReaders[of]
	if renewed == nil {
		return false
	}
	renewed.renewed = at
	return true
}

func (g *groups) add(added *group) {
	place, _ := slices.BinarySearchFunc(g.inOrder, added, func(a, b *group) int { return strings.Compare(a.subject, b.subject) })
	g.inOrder = slices.Insert(g.inOrder, place, added)
	of := g.byResource[added.scope.Resource]
	if of == nil {
		of = &index{byTerm: map[term][]*group{}}
		g.byResource[added.scope.Resource] = of
	}
	if added.term == (term{}) {
		of.scanned = append(of.scanned, added)
		return
	}
	of.byTerm[added.term] = append(of.byTerm[added.term], added)
}

// drop removes every group that nobody has renewed since, and returns their subjects in order.
func (g *groups) drop(since time.Time) (dropped []string) {
	g.inOrder = slices.DeleteFunc(g.inOrder, func(old *group) bool {
		if !old.renewed.Before(since) {
			return false
		}
		g.remove(old)
		dropped = append(dropped, old.subject)
		return true
	})
	return dropped
}

// remove forgets a group, but for its place in the order.
func (g *groups) remove(old *group) {
	delete(g.byReaders, readers{old.class, old.scope})
	g.retired = max(g.retired, old.sequence)
	of := g.byResource[old.scope.Resource]
	without := func(all []*group) []*group {
		return slices.DeleteFunc(all, func(each *group) bool { return each == old })
	}
	of.scanned = without(of.scanned)
	of.byTerm[old.term] = without(of.byTerm[old.term])
	if len(of.byTerm[old.term]) == 0 {
		delete(of.byTerm, old.term)
	}
	if len(of.scanned)+len(of.byTerm) == 0 {
		delete(g.byResource, old.scope.Resource)
	}
}

// concerned calls each for every group that a change from one view to another may
// concern, once.
func (of *index) concerned(before, after view, each func(*group)) {
	for _, g := range of.scanned {
		each(g)
	}
	if len(of.byTerm) == 0 {
		return
	}
	for _, field := range indexed() {
		was, is := before.fields[field], after.fields[field]
		for _, g := range of.byTerm[term{field, is}] {
			each(g)
		}
		if was == is {
			continue
		}
		for _, g := range of.byTerm[term{field, was}] {
			each(g)
		}
	}
}

// view is what selectors see of one version of an object.
type view struct {
	of     *store.Record
	labels labels.Set
	fields fields.Set
}

// views makes the view of each version once: a version is first the new side of a
// change and later the old side of the next.
type views struct {
	match func(resource string, obj kinds.Object) (labels.Set, fields.Set)
	kept  map[store.Key]view
}

// keptViews bounds the memory of views.
const keptViews = 8192

// see is the view of record; of nothing when record is nil.
func (v *views) see(record *store.Record) view {
	if record == nil {
		return view{}
	}
	if kept, ok := v.kept[record.Key]; ok && kept.of == record {
		return kept
	}
	seen := look(v.match, record)
	if len(v.kept) >= keptViews {
		clear(v.kept)
	}
	v.kept[record.Key] = seen
	return seen
}

func look(match func(string, kinds.Object) (labels.Set, fields.Set), record *store.Record) view {
	byLabel, byField := match(record.Key.Resource, record.Object)
	return view{of: record, labels: byLabel, fields: byField}
}
