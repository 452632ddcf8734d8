package podworker

import (
	"slices"
	"sync"
	"testing"
)

// KBL-18: a mark interrupts the sync that is under way: at once, and once.
func TestInterruptedOnce(t *testing.T) {
	w := newWorker(Config{}, &sync.WaitGroup{})
	if !w.step(Seen{Pod: podWithGraces(30, -1)}) {
		t.Fatal("a pod that was seen is not synced")
	}
	w.actions = nil // its goroutine is at it
	interrupts := 0
	w.interrupt = func() { interrupts++ }
	if w.step(Seen{Pod: podWithGraces(30, 30)}) {
		t.Error("a second goroutine is to start")
	}
	if interrupts != 1 || slices.Contains(w.actions, Action(Interrupt{})) {
		t.Errorf("interrupted %d times, and to do is %v", interrupts, w.actions)
	}
}

// KBL-18: an attempt that has not begun takes up a grace that has become shorter meanwhile.
func TestAStopBeginsWithTheShortestGrace(t *testing.T) {
	w := newWorker(Config{}, &sync.WaitGroup{})
	w.step(Seen{Pod: podWithGraces(30, 10)})
	w.step(Seen{Pod: podWithGraces(30, 0)}) // before its goroutine has carried out anything
	stop, ok := w.nextAction(t.Context()).(Stop)
	if !ok || stop.Grace != MinimumGrace {
		t.Errorf("begins with %+v, want a stop with a grace of %d", stop, MinimumGrace)
	}
}
