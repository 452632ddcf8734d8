// Package model is the API as a child would write it: a map of small objects and a step
// for each request. It shares no code with the services, knows no concurrency, disk,
// encoding or kind beyond two, and is right by being short. The test sends the same
// random requests to it and to a real apiserver; they must agree about every answer.
package model

import (
	"maps"
	"slices"
)

// Kind is one of the two that the model knows: pods are deleted gracefully, config maps
// are not.
type Kind string

// The kinds.
const (
	Pod       Kind = "pods"
	ConfigMap Kind = "configmaps"
)

// Key names an object.
type Key struct {
	Kind Kind
	Name string
}

// Object is the model's state of one object.
type Object struct {
	// Number counts all objects ever created; it is the UID.
	Number     int
	Revision   int64
	Generation int64
	Label      string
	Finalizers []string
	// Deadline is the deletionTimestamp in Unix seconds; 0 is none.
	Deadline int64
	// Grace is the deletionGracePeriodSeconds, when Deadline is set and HasGrace.
	Grace    int64
	HasGrace bool
	// TGPS, Node and Phase are a pod's.
	TGPS  int64
	Node  string
	Phase string
}

// Verb is what a request does.
type Verb string

// The verbs. Tick lets Seconds pass.
const (
	Create Verb = "create"
	Get    Verb = "get"
	List   Verb = "list"
	Put    Verb = "put"
	Phase  Verb = "phase"
	Bind   Verb = "bind"
	Delete Verb = "delete"
	Tick   Verb = "tick"
)

// Request is one request. The verb decides which fields count.
type Request struct {
	Verb Verb
	Key  Key
	// Label and Finalizers are what create and put write; Node what create and bind
	// write; Text is the phase.
	Label      string
	Finalizers []string
	Node       string
	Text       string
	// Grace is terminationGracePeriodSeconds for create and gracePeriodSeconds for
	// delete; nil is unset.
	Grace *int64
	// Condition is a precondition of put and delete.
	Condition Condition
	// Policy is Foreground, Background, Orphan or empty; DryRun changes nothing.
	Policy  string
	DryRun  bool
	Seconds int64
}

// Condition is a precondition on the object.
type Condition string

// The conditions: none, one that holds, and two that do not hold.
const (
	Always        Condition = ""
	Holds         Condition = "holds"
	OtherUID      Condition = "other uid"
	StaleRevision Condition = "stale revision"
)

// Answer is the answer to a request.
type Answer struct {
	Code   int
	Reason string
	// Object is set if the answer has one.
	Object *Object
	// Revisions is set for list: the revisions by name.
	Revisions map[string]int64
}

// Cluster is the whole state. Step returns the next state; a Cluster never changes.
type Cluster struct {
	Objects  map[Key]Object
	Revision int64
	Now      int64
	Created  int
}

// Step answers a request.
func (c Cluster) Step(r Request) (Cluster, Answer) {
	c.Objects = maps.Clone(c.Objects)
	old, exists := c.Objects[r.Key]
	switch {
	case r.Verb == Tick:
		c.Now += r.Seconds
		return c, Answer{Code: 200}
	case r.Verb == List:
		all := map[string]int64{}
		for key, o := range c.Objects {
			if key.Kind == r.Key.Kind {
				all[key.Name] = o.Revision
			}
		}
		return c, Answer{Code: 200, Revisions: all}
	case r.Verb == Create && exists:
		return c, Answer{Code: 409, Reason: "AlreadyExists"}
	case r.Verb == Create:
		return c.create(r)
	case !exists:
		return c, Answer{Code: 404, Reason: "NotFound"}
	}
	switch r.Verb {
	case Tick, List, Create, Get:
	case Put:
		return c.put(r, old)
	case Phase:
		changed := old
		changed.Phase = r.Text
		return c.write(r.Key, old, changed)
	case Bind:
		if old.Deadline != 0 || old.Node != "" {
			return c, Answer{Code: 409, Reason: "Conflict"}
		}
		changed := old
		changed.Node = r.Node
		return c.write(r.Key, old, changed)
	case Delete:
		return c.delete(r, old)
	}
	return c, answerWith(old)
}

func answerWith(o Object) Answer { return Answer{Code: 200, Object: &o} }

func (c Cluster) create(r Request) (Cluster, Answer) {
	o := Object{Number: c.Created, Label: r.Label, Finalizers: r.Finalizers}
	if r.Key.Kind == Pod {
		o.Generation, o.TGPS, o.Node, o.Phase = 1, 30, r.Node, "Pending"
		if r.Grace != nil {
			o.TGPS = *r.Grace
		}
		if o.TGPS < 0 {
			o.TGPS = 1
		}
	}
	if r.DryRun {
		o.Number = -1
		return c, Answer{Code: 201, Object: &o}
	}
	c.Created++
	c, answer := c.write(r.Key, Object{Number: -1}, o)
	answer.Code = 201
	return c, answer
}

// write stores an object, unless it is unchanged.
func (c Cluster) write(key Key, old, changed Object) (Cluster, Answer) {
	if isSame(old, changed) {
		return c, answerWith(old)
	}
	c.Revision++
	changed.Revision = c.Revision
	c.Objects[key] = changed
	return c, answerWith(changed)
}

func isSame(a, b Object) bool {
	equal := slices.Equal(a.Finalizers, b.Finalizers)
	a.Finalizers, b.Finalizers = nil, nil
	return equal && a.Number == b.Number && a.Revision == b.Revision && a.Generation == b.Generation && a.Label == b.Label &&
		a.Deadline == b.Deadline && a.Grace == b.Grace && a.HasGrace == b.HasGrace && a.Node == b.Node && a.Phase == b.Phase
}

func (c Cluster) put(r Request, old Object) (Cluster, Answer) {
	if r.Condition == StaleRevision {
		return c, Answer{Code: 409, Reason: "Conflict"}
	}
	changed := old
	changed.Label, changed.Finalizers = r.Label, r.Finalizers
	if old.Deadline != 0 {
		for _, finalizer := range r.Finalizers {
			if !slices.Contains(old.Finalizers, finalizer) {
				return c, Answer{Code: 422, Reason: "Invalid"}
			}
		}
		if len(r.Finalizers) == 0 && (!old.HasGrace || old.Grace == 0) {
			c, _ = c.remove(r.Key, changed)
			changed.Revision = 0 // answered as it was submitted
			return c, answerWith(changed)
		}
	}
	return c.write(r.Key, old, changed)
}

// remove removes an object. The answer for a pod is the pod as it was last; for a config map it is
// a Status.
func (c Cluster) remove(key Key, last Object) (Cluster, Answer) {
	c.Revision++
	delete(c.Objects, key)
	if key.Kind == ConfigMap {
		return c, Answer{Code: 200}
	}
	last.Revision = c.Revision
	return c, answerWith(last)
}

func (c Cluster) delete(r Request, old Object) (Cluster, Answer) {
	if r.Condition == OtherUID || r.Condition == StaleRevision {
		return c, Answer{Code: 409, Reason: "Conflict"}
	}
	next, answer := c.markForDeletion(r, old)
	if r.DryRun {
		return c, answer
	}
	return next, answer
}

func (c Cluster) markForDeletion(r Request, old Object) (Cluster, Answer) {
	c.Objects = maps.Clone(c.Objects)
	asked := r.Grace
	if asked != nil && *asked < 0 {
		one := int64(1)
		asked = &one
	}
	marked := old
	marked.Finalizers = finalizersAfterDelete(r, old)
	switch {
	case r.Key.Kind == ConfigMap || (old.Deadline != 0 && old.Grace == 0):
		return c.deleteWithoutGrace(r.Key, old, marked)
	case old.Deadline == 0:
		grace := old.TGPS
		if asked != nil {
			grace = *asked
		}
		if old.Node == "" || old.Phase == "Succeeded" || old.Phase == "Failed" {
			grace = 0
		}
		marked.Deadline, marked.Grace, marked.HasGrace = c.Now+grace, grace, true
		marked.Generation++
		return c.writeMark(r.Key, old, marked, grace)
	case asked == nil || *asked >= old.Grace:
		return c, answerWith(old)
	}
	marked.Deadline, marked.Grace = old.Deadline-old.Grace+*asked, *asked
	if marked.Deadline < c.Now {
		marked.Deadline = c.Now
		if *asked != 0 {
			marked.Grace = 1
		}
	}
	return c.writeMark(r.Key, old, marked, *asked)
}

// deleteWithoutGrace deletes an object without a grace period, or with none left: only finalizers
// keep it.
func (c Cluster) deleteWithoutGrace(key Key, old, marked Object) (Cluster, Answer) {
	if len(marked.Finalizers) == 0 {
		return c.remove(key, old)
	}
	if old.Deadline == 0 && old.Generation > 0 {
		marked.Generation++
	}
	if old.Deadline == 0 || old.Deadline > c.Now {
		marked.Deadline = c.Now
	}
	marked.Grace, marked.HasGrace = 0, true
	return c.write(key, old, marked)
}

// writeMark writes the mark, and removes the object if neither a grace period nor a finalizer is
// left.
func (c Cluster) writeMark(key Key, old, marked Object, left int64) (Cluster, Answer) {
	c, answer := c.write(key, old, marked)
	if left > 0 || len(marked.Finalizers) > 0 {
		return c, answer
	}
	return c.remove(key, marked)
}

// finalizersAfterDelete returns the object's finalizers, with those of the garbage collector as the
// policy asks for.
func finalizersAfterDelete(r Request, old Object) []string {
	collector := ""
	var others []string
	for _, finalizer := range old.Finalizers {
		switch finalizer {
		case "orphan", "foregroundDeletion":
			collector = finalizer
		default:
			others = append(others, finalizer)
		}
	}
	switch r.Policy {
	case "Foreground":
		collector = "foregroundDeletion"
	case "Orphan":
		collector = "orphan"
	case "Background":
		collector = ""
	}
	if collector != "" {
		others = append(others, collector)
	}
	if before, after := slices.Sorted(slices.Values(old.Finalizers)), slices.Sorted(slices.Values(others)); slices.Equal(before, after) {
		return old.Finalizers // another order is no change
	}
	return others
}
