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

// trial is something that a controller has to deal with.
type trial struct {
	// with are the controllers that run besides the one on trial.
	with    []string
	plugins []string
	// own is what the controller looks after: "deployments.apps web". It is touched while all
	// else that the controller sees stands still.
	own   string
	steps []func(*rig)
	// wait is how long the controller may take after each step; 15 s when zero.
	wait time.Duration
	// behind is how many pods more there may be at once than in calm: those of a ReplicaSet that
	// has not acted yet on being told to have fewer. A Deployment counts what it has told its
	// ReplicaSets, as upstream's does (GetReplicaCountForReplicaSets).
	behind int
}

// conditions are those under which a controller has to come to the same end (faults.md, 33).
func conditions() map[string]func(r *rig, of trial, step func(*rig)) {
	return map[string]func(r *rig, of trial, step func(*rig)){
		"calm": func(r *rig, of trial, step func(*rig)) {
			step(r)
			time.Sleep(of.patience())
		},
		// The controller sees the object that it looks after, and nothing of what it does.
		"stale": func(r *rig, of trial, step func(*rig)) {
			own, _, _ := strings.Cut(of.own, " ")
			r.shut(own)
			step(r)
			for i := range 5 {
				time.Sleep(2 * time.Second)
				r.touch(of.own, i)
			}
			r.each(r.valve.Open)
			time.Sleep(of.patience())
		},
		// It sees everything, 2 s late.
		"late": func(r *rig, of trial, step func(*rig)) {
			r.each(func(resource string) { r.valve.Delay(resource, 2*time.Second) })
			step(r)
			time.Sleep(of.patience() + 10*time.Second)
		},
		// It sees nothing, and then the last state only.
		"missed": func(r *rig, of trial, step func(*rig)) {
			r.shut("")
			step(r)
			time.Sleep(10 * time.Second)
			r.each(r.valve.Skip)
			time.Sleep(of.patience())
		},
		// It is killed after each of its writes: a message takes a millisecond each way.
		"crash": func(r *rig, of trial, step func(*rig)) {
			step(r)
			for k := range 8 {
				time.Sleep(time.Duration(k) * time.Millisecond)
				r.Stop("controllers")
				r.Start("controllers")
			}
			time.Sleep(of.patience())
		},
	}
}

func (t trial) patience() time.Duration {
	if t.wait == 0 {
		return 15 * time.Second
	}
	return t.wait
}

// TestEveryControllerUnderEveryView runs each controller under each condition: it comes to the
// end to which it comes in calm, and has never had more of anything at once than in calm.
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
			for _, condition := range slices.Sorted(maps.Keys(conditions())) {
				if condition == "calm" {
					continue
				}
				t.Run(condition, func(t *testing.T) {
					got := of.run(t, name, condition)
					if got.state != calm.state {
						t.Errorf("it ends in\n%s\nwant\n%s", got.state, calm.state)
					}
					for kind, most := range got.most {
						allowed := calm.most[kind]
						if kind == "pods" {
							allowed += of.behind
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

// outcome is what a trial came to.
type outcome struct {
	state string
	most  map[string]int // objects that are not going, at once, by kind
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
		count := &census{live: map[string]map[string]bool{}, most: map[string]int{}}
		for _, resource := range []string{
			"pods", "replicasets.apps", "controllerrevisions.apps", "jobs.batch", "persistentvolumeclaims", "persistentvolumes",
			"endpointslices.discovery.k8s.io", "volumeattachments.storage.k8s.io", "serviceaccounts",
		} {
			target := r.target(resource + " /")
			target.Namespace, target.Name = "", ""
			r.watchers.Go(func() { _ = r.API().Follow(r.Context(), target, metav1.ListOptions{}, count.of(resource)) })
		}
		r.Settle()
		for _, step := range t.steps {
			conditions()[condition](r, t, step)
		}
		r.each(r.valve.Open)
		time.Sleep(t.patience())
		r.Settle()
		found.state = r.state()
		count.mu.Lock()
		defer count.mu.Unlock()
		found.most, found.early = count.most, count.early
	})
	return found
}

// each does something to the view of every kind.
func (r *rig) each(do func(resource string)) {
	for _, kind := range kinds.All() {
		do(kind.GroupResource().String())
	}
}

// shut has nothing more seen but one kind.
func (r *rig) shut(but string) {
	r.each(func(resource string) {
		if resource != but {
			r.valve.Close(resource)
		}
	})
}

// touch changes something of an object that means nothing; one that is gone is not touched.
func (r *rig) touch(what string, n int) {
	r.Helper()
	if what == "" || get[kinds.Object](r, what) == nil {
		return
	}
	r.patch(what, map[string]any{"metadata": map[string]any{"annotations": map[string]string{"touched": fmt.Sprint(n)}}})
	r.patch(what, map[string]any{"metadata": map[string]any{"annotations": map[string]any{"touched": nil}}})
}

// census counts what there is at once, and notes pods that went without their node's word.
type census struct {
	mu    sync.Mutex
	live  map[string]map[string]bool
	most  map[string]int
	early []string
}

func (c *census) of(resource string) podapi.Sink {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.live[resource] = map[string]bool{}
	return &counter{census: c, resource: resource}
}

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
	c.most[c.resource] = max(c.most[c.resource], len(c.live[c.resource]))
	if event.Type == watch.Deleted && isPod && !ended && pod.Spec.NodeName != "" {
		c.early = append(c.early, pod.Name)
	}
}

// state is everything that there is, without what differs from one run to the next: times, UIDs,
// revisions, and the random ends of names.
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
			said, err := json.Marshal(scrubbed(content))
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

// scrubbed is content without what is unsteady.
func scrubbed(content any) any {
	switch content := content.(type) {
	case map[string]any:
		kept := map[string]any{}
		for key, value := range content {
			if !unsteady.MatchString(key) {
				kept[key] = scrubbed(value)
			}
		}
		return kept
	case []any:
		kept := make([]any, 0, len(content))
		for _, value := range content {
			kept = append(kept, scrubbed(value))
		}
		return kept
	}
	return content
}
