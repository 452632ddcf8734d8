package podworker

import (
	"slices"
	"testing"
)

// KBL-18: a mark interrupts the sync that is under way: at once, and once.
func TestInterruptedOnce(t *testing.T) {
	w := newWorker(Config{})
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
