package fault_test

import (
	"context"
	"errors"
	"maps"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/fault"
)

func add(t *testing.T, name string, spec fault.Spec) fault.Fault {
	t.Helper()
	f, err := fault.New(name, spec, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestNoFaults(t *testing.T) {
	for name, table := range map[string]*fault.Table{"nil": nil, "new": fault.NewTable(fault.Config{})} {
		if err := table.Inject(t.Context(), fault.VolumeMount, fault.Attributes{}); err != nil {
			t.Errorf("%s: Pass: %v", name, err)
		}
		if _, ok := table.FindEffect(fault.NodePressure, fault.Attributes{}, fault.Value); ok || len(table.Faults())+len(table.TriggerCounts()) > 0 {
			t.Errorf("%s: something is broken", name)
		}
	}
}

func TestInject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hits []string
		table := fault.NewTable(fault.Config{
			Process: "kubelet/n1", Node: "n1",
			OnTrigger: func(f fault.Fault, p fault.Point, about fault.Attributes) {
				hits = append(hits, f.Name+" "+string(p)+" "+about.Process+" "+about.Node+" "+about.Pod)
			},
		})
		slow := add(t, "slow", fault.Spec{
			Point: fault.VolumeUnmount, Effect: fault.Effect{Kind: fault.Delay, Delay: metav1.Duration{Duration: 3 * time.Second}},
		})
		fails := add(t, "fails", fault.Spec{
			Point: fault.VolumeUnmount, Where: fault.Attributes{Node: "n1", Pod: "web"}, Effect: fault.Effect{Kind: fault.Error, Message: "busy"}, Count: 1,
		})
		table.Set([]fault.Fault{slow, fails})
		web := fault.Attributes{Pod: "web"}

		began := time.Now()
		var injected *fault.Injected
		if err := table.Inject(t.Context(), fault.VolumeUnmount, web); !errors.As(err, &injected) || err.Error() != "busy" || injected.Fault != "fails" {
			t.Errorf("Pass: %v", err)
		}
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("Pass took %s, want 3s", took)
		}
		table.Set([]fault.Fault{fails, slow}) // the same ones: the count goes on
		if err := table.Inject(t.Context(), fault.VolumeUnmount, web); err != nil {
			t.Errorf("the second time: %v", err)
		}
		if want := map[string]uint64{"slow": 2, "fails": 1}; !maps.Equal(table.TriggerCounts(), want) {
			t.Errorf("struck %v, want %v", table.TriggerCounts(), want)
		}
		time.Sleep(time.Second)
		again := add(t, "fails", fails.Spec) // another fault of this name
		table.Set([]fault.Fault{again})
		if err := table.Inject(t.Context(), fault.VolumeUnmount, web); err == nil {
			t.Error("the new fault of the name goes on counting the old one's")
		}
		if len(hits) != 4 || hits[1] != "fails volume.unmount kubelet/n1 n1 web" {
			t.Errorf("told %q", hits)
		}
	})
}

// TestHang: a waiting caller continues when the fault is cleared, expires, or the caller gives up.
func TestHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := fault.NewTable(fault.Config{})
		hang := fault.Spec{Point: "cri.*", Effect: fault.Effect{Kind: fault.Hang}}
		wait := func(ctx context.Context) (took time.Duration, err error) {
			began := time.Now()
			err = table.Inject(ctx, fault.CRI("StopContainer"), fault.Attributes{})
			return time.Since(began), err
		}

		table.Set([]fault.Fault{add(t, "hang", hang)})
		go func() {
			time.Sleep(time.Minute)
			table.Set(append(table.Faults(), add(t, "other", fault.Spec{Point: fault.VolumeMount, Effect: fault.Effect{Kind: fault.Error}})))
			time.Sleep(time.Minute)
			table.Set(nil)
		}()
		if took, err := wait(t.Context()); took != 2*time.Minute || err != nil {
			t.Errorf("cleared: took %s, %v", took, err)
		}

		hang.Duration.Duration = time.Hour
		table.Set([]fault.Fault{add(t, "hang", hang)})
		if took, err := wait(t.Context()); took != time.Hour || err != nil {
			t.Errorf("over: took %s, %v", took, err)
		}

		table.Set([]fault.Fault{add(t, "hang", hang)})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if took, err := wait(ctx); took != time.Second || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("given up: took %s, %v", took, err)
		}
	})
}

// TestChanceForgets: occurrences are counted as long as chance needs them, and no longer, so that a
// fault may last for ever.
func TestChanceForgets(t *testing.T) {
	spec := fault.Spec{Point: fault.APIRequest, Effect: fault.Effect{Kind: fault.Error}, Probability: 0.5, Seed: 1}
	struck := func(others int) (pattern string) {
		table := fault.NewTable(fault.Config{})
		table.Set([]fault.Fault{add(t, "f", spec)})
		for range 64 {
			if table.Inject(t.Context(), fault.APIRequest, fault.Attributes{Name: "web"}) != nil {
				pattern += "x"
			} else {
				pattern += "."
			}
			for i := range others {
				_ = table.Inject(t.Context(), fault.APIRequest, fault.Attributes{Name: strconv.Itoa(i)})
			}
		}
		return pattern
	}
	if alone, among := struck(0), struck(4000); alone != among || !strings.Contains(alone, "x.") {
		t.Errorf("alone %s, among 4000 others %s", alone, among)
	}
	table := fault.NewTable(fault.Config{})
	table.Set([]fault.Fault{add(t, "f", spec)})
	pass := func(from, to int) {
		for i := from; i < to; i++ {
			_ = table.Inject(t.Context(), fault.APIRequest, fault.Attributes{Name: strconv.Itoa(i)})
		}
	}
	pass(0, 20_000)
	before := heap()
	pass(20_000, 200_000)
	if grown := heap() - before; grown > 8<<20 {
		t.Errorf("180,000 things more take %d bytes more", grown)
	}
	if table.TriggerCounts()["f"] < 90_000 {
		t.Errorf("struck %v", table.TriggerCounts())
	}
}

// heap returns how many bytes are in use.
func heap() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc) //nolint:gosec // no heap has so many bytes
}

func TestCrash(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	table := fault.NewTable(fault.Config{Crash: cancel})
	table.Set([]fault.Fault{add(t, "crash", fault.Spec{Point: fault.StoreCommit, Effect: fault.Effect{Kind: fault.Crash}})})
	if err := table.Inject(ctx, fault.StoreCommit, fault.Attributes{}); !errors.Is(err, context.Canceled) {
		t.Errorf("Pass: %v, want that the process has ended", err)
	}
}

func TestFindEffect(t *testing.T) {
	table := fault.NewTable(fault.Config{})
	table.Set([]fault.Fault{
		add(t, "memory", fault.Spec{Point: fault.NodePressure, Where: fault.Attributes{Node: "n1"}, Effect: fault.Effect{Kind: fault.Value, Value: "memory"}}),
		add(t, "lie", fault.Spec{Point: fault.CRI("StopContainer"), Effect: fault.Effect{Kind: fault.Lie}}),
	})
	if e, ok := table.FindEffect(fault.NodePressure, fault.Attributes{Node: "n1"}, fault.Value); !ok || e.Value != "memory" {
		t.Errorf("the pressure is %q, %v", e.Value, ok)
	}
	if _, ok := table.FindEffect(fault.NodePressure, fault.Attributes{Node: "n2"}, fault.Value); ok {
		t.Error("another node has a pressure")
	}
	stop := fault.CRI("StopContainer")
	if _, ok := table.FindEffect(stop, fault.Attributes{}, fault.Drop); ok {
		t.Error("a lie is found as a drop")
	}
	if _, ok := table.FindEffect(stop, fault.Attributes{}, fault.Drop, fault.Lie); !ok || table.Inject(t.Context(), stop, fault.Attributes{}) != nil {
		t.Error("a lie is not found, or is an error")
	}
}
