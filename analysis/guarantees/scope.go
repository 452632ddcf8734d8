package guarantees

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/podfall/podfall/internal/history"
)

// scope is what a list or a watch selects, as far as commits show it.
type scope struct {
	resource, namespace string
	labels              labels.Selector
	fields              fields.Selector
}

// scopeOf returns the scope of selectors; false if commits do not show the selected fields.
func (h *clusterHistory) scopeOf(resource, namespace, byLabel, byField string) (scope, bool) {
	s := scope{resource: resource, namespace: namespace}
	var err error
	if s.labels, err = labels.Parse(byLabel); err != nil {
		return s, false
	}
	if s.fields, err = fields.ParseSelector(byField); err != nil {
		return s, false
	}
	if !s.labels.Empty() && len(h.commits) > 0 && h.commits[0].Created == 0 {
		return s, false // an older release did not record labels
	}
	for _, required := range s.fields.Requirements() {
		ofPod := required.Field == "spec.nodeName" || required.Field == "status.phase"
		if !strings.HasPrefix(required.Field, "metadata.name") && (!ofPod || resource != podResource) {
			return s, false
		}
	}
	return s, true
}

// inCollection reports whether a committed object is in the scope's resource and namespace.
func (s scope) inCollection(c *commit) bool {
	return c.Resource == s.resource && (s.namespace == "" || s.namespace == c.object.namespace)
}

// selects reports whether the label and field selectors match.
func (s scope) selects(c *commit) bool {
	if !s.labels.Empty() && !s.labels.Matches(labels.Set(c.Labels)) {
		return false
	}
	if s.fields.Empty() {
		return true
	}
	return s.fields.Matches((*commitFields)(c))
}

// commitFields is a commit as field selectors see it.
type commitFields commit

// Has implements fields.Fields. A field that commits record exists, even if it is empty.
func (s *commitFields) Has(field string) bool {
	switch field {
	case "metadata.name", "metadata.namespace", "spec.nodeName", "status.phase":
		return true
	}
	return false
}

// Get implements fields.Fields.
func (s *commitFields) Get(field string) string {
	switch field {
	case "metadata.name":
		return s.object.name
	case "metadata.namespace":
		return s.object.namespace
	case "spec.nodeName":
		return s.Node
	case "status.phase":
		return s.Phase
	}
	return ""
}

// eventType returns the type of the event that a commit is for a watch of the scope; empty for
// none.
func (s scope) eventType(c *commit) string {
	if !s.inCollection(c) {
		return ""
	}
	was := c.Op != added && c.replaced != nil && s.selects(c.replaced)
	is := c.Op != deleted && s.selects(c)
	switch {
	case is && was:
		return modified
	case is:
		return added
	case was:
		return deleted
	}
	return ""
}

// commitLog is a gapless part of the history from which the store's states can be rebuilt.
type commitLog struct {
	// from is the first revision with a known state, and to the last.
	from, to int64
	commits  []*commit // all that make up the state at from, and those up to to
}

// findCommitLog returns what is known of the store's states: all of them from the beginning, or
// those that the store's file has.
func (h *clusterHistory) findCommitLog() commitLog {
	var first *history.StoreOpen
	for _, open := range factsOf[history.StoreOpen](h) {
		first = &open
		break
	}
	r := commitLog{commits: h.commits}
	switch {
	case first != nil && first.Objects == 0 && h.completeFrom == 0:
		r.from = first.Revision
	case h.hasFile:
		r.from = h.compacted
		r.commits = nil
		for _, c := range h.commits {
			if c.stored {
				r.commits = append(r.commits, c)
			}
		}
	default:
		return commitLog{from: 1, to: 0}
	}
	r.to = r.from
	for i, c := range r.commits {
		if c.Revision <= r.from {
			continue
		}
		if c.Revision != r.to+1 {
			r.commits = r.commits[:i]
			break
		}
		r.to = c.Revision
	}
	return r
}

// knowsState reports whether the state at a revision is known.
func (r *commitLog) knowsState(revision int64) bool { return r.from <= revision && revision <= r.to }

// changes returns the commits after one revision up to another; none if `until` is older.
func (r *commitLog) changes(after, until int64) []*commit {
	from := r.countUpTo(after)
	return r.commits[from:max(from, r.countUpTo(until))]
}

// countUpTo returns how many commits there are up to a revision.
func (r *commitLog) countUpTo(revision int64) int {
	at, found := slices.BinarySearchFunc(r.commits, revision, func(c *commit, revision int64) int { return cmp.Compare(c.Revision, revision) })
	if found {
		at++
	}
	return at
}

// watchDigest returns the digest of what a watch of the scope is sent after one revision up to
// another.
func (r *commitLog) watchDigest(s scope, after, until int64) history.Sum {
	var sum history.Sum
	for _, c := range r.changes(after, until) {
		if typ := s.eventType(c); typ != "" {
			sum.Add(typ, c.Revision)
		}
	}
	return sum
}

// stateReplay replays a commit log. Its questions must come in the order of revisions.
type stateReplay struct {
	*commitLog
	next    int
	objects map[string]map[string]*commit // by resource and key
	sorted  map[string][]*commit          // by resource, for those that have not changed since
}

func (r *commitLog) replay() *stateReplay {
	return &stateReplay{commitLog: r, objects: map[string]map[string]*commit{}, sorted: map[string][]*commit{}}
}

// advanceTo moves on to a revision.
func (s *stateReplay) advanceTo(revision int64) {
	for ; s.next < len(s.commits) && s.commits[s.next].Revision <= revision; s.next++ {
		c := s.commits[s.next]
		if s.objects[c.Resource] == nil {
			s.objects[c.Resource] = map[string]*commit{}
		}
		if c.Op == deleted {
			delete(s.objects[c.Resource], c.Key)
		} else {
			s.objects[c.Resource][c.Key] = c
		}
		delete(s.sorted, c.Resource)
	}
}

// objectsOf returns the objects of a resource, sorted by namespace and name.
func (s *stateReplay) objectsOf(resource string) []*commit {
	if all, there := s.sorted[resource]; there {
		return all
	}
	all := make([]*commit, 0, len(s.objects[resource]))
	for _, c := range s.objects[resource] {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b *commit) int { return a.object.compare(b.object.namespace, b.object.name) })
	s.sorted[resource] = all
	return all
}

// pageDigest returns the digest of a page of the scope, and whether more follows. The page begins
// after the key `after` unless that is empty, and has at most `limit` items unless that is 0.
func (s *stateReplay) pageDigest(of scope, event, after string, limit int64) (sum history.Sum, more bool) {
	namespace, name := splitKey(after)
	for _, c := range s.objectsOf(of.resource) {
		if !of.inCollection(c) || !of.selects(c) || after != "" && c.object.compare(namespace, name) <= 0 {
			continue
		}
		if limit > 0 && int64(sum.Count) == limit {
			return sum, true
		}
		sum.Add(event, c.Revision)
	}
	return sum, false
}
