package cluster

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/e2e/stage"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/controllers"
)

// trial is a task for one controller.
type trial struct {
	// with lists the other controllers that run.
	with    []string
	plugins []string
	// own is an object that the controller manages: "deployments.apps web". It is touched while
	// everything else that the controller sees is frozen.
	own   string
	steps []func(*rig)
	// wait is how long the controller may take after each step; zero means 15 s.
	wait time.Duration
	// surplus is how many more pods may exist at once than without faults: those of a ReplicaSet
	// that has not yet scaled down. A Deployment counts the replicas that it has requested, as
	// upstream's does (GetReplicaCountForReplicaSets).
	surplus int
}

// viewConditions returns the conditions under which a controller must reach the same result
// (faults.md, 33).
func viewConditions() map[string]func(r *rig, of trial, step func(*rig)) {
	return map[string]func(r *rig, of trial, step func(*rig)){
		"calm": func(r *rig, of trial, step func(*rig)) {
			step(r)
			time.Sleep(of.stepTime())
		},
		// The controller sees the object that it manages, and none of its own writes.
		"stale": func(r *rig, of trial, step func(*rig)) {
			own, _, _ := strings.Cut(of.own, " ")
			r.freezeView(own)
			step(r)
			for i := range 5 {
				time.Sleep(2 * time.Second)
				r.touch(of.own, i)
			}
			r.eachKind(r.valve.Open)
			time.Sleep(of.stepTime())
		},
		// It sees everything 2 s late.
		"late": func(r *rig, of trial, step func(*rig)) {
			r.eachKind(func(resource string) { r.valve.Delay(resource, 2*time.Second) })
			step(r)
			time.Sleep(of.stepTime() + 10*time.Second)
		},
		// It sees nothing, and then only the last state.
		"missed": func(r *rig, of trial, step func(*rig)) {
			r.freezeView("")
			step(r)
			time.Sleep(10 * time.Second)
			r.eachKind(r.valve.Skip)
			time.Sleep(of.stepTime())
		},
		// It is killed after each of its writes: a message takes a millisecond each way.
		"crash": func(r *rig, of trial, step func(*rig)) {
			step(r)
			for k := range 8 {
				time.Sleep(time.Duration(k) * time.Millisecond)
				r.Stop("controllers")
				r.Start("controllers")
			}
			time.Sleep(of.stepTime())
		},
	}
}

func (t trial) stepTime() time.Duration {
	if t.wait == 0 {
		return 15 * time.Second
	}
	return t.wait
}

// TestEveryControllerUnderEveryView runs each controller under each condition. It must reach the
// same result as without faults, and must never have more objects of a kind at once.
func TestEveryControllerUnderEveryView(t *testing.T) {
	trials := trials()
	for _, name := range controllers.Names() {
		of, there := trials[name]
		if !there {
			t.Errorf("%s has no trial", name)
			continue
		}
		t.Run(name, func(t *testing.T) {
			calm := of.run(t, name, "calm")
			for _, condition := range slices.Sorted(maps.Keys(viewConditions())) {
				if condition == "calm" {
					continue
				}
				t.Run(condition, func(t *testing.T) {
					got := of.run(t, name, condition)
					if got.state != calm.state {
						t.Errorf("it ends in\n%s\nwant\n%s", got.state, calm.state)
					}
					for kind, most := range got.peak {
						allowed := calm.peak[kind]
						if kind == "pods" {
							allowed += of.surplus
						}
						if most > allowed {
							t.Errorf("%d %s at once, never more than %d are expected", most, kind, allowed)
						}
					}
					if len(got.early) > 0 {
						t.Errorf("gone before their nodes had ended them: %v", got.early)
					}
				})
			}
		})
	}
	for name := range trials {
		if !slices.Contains(controllers.Names(), name) {
			t.Errorf("there is no controller %s", name)
		}
	}
}

// outcome is the result of a trial.
type outcome struct {
	state string
	peak  map[string]int // most live objects at once, by kind
	early []string
}

func (t trial) run(test *testing.T, name, condition string) (found outcome) {
	test.Helper()
	plugins := append([]string{"Priority"}, t.plugins...)
	cfg := stage.Config{Nodes: 2, Controllers: append([]string{name}, t.with...), Plugins: plugins}
	if condition == "crash" {
		cfg.Distance = time.Millisecond
	}
	play(test, cfg, func(r *rig) {
		count := &census{live: map[string]map[string]bool{}, peak: map[string]int{}}
		for _, resource := range []string{
			"pods", "replicasets.apps", "controllerrevisions.apps", "jobs.batch", "persistentvolumeclaims", "persistentvolumes",
			"endpointslices.discovery.k8s.io", "volumeattachments.storage.k8s.io", "serviceaccounts",
		} {
			target := r.target(resource + " /")
			target.Namespace, target.Name = "", ""
			r.watchers.Go(func() { _ = r.API().Follow(r.Context(), target, metav1.ListOptions{}, count.sinkFor(resource)) })
		}
		r.Settle()
		for _, step := range t.steps {
			viewConditions()[condition](r, t, step)
		}
		r.eachKind(r.valve.Open)
		time.Sleep(t.stepTime())
		r.Settle()
		found.state = r.state()
		count.mu.Lock()
		defer count.mu.Unlock()
		found.peak, found.early = count.peak, count.early
	})
	return found
}

// eachKind calls do for every kind.
func (r *rig) eachKind(do func(resource string)) {
	for _, kind := range kinds.All() {
		do(kind.GroupResource().String())
	}
}

// freezeView stops updates of the controllers' view of all kinds but one.
func (r *rig) freezeView(but string) {
	r.eachKind(func(resource string) {
		if resource != but {
			r.valve.Close(resource)
		}
	})
}

// touch changes an annotation of an object, if the object exists.
func (r *rig) touch(what string, n int) {
	r.Helper()
	if what == "" || get[kinds.Object](r, what) == nil {
		return
	}
	r.patch(what, map[string]any{"metadata": map[string]any{"annotations": map[string]string{"touched": fmt.Sprint(n)}}})
	r.patch(what, map[string]any{"metadata": map[string]any{"annotations": map[string]any{"touched": nil}}})
}

// census counts live objects, and notes pods that were removed before their node reported them as
// stopped.
type census struct {
	mu    sync.Mutex
	live  map[string]map[string]bool
	peak  map[string]int
	early []string
}

func (c *census) sinkFor(resource string) podapi.Sink {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.live[resource] = map[string]bool{}
	return &counter{census: c, resource: resource}
}

// counter is the sink of one kind.
type counter struct {
	*census

	resource string
}

// Replace implements podapi.Sink.
func (c *counter) Replace(items []kinds.Object, _ string) {
	for _, item := range items {
		c.Apply(watch.Event{Type: watch.Added, Object: item})
	}
}

// Apply implements podapi.Sink.
func (c *counter) Apply(event watch.Event) {
	obj, ok := event.Object.(kinds.Object)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	pod, isPod := obj.(*corev1.Pod)
	ended := isPod && (pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed)
	id := string(obj.GetUID())
	if event.Type == watch.Deleted || obj.GetDeletionTimestamp() != nil || ended {
		delete(c.live[c.resource], id)
	} else {
		c.live[c.resource][id] = true
	}
	c.peak[c.resource] = max(c.peak[c.resource], len(c.live[c.resource]))
	if event.Type == watch.Deleted && isPod && !ended && pod.Spec.NodeName != "" {
		c.early = append(c.early, pod.Name)
	}
}

// state returns all objects, without what differs between runs: times, UIDs, revisions, and random
// name suffixes.
func (r *rig) state() string {
	r.Helper()
	var lines []string
	for _, kind := range kinds.All() {
		switch kind.GroupResource().String() {
		case "events", "events.events.k8s.io", "leases.coordination.k8s.io":
			continue
		}
		page, err := r.API().List(r.Context(), podapi.Target{Kind: kind}, metav1.ListOptions{})
		if err != nil {
			r.Fatalf("list %s: %v", kind.GroupResource(), err)
		}
		for _, obj := range page.Items {
			data, err := json.Marshal(obj)
			if err != nil {
				r.Fatal(err)
			}
			var content map[string]any
			if err := json.Unmarshal(data, &content); err != nil {
				r.Fatal(err)
			}
			if kind.Resource == "nodes" {
				content["status"] = nil
			}
			said, err := json.Marshal(scrub(content))
			if err != nil {
				r.Fatal(err)
			}
			lines = append(lines, kind.Resource+" "+randomEnd.ReplaceAllString(anyUID.ReplaceAllString(string(said), "UID"), "-X$1"))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

var (
	randomEnd = regexp.MustCompile(`-(?:[bcdfghjklmnpqrstvwxz2456789]{5}|[0-9]{8}|[0-9a-f]{64})(["/, ])`)
	unsteady  = regexp.MustCompile(`(?i)time$|timestamp|uid$|^resourceVersion$|^generation$|^observedGeneration$|IPs?$|^containerID$|At$|^message$|^nodeName$|` +
		`^managedFields$|selected-node$|^values$|^volumeHandle$|^taints$|^addresses$|^touched$|^ip$`)
)

// scrub returns content without values that differ between runs.
func scrub(content any) any {
	switch content := content.(type) {
	case map[string]any:
		kept := map[string]any{}
		for key, value := range content {
			if !unsteady.MatchString(key) {
				kept[key] = scrub(value)
			}
		}
		return kept
	case []any:
		kept := make([]any, 0, len(content))
		for _, value := range content {
			kept = append(kept, scrub(value))
		}
		return kept
	}
	return content
}
