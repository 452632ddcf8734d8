package attachdetach

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/controllers/view"
)

// maxViewDelay is how long a view may be late before it is trusted again, as upstream's
// expectations have it (ExpectationsTimeout).
const maxViewDelay = 5 * time.Minute

// Overlay keeps objects as the API answered our own writes, until the view shows them. So a volume
// that was just attached to a node is not attached to another because the view is late. It is safe
// for concurrent use.
type Overlay[X any, T interface {
	*X
	kinds.Object
}] struct {
	mu      sync.Mutex
	objects map[string]overlayEntry[X]
}

type overlayEntry[X any] struct {
	object *X
	at     time.Time
}

// Put records an answer of the API at now. An object that the view does not show for 5 min is
// forgotten.
func (w *Overlay[X, T]) Put(stored T, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.objects == nil {
		w.objects = map[string]overlayEntry[X]{}
	}
	if have, known := w.objects[stored.GetName()]; !known || view.Revision(stored) > view.Revision(T(have.object)) {
		w.objects[stored.GetName()] = overlayEntry[X]{stored, now}
	}
}

// Observe takes a change of the view; now is nil for an object that is gone.
func (w *Overlay[X, T]) Observe(old, now T) {
	w.mu.Lock()
	defer w.mu.Unlock()
	shown := T(view.Either[X](old, now))
	have, known := w.objects[shown.GetName()]
	if known && (view.Revision(shown) >= view.Revision(T(have.object)) || now == nil && shown.GetUID() == T(have.object).GetUID()) {
		delete(w.objects, shown.GetName())
	}
}

// Forget forgets an object that the API does not have.
func (w *Overlay[X, T]) Forget(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.objects, name)
}

// Merge returns what the view shows, with newer objects in place of older ones, by name. It reads
// the view under its lock: otherwise an object that the view takes in meanwhile would be in
// neither.
func (w *Overlay[X, T]) Merge(shown func() []T, now time.Time) []T {
	w.mu.Lock()
	defer w.mu.Unlock()
	seen, newest := map[string]bool{}, slices.Clone(shown())
	for i, object := range newest {
		seen[object.GetName()] = true
		if have, known := w.objects[object.GetName()]; known && view.Revision(T(have.object)) > view.Revision(object) {
			newest[i] = have.object
		}
	}
	for name, have := range w.objects { // sorted below
		switch {
		case now.Sub(have.at) > maxViewDelay:
			delete(w.objects, name)
		case !seen[name]:
			newest = append(newest, have.object)
		}
	}
	slices.SortFunc(newest, func(a, b T) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return newest
}
