package sim

import "time"

// event is a scheduled event of the world.
type event struct {
	// at is when, after the beginning; order is its turn among those of one time.
	at    time.Duration
	order uint64
	// place is where the queue has it, counted from 1; 0 when it does not.
	place int
	to    string
	// number is the incarnation that it is for; 0 for whichever.
	number uint64
	input  Input
	about  string
	// do is a function of the world, if the event is no input.
	do func()
}

func (e *event) before(other *event) bool {
	return e.at < other.at || e.at == other.at && e.order < other.order
}

// queue is a heap of coming events, the soonest first. Events that have become void can be removed.
type queue []*event

func (q *queue) push(e *event) {
	*q = append(*q, e)
	q.up(len(*q) - 1)
}

// remove takes an event out, if it is there.
func (q *queue) remove(e *event) {
	i, last := e.place-1, len(*q)-1
	if i < 0 {
		return
	}
	moved := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	e.place = 0
	if i < last {
		(*q)[i] = moved
		q.down(i)
	}
}

// up brings the event at i to its place, when that is before its parent.
func (q *queue) up(i int) {
	all := *q
	e := all[i]
	for i > 0 {
		parent := (i - 1) / 2
		if !e.before(all[parent]) {
			break
		}
		all[i] = all[parent]
		all[i].place = i + 1
		i = parent
	}
	all[i] = e
	e.place = i + 1
}

// down puts the event at i at the bottom, and brings it up from there to its place: what takes
// the place of another was last, and belongs near the bottom.
func (q *queue) down(i int) {
	all := *q
	e := all[i]
	for {
		child := 2*i + 1
		if child >= len(all) {
			break
		}
		if right := child + 1; right < len(all) && all[right].before(all[child]) {
			child = right
		}
		all[i] = all[child]
		all[i].place = i + 1
		i = child
	}
	all[i] = e
	q.up(i)
}
