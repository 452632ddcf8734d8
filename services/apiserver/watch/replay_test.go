package watch_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8swatch "k8s.io/apimachinery/pkg/watch"
	"pgregory.net/rapid"

	"github.com/podfall/podfall/proto"
)

// A plan is a random life of a few pods and a few watches, with faults in between. The
// model below knows nothing of hubs, frames and histories: it keeps every write, and
// says what a watch must have delivered.

type action int

const (
	write action = iota
	remove
	open
	cut
	restart
	loseFrames
	keepFrames
	compact
	pass
	actions
)

type step struct {
	Do action
	// N, Label, Node and Phase choose among a few of each.
	N, Label, Node, Phase int
	// Slow is how long a reader takes for an event, in milliseconds.
	Slow int
}

func plans() *rapid.Generator[[]step] {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
		// Mostly writes, and few restarts.
		do := rapid.SampledFrom([]action{
			write, write, write, write, write, write, remove, remove, open, open, cut, restart,
			loseFrames, keepFrames, keepFrames, compact, pass, pass,
		}).Draw(t, "do")
		small := func(name string, n int) int { return rapid.IntRange(0, n-1).Draw(t, name) }
		return step{
			Do: do, N: small("n", 6), Label: small("label", 3), Node: small("node", 3),
			Phase: small("phase", 3), Slow: small("slow", 3) * 400,
		}
	}), 1, 60)
}

// change is one write as the model remembers it.
type change struct {
	revision int64
	old, new *corev1.Pod // nil when there is none
}

type selector struct {
	opts    metav1.ListOptions
	matches func(*corev1.Pod) bool
}

func selectors() []selector {
	field := func(text string) metav1.ListOptions { return metav1.ListOptions{FieldSelector: text} }
	return []selector{
		{metav1.ListOptions{}, func(*corev1.Pod) bool { return true }},
		{metav1.ListOptions{LabelSelector: "app=web"}, func(p *corev1.Pod) bool { return p.Labels["app"] == "web" }},
		{metav1.ListOptions{LabelSelector: "app!=web"}, func(p *corev1.Pod) bool { return p.Labels["app"] != "web" }},
		{field("spec.nodeName=n1"), func(p *corev1.Pod) bool { return p.Spec.NodeName == "n1" }},
		{field("spec.nodeName!=n1"), func(p *corev1.Pod) bool { return p.Spec.NodeName != "n1" }},
		{field("metadata.name=p1"), func(p *corev1.Pod) bool { return p.Name == "p1" }},
		{field("status.phase=Running,spec.nodeName=n2"), func(p *corev1.Pod) bool {
			return p.Status.Phase == corev1.PodRunning && p.Spec.NodeName == "n2"
		}},
	}
}

// observed is one event as the model or a watch has it.
type observed struct {
	typ      k8swatch.EventType
	name     string
	revision int64
	content  string
}

func content(p *corev1.Pod) string {
	return fmt.Sprint(p.Labels["app"], "/", p.Spec.NodeName, "/", p.Status.Phase)
}

func observedFrom(event k8swatch.Event) (observed, error) {
	p, ok := event.Object.(*corev1.Pod)
	if !ok {
		return observed{}, fmt.Errorf("%s with a %T", event.Type, event.Object)
	}
	revision, err := strconv.ParseInt(p.ResourceVersion, 10, 64)
	return observed{event.Type, p.Name, revision, content(p)}, err
}

// after is what a watch that begins after revision must be told.
func after(log []change, revision int64, matches func(*corev1.Pod) bool) []observed {
	var want []observed
	for _, c := range log {
		if c.revision <= revision {
			continue
		}
		was, is := c.old != nil && matches(c.old), c.new != nil && matches(c.new)
		switch {
		case !was && is:
			want = append(want, observed{k8swatch.Added, c.new.Name, c.revision, content(c.new)})
		case was && is:
			want = append(want, observed{k8swatch.Modified, c.new.Name, c.revision, content(c.new)})
		case was:
			want = append(want, observed{k8swatch.Deleted, c.old.Name, c.revision, content(c.old)})
		}
	}
	return want
}

// initially is what there was at revision, by key.
func initially(log []change, revision int64, matches func(*corev1.Pod) bool) []observed {
	state := map[string]observed{}
	for _, c := range log {
		switch {
		case c.revision > revision:
		case c.new == nil:
			delete(state, c.old.Name)
		case matches(c.new):
			state[c.new.Name] = observed{k8swatch.Added, c.new.Name, c.revision, content(c.new)}
		default:
			delete(state, c.new.Name)
		}
	}
	return slices.SortedFunc(maps.Values(state), func(a, b observed) int { return cmp.Compare(a.name, b.name) })
}

// observer is one watch and its reader.
type observer struct {
	selector
	// from is where the watch began; 0 with initial events.
	from int64
	mu   sync.Mutex
	got  []k8swatch.Event
}

func (o *observer) read(w k8swatch.Interface, slow time.Duration) {
	for event := range w.ResultChan() {
		o.mu.Lock()
		o.got = append(o.got, event)
		o.mu.Unlock()
		time.Sleep(slow)
	}
}

// check compares what the watch delivered with the model. The guarantees are named by
// their ids: W1 to W6 of guarantees.md.
func (o *observer) check(log []change, compacted int64) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	want, rest := after(log, o.from, o.matches), o.got
	if o.from == 0 {
		var err error
		if want, rest, err = o.checkInitial(log); err != nil {
			return err
		}
	}
	for _, event := range rest {
		switch obj := event.Object.(type) {
		case *metav1.Status:
			if obj.Code != 410 || compacted == 0 {
				return fmt.Errorf("W4: ended with %d %s", obj.Code, obj.Message)
			}
			return nil // what came before was a prefix
		default:
			got, err := observedFrom(event)
			if err != nil {
				return err
			}
			if event.Type == k8swatch.Bookmark {
				if len(want) > 0 && want[0].revision <= got.revision {
					return fmt.Errorf("W5: bookmark at %d before %v", got.revision, want[0])
				}
				continue
			}
			if len(want) == 0 || want[0] != got {
				return fmt.Errorf("W1, W2, W3, W6: got %v, want %v", got, want)
			}
			want = want[1:]
		}
	}
	if len(want) > 0 {
		return fmt.Errorf("W3: never got %v", want)
	}
	return nil
}

func (o *observer) checkInitial(log []change) (want []observed, rest []k8swatch.Event, err error) {
	end := slices.IndexFunc(o.got, func(e k8swatch.Event) bool { return e.Type == k8swatch.Bookmark })
	if end < 0 {
		return nil, nil, fmt.Errorf("no end of the initial events in %d events", len(o.got))
	}
	mark, ok := o.got[end].Object.(*corev1.Pod)
	if !ok || mark.Annotations[metav1.InitialEventsAnnotationKey] != "true" {
		return nil, nil, fmt.Errorf("the first bookmark does not end the initial events")
	}
	at, err := strconv.ParseInt(mark.ResourceVersion, 10, 64)
	if err != nil {
		return nil, nil, err
	}
	wanted := initially(log, at, o.matches)
	if len(wanted) != end {
		return nil, nil, fmt.Errorf("%d initial events, want %v", end, wanted)
	}
	for i, event := range o.got[:end] {
		got, err := observedFrom(event)
		if err != nil {
			return nil, nil, err
		}
		if got != wanted[i] {
			return nil, nil, fmt.Errorf("WCH-14: initial event %v, want %v", got, wanted[i])
		}
	}
	return after(log, at, o.matches), o.got[end+1:], nil
}

// life carries out a plan.
type life struct {
	*harness
	pods      map[string]*corev1.Pod
	log       []change
	compacted int64
	observers []*observer
	reading   sync.WaitGroup
	stops     []func()
}

func (l *life) do(s step) {
	name := fmt.Sprint("p", s.N)
	switch s.Do {
	case write:
		p := pod("ns", name, map[string]string{"app": []string{"web", "db", "cache"}[s.Label]})
		p.Spec.NodeName = []string{"", "n1", "n2"}[s.Node]
		p.Status.Phase = []corev1.PodPhase{corev1.PodPending, corev1.PodRunning, corev1.PodFailed}[s.Phase]
		before := l.store.Snapshot().Revision()
		if revision := l.put(p); revision != before {
			l.log = append(l.log, change{revision, l.pods[name], p})
			l.pods[name] = p
		}
	case remove:
		if p := l.pods[name]; p != nil {
			l.log = append(l.log, change{l.delete(p), p, nil})
			delete(l.pods, name)
		}
	case open:
		l.observe(s)
	case cut:
		l.cutConnections()
	case restart:
		l.restart()
	case loseFrames:
		l.dropFrames(func(*proto.Frame) bool { return true })
	case keepFrames:
		l.dropFrames(nil)
	case compact:
		revision := l.store.Snapshot().Revision() - int64(s.N) // which may be compacted already
		if err := l.store.Compact(l.t.Context(), revision); err != nil {
			l.t.Fatal(err)
		}
		l.compacted = max(l.compacted, revision)
	case pass, actions:
		time.Sleep(time.Duration(s.N) * 700 * time.Millisecond)
	}
}

func (l *life) observe(s step) {
	o := &observer{selector: selectors()[(s.N+s.Label)%len(selectors())]}
	opts := o.opts
	opts.AllowWatchBookmarks = true
	if s.Node > 0 {
		// From the past, if it is still there.
		o.from = max(l.store.Oldest()-1, l.store.Snapshot().Revision()-int64(s.N))
		opts.ResourceVersion = strconv.FormatInt(o.from, 10)
	}
	if s.Node == 0 && s.Phase > 0 {
		yes := true
		opts.SendInitialEvents, opts.ResourceVersionMatch = &yes, metav1.ResourceVersionMatchNotOlderThan
	}
	w, err := l.client(reader).Watch(l.t.Context(), pods("ns"), opts)
	if err != nil {
		l.t.Fatal(err)
	}
	l.observers = append(l.observers, o)
	l.stops = append(l.stops, w.Stop)
	l.reading.Go(func() { o.read(w, time.Duration(s.Slow)*time.Millisecond) })
}

func TestW1ToW6EveryWatchEqualsTheReplay(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		plan := plans().Draw(rt, "plan")
		var broken error
		synctest.Test(t, func(t *testing.T) {
			l := &life{harness: newHarness(t, 0), pods: map[string]*corev1.Pod{}}
			l.do(step{Do: open, Node: 0})
			for _, s := range plan {
				l.do(s)
			}
			l.dropFrames(nil)
			time.Sleep(3 * time.Minute) // L4 and the slowest reader, by far
			for _, stop := range l.stops {
				stop()
			}
			l.reading.Wait()
			for i, o := range l.observers {
				if err := o.check(l.log, l.compacted); err != nil {
					broken = fmt.Errorf("watch %d of %q from %d: %w", i, o.opts.LabelSelector+o.opts.FieldSelector, o.from, err)
					return
				}
			}
		})
		if broken != nil {
			rt.Fatal(broken)
		}
	})
}
