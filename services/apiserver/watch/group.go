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

// selection is a parsed scope that matches objects.
type selection struct {
	scope      proto.WatchScope
	byLabel    labels.Selector
	byField    fields.Selector
	matchesAll bool
	// term is a value that every match has, if the scope has one that is worth an index.
	term term
}

// term is a field and its value.
type term struct{ field, value string }

// indexedFields are the fields by which many groups select one value each: every kubelet follows
// the pods of its own node, and a client may wait for one name.
func indexedFields() []string { return []string{"spec.nodeName", "metadata.name"} }

func newSelection(scope proto.WatchScope) (selection, error) {
	byLabel, err := labels.Parse(scope.LabelSelector)
	if err != nil {
		return selection{}, err
	}
	byField, err := fields.ParseSelector(scope.FieldSelector)
	if err != nil {
		return selection{}, err
	}
	s := selection{scope: scope, byLabel: byLabel, byField: byField, matchesAll: byLabel.Empty() && byField.Empty()}
	for _, field := range indexedFields() {
		if value, ok := byField.RequiresExactMatch(field); ok && s.term == (term{}) {
			s.term = term{field, value}
		}
	}
	return s, nil
}

func (s selection) matches(v view) bool {
	return s.matchesAll || s.byLabel.Matches(v.labels) && s.byField.Matches(v.fields)
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
	// sequence is that of the last frame.
	sequence uint64
	renewed  time.Time
	// pending holds events of the batch that is being matched.
	pending []*proto.Event
}

// index finds the groups of one resource that a change may concern.
type index struct {
	// scanned groups have no term: each is matched against each change.
	scanned []*group
	byTerm  map[term][]*group
}

// groupKey identifies a group: the class of its readers and their scope.
type groupKey struct {
	class string
	scope proto.WatchScope
}

// groups holds every group.
type groups struct {
	byKey map[groupKey]*group
	// sorted holds the groups ordered by subject.
	sorted     []*group
	byResource map[string]*index
	// maxDropped is the highest sequence of a dropped group. A later group begins beyond it, so
	// that a reader who missed the drop sees a gap.
	maxDropped uint64
}

// join returns the group of a class and a selection, and creates it if it is missing.
func (g *groups) join(class string, s selection, at time.Time) *group {
	key := groupKey{class, s.scope}
	joined := g.byKey[key]
	if joined == nil {
		joined = &group{selection: s, class: class, subject: proto.WatchSubject(class, s.scope), sequence: g.maxDropped + 1}
		g.byKey[key] = joined
		g.insert(joined)
	}
	joined.renewed = at
	return joined
}

func (g *groups) renew(key groupKey, at time.Time) bool {
	renewed := g.byKey[key]
	if renewed == nil {
		return false
	}
	renewed.renewed = at
	return true
}

func (g *groups) insert(added *group) {
	place, _ := slices.BinarySearchFunc(g.sorted, added, func(a, b *group) int { return strings.Compare(a.subject, b.subject) })
	g.sorted = slices.Insert(g.sorted, place, added)
	idx := g.byResource[added.scope.Resource]
	if idx == nil {
		idx = &index{byTerm: map[term][]*group{}}
		g.byResource[added.scope.Resource] = idx
	}
	if added.term == (term{}) {
		idx.scanned = append(idx.scanned, added)
		return
	}
	idx.byTerm[added.term] = append(idx.byTerm[added.term], added)
}

// dropIdle removes every group that no reader has renewed since the given time, and returns their
// subjects in order.
func (g *groups) dropIdle(since time.Time) (dropped []string) {
	g.sorted = slices.DeleteFunc(g.sorted, func(old *group) bool {
		if !old.renewed.Before(since) {
			return false
		}
		g.remove(old)
		dropped = append(dropped, old.subject)
		return true
	})
	return dropped
}

// remove deletes a group from the maps, but not from sorted.
func (g *groups) remove(old *group) {
	delete(g.byKey, groupKey{old.class, old.scope})
	g.maxDropped = max(g.maxDropped, old.sequence)
	idx := g.byResource[old.scope.Resource]
	without := func(all []*group) []*group {
		return slices.DeleteFunc(all, func(each *group) bool { return each == old })
	}
	idx.scanned = without(idx.scanned)
	idx.byTerm[old.term] = without(idx.byTerm[old.term])
	if len(idx.byTerm[old.term]) == 0 {
		delete(idx.byTerm, old.term)
	}
	if len(idx.scanned)+len(idx.byTerm) == 0 {
		delete(g.byResource, old.scope.Resource)
	}
}

// forEachCandidate calls each once for every group that a change from one view to another may
// concern.
func (x *index) forEachCandidate(before, after view, each func(*group)) {
	for _, g := range x.scanned {
		each(g)
	}
	if len(x.byTerm) == 0 {
		return
	}
	for _, field := range indexedFields() {
		was, is := before.fields[field], after.fields[field]
		for _, g := range x.byTerm[term{field, is}] {
			each(g)
		}
		if was == is {
			continue
		}
		for _, g := range x.byTerm[term{field, was}] {
			each(g)
		}
	}
}

// view is what selectors see of one version of an object.
type view struct {
	record *store.Record
	labels labels.Set
	fields fields.Set
}

// viewCache computes the view of each version once. A version is first the new side of a change and
// later the old side of the next.
type viewCache struct {
	match  func(resource string, obj kinds.Object) (labels.Set, fields.Set)
	cached map[store.Key]view
}

// maxCachedViews bounds the memory of viewCache.
const maxCachedViews = 8192

// get returns the view of record; the empty view if record is nil.
func (v *viewCache) get(record *store.Record) view {
	if record == nil {
		return view{}
	}
	if kept, ok := v.cached[record.Key]; ok && kept.record == record {
		return kept
	}
	seen := newView(v.match, record)
	if len(v.cached) >= maxCachedViews {
		clear(v.cached)
	}
	v.cached[record.Key] = seen
	return seen
}

func newView(match func(string, kinds.Object) (labels.Set, fields.Set), record *store.Record) view {
	byLabel, byField := match(record.Key.Resource, record.Object)
	return view{record: record, labels: byLabel, fields: byField}
}
