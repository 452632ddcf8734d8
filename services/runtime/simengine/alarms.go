package simengine

import (
	"container/heap"
	"time"
)

// alarm is a time at which a container may change. An outdated alarm is harmless: the container is
// checked and has not changed.
type alarm struct {
	at time.Time
	id string
}

// alarms is a queue of alarms, earliest first.
type alarms struct{ queue queue }

func (a *alarms) push(alarm alarm) { heap.Push(&a.queue, alarm) }

func (a *alarms) pop() { heap.Pop(&a.queue) }

func (a *alarms) first() (alarm, bool) {
	if len(a.queue) == 0 {
		return alarm{}, false
	}
	return a.queue[0], true
}

// queue implements heap.Interface.
type queue []alarm

// Len implements heap.Interface.
func (q queue) Len() int { return len(q) }

// Less implements heap.Interface. Alarms of the same time ring in the order of container ids, so
// that runs are reproducible.
func (q queue) Less(i, j int) bool {
	if !q[i].at.Equal(q[j].at) {
		return q[i].at.Before(q[j].at)
	}
	return q[i].id < q[j].id
}

// Swap implements heap.Interface.
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

// Push implements heap.Interface.
func (q *queue) Push(x any) {
	if a, ok := x.(alarm); ok {
		*q = append(*q, a)
	}
}

// Pop implements heap.Interface.
func (q *queue) Pop() any {
	last := len(*q) - 1
	a := (*q)[last]
	(*q)[last] = alarm{}
	*q = (*q)[:last]
	return a
}
