package bus_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/partition"
	"github.com/podfall/podfall/services/bus"
)

func TestASlowLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestLink(t)
		node, hub := w.connect(t)
		atHub, atNode := receive(t, hub), receive(t, node)
		w.Set(partition.Condition{FromNode: partition.OneWay{Latency: time.Second}})
		send(t, node, "1")
		send(t, hub, "a")
		atNode.want(t, "the other way", "a", open)
		time.Sleep(time.Second - time.Millisecond)
		atHub.want(t, "too early", "", open)
		time.Sleep(time.Millisecond)
		atHub.want(t, "in time", "1", open)

		// Each piece takes as long, and none waits for the one before it.
		send(t, node, "2")
		time.Sleep(500 * time.Millisecond)
		send(t, node, "3")
		time.Sleep(500 * time.Millisecond)
		atHub.want(t, "one by one", "12", open)
		w.Set(partition.Condition{})
		atHub.want(t, "healed", "123", open)

		// A hundred bytes a second.
		w.Set(partition.Condition{FromNode: partition.OneWay{Bandwidth: 100}})
		send(t, node, strings.Repeat("x", 300))
		time.Sleep(1500 * time.Millisecond)
		if got, _ := atHub.sofar(); len(got) < 3+140 || len(got) > 3+160 {
			t.Errorf("after 1.5 s of 100 bytes a second %d bytes have passed", len(got)-3)
		}
		time.Sleep(2 * time.Second)
		if got, _ := atHub.sofar(); len(got) != 303 {
			t.Errorf("%d bytes have passed, want all 300", len(got)-3)
		}
	})
}

// TestJitter: jitter depends on the seed, and changes no order.
func TestJitter(t *testing.T) {
	arrivals := func(seed uint64) (at []time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			w := newTestLink(t)
			node, hub := w.connect(t)
			atHub := receive(t, hub)
			w.Set(partition.Condition{FromNode: partition.OneWay{Latency: time.Second, Jitter: time.Second, Seed: seed}})
			for range 5 {
				begun := time.Now()
				before, _ := atHub.sofar()
				send(t, node, "x")
				for got := before; got == before; got, _ = atHub.sofar() {
					time.Sleep(time.Millisecond)
				}
				at = append(at, time.Since(begun))
			}
		})
		return at
	}
	first, again, other := arrivals(1), arrivals(1), arrivals(2)
	same := true
	for i, took := range first {
		if took != again[i] {
			t.Errorf("piece %d took %s and %s with one seed", i, took, again[i])
		}
		if took < time.Second || took > 2*time.Second+time.Millisecond {
			t.Errorf("piece %d took %s, want 1 to 2 s", i, took)
		}
		same = same && took == other[i]
	}
	if same {
		t.Errorf("two seeds took the same times: %v", first)
	}
}

// TestTheSwitchboardFlapsAndEnds cuts and heals by the clock alone.
func TestTheSwitchboardFlapsAndEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestLink(t)
		other := bus.NewLink(bus.LinkConfig{Member: "n2"})
		switches := bus.NewSwitchboard([]*bus.Link{w.Link, other}, clock.Clock{})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- switches.Run(ctx) }()
		seconds := func(n int) metav1.Duration { return metav1.Duration{Duration: time.Duration(n) * time.Second} }
		cut, err := partition.New("c", partition.Spec{
			Members: []string{"n1"}, Flap: partition.Flap{Down: seconds(2), Up: seconds(3)}, Duration: seconds(11),
		}, []string{"n1", "n2"}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		switches.Set([]partition.Cut{cut})
		var line strings.Builder
		time.Sleep(500 * time.Millisecond)
		for range 14 {
			synctest.Wait()
			line.WriteString(map[bool]string{true: "+", false: "-"}[w.Condition().IsHealthy()])
			if !other.Condition().IsHealthy() {
				t.Error("the other link is cut too")
			}
			time.Sleep(time.Second)
		}
		if got, want := line.String(), "--+++--+++-+++"; got != want {
			t.Errorf("by the second the link was %s, want %s", got, want)
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Run: %v", err)
		}
	})
}
