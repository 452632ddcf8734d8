package podworker

import (
	"slices"
	"sync"
	"testing"
)

// KBL-18: a mark interrupts the sync that is under way: at once, and once.
func TestInterruptedOnce(t *testing.T) {
	w := newWorker(Config{}, &sync.WaitGroup{})
	if !w.tell(Seen{Pod: graced(30, -1)}) {
		t.Fatal("a pod that was seen is not synced")
	}
	w.todo = nil // its goroutine is at it
	interrupts := 0
	w.interrupt = func() { interrupts++ }
	if w.tell(Seen{Pod: graced(30, 30)}) {
		t.Error("a second goroutine is to start")
	}
	if interrupts != 1 || slices.Contains(w.todo, Action(Interrupt{})) {
		t.Errorf("interrupted %d times, and to do is %v", interrupts, w.todo)
	}
}

// KBL-18: an attempt that has not begun takes up a grace that has become shorter meanwhile.
func TestAStopBeginsWithTheShortestGrace(t *testing.T) {
	w := newWorker(Config{}, &sync.WaitGroup{})
	w.tell(Seen{Pod: graced(30, 10)})
	w.tell(Seen{Pod: graced(30, 0)}) // before its goroutine came to anything
	stop, ok := w.take(t.Context()).(Stop)
	if !ok || stop.Grace != MinimumGrace {
		t.Errorf("begins with %+v, want a stop with a grace of %d", stop, MinimumGrace)
	}
}
