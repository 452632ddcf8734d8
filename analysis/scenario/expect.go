package scenario

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/internal/podview"
	"github.com/podfall/podfall/proto/kinds"
)

// checkExpect waits until everything is as expected, and then checks that it stays so.
func (p *Runner) checkExpect(ctx context.Context, e Expect) error {
	within := e.Within.Duration
	if within == 0 {
		within = defaultWithin
	}
	look := func(ctx context.Context) error { return p.checkNow(ctx, e) }
	if err := p.pollUntil(ctx, within, look); err != nil {
		return err
	}
	return p.pollThroughout(ctx, e.Stays.Duration, look)
}

// checkNow returns what differs from the expectation now.
func (p *Runner) checkNow(ctx context.Context, e Expect) error {
	var wrong []error
	if e.Object != "" {
		wrong = append(wrong, p.checkObject(ctx, e))
	}
	if e.Node != nil {
		wrong = append(wrong, p.checkNodes(ctx, *e.Node))
	}
	return errors.Join(wrong...)
}

func (p *Runner) checkObject(ctx context.Context, e Expect) error {
	target, err := p.resolve(ctx, e.Object)
	if err != nil {
		return err
	}
	obj, err := p.cfg.Cluster.Get(ctx, target, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	wrong := []error{p.checkIdentity(e, obj)}
	if obj != nil && !e.Gone {
		wrong = append(wrong, p.checkFields(e, obj), p.checkColumns(e, target.Kind, obj))
	}
	if e.Event != nil {
		wrong = append(wrong, p.checkEvent(ctx, *e.Event, target))
	}
	if e.Why != nil {
		wrong = append(wrong, p.checkWhy(ctx, *e.Why, target))
	}
	return errors.Join(wrong...)
}

// checkIdentity checks whether the object exists, and whether it has the expected UID.
func (p *Runner) checkIdentity(e Expect, obj kinds.Object) error {
	other, not := strings.CutPrefix(e.UID, "!")
	if e.UID == "" {
		switch needed := e.Gone || len(e.Like) > 0 || len(e.Shows) > 0; {
		case !needed || e.Gone == (obj == nil):
			return nil
		case e.Gone:
			return fmt.Errorf("%s is still there", e.Object)
		}
		return fmt.Errorf("%s is not there", e.Object)
	}
	uid, err := p.rememberedUID(other)
	if err != nil {
		return err
	}
	is := obj != nil && obj.GetUID() == uid
	switch {
	case e.Gone && is:
		return fmt.Errorf("%s is still there, and the same", e.Object)
	case e.Gone:
		return nil
	case obj == nil:
		return fmt.Errorf("%s is not there", e.Object)
	case not && is:
		return fmt.Errorf("%s is the one that was called %s, want another", e.Object, other)
	case !not && !is:
		return fmt.Errorf("%s is another than the one that was called %s", e.Object, other)
	}
	return nil
}

func (p *Runner) checkFields(e Expect, obj kinds.Object) error {
	if len(e.Like) == 0 {
		return nil
	}
	got, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return err
	}
	return joinMismatches(e.Object, Mismatches(e.Like, got))
}

// checkColumns compares columns with what kubectl get would print.
func (p *Runner) checkColumns(e Expect, kind kinds.Kind, obj kinds.Object) error {
	if len(e.Shows) == 0 {
		return nil
	}
	table := podview.View{Now: p.cfg.Clock.Now(), Compat: p.cfg.Compat}.Table(kind.GroupVersionKind, obj)
	var wrong []string
	for title, want := range e.Shows {
		at := slices.IndexFunc(table.ColumnDefinitions, func(c metav1.TableColumnDefinition) bool { return strings.EqualFold(c.Name, title) })
		if at < 0 {
			return fmt.Errorf("shows: %s has no column %s", kind.Kind, title)
		}
		if got := fmt.Sprint(table.Rows[0].Cells[at]); len(Mismatches(want, got)) > 0 {
			wrong = append(wrong, fmt.Sprintf("%s shows %s, want %s", title, got, want))
		}
	}
	slices.Sort(wrong)
	return joinMismatches(e.Object, wrong)
}

func joinMismatches(ref Ref, wrong []string) error {
	if len(wrong) == 0 {
		return nil
	}
	return fmt.Errorf("%s: %s", ref, strings.Join(wrong, "; "))
}

// checkEvent checks that the expected event exists.
func (p *Runner) checkEvent(ctx context.Context, want Event, about podapi.Target) error {
	kind, _ := kinds.ByResource("events")
	namespace := about.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	list, err := p.cfg.Cluster.List(ctx, podapi.Target{Kind: kind, Namespace: namespace}, metav1.ListOptions{})
	if err != nil {
		return err
	}
	var events []string
	for _, item := range list.Items {
		event, ok := item.(*corev1.Event)
		if !ok || event.InvolvedObject.Kind != about.Kind.Kind || event.InvolvedObject.Name != about.Name {
			continue
		}
		if event.Reason == want.Reason && strings.Contains(event.Message, want.Message) {
			return nil
		}
		events = append(events, event.Reason+": "+event.Message)
	}
	return fmt.Errorf("%s %s has no event %s %q; it has %q", about.Kind.Kind, about.Name, want.Reason, want.Message, events)
}

// checkWhy compares the reported blockers.
func (p *Runner) checkWhy(ctx context.Context, want []string, about podapi.Target) error {
	got, err := p.cfg.Cluster.Why(ctx, about)
	if err != nil {
		return fmt.Errorf("why: %w", err)
	}
	got, want = slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		return fmt.Errorf("why names %q, want %q", got, want)
	}
	return nil
}

func (p *Runner) checkNodes(ctx context.Context, want Node) error {
	uid, err := p.rememberedUID(want.Pod)
	if err != nil {
		return err
	}
	if want.Alive != nil {
		alive, err := p.cfg.Cluster.CountRunning(ctx, uid)
		if err != nil {
			return err
		}
		if alive != *want.Alive {
			return fmt.Errorf("%d containers of %s run, want %d", alive, want.Pod, *want.Alive)
		}
	}
	if want.Signals == nil && want.KilledAfter == nil {
		return nil
	}
	sent, err := p.cfg.Cluster.Signals(ctx, uid)
	if err != nil {
		return err
	}
	return checkSignals(want, sent, p.cfg.Clock.ClusterDuration(p.cfg.Late))
}

// sigkill is the signal that no program can handle.
const sigkill = "SIGKILL"

// checkSignals compares the signals sent to a pod's containers with the expected ones. Times may be
// later by late.
func checkSignals(want Node, sent []history.Event, late time.Duration) error {
	var names []string
	var first, kill time.Time
	for _, event := range sent {
		signal, ok := event.Fact.(history.Signal)
		if !ok {
			continue
		}
		names = append(names, signal.Signal)
		if first.IsZero() {
			first = event.Wall
		}
		if kill.IsZero() && signal.Signal == sigkill {
			kill = event.Wall
		}
	}
	if want.Signals != nil && !slices.Equal(names, *want.Signals) {
		return fmt.Errorf("%s was sent %v, want %v", want.Pod, names, *want.Signals)
	}
	if want.KilledAfter == nil {
		return nil
	}
	if kill.IsZero() {
		return fmt.Errorf("%s was sent %v, want SIGKILL among them", want.Pod, names)
	}
	if took := kill.Sub(first); took < want.KilledAfter.From.Duration || took > want.KilledAfter.To.Duration+late {
		return fmt.Errorf("%s was killed after %s, want %s to %s",
			want.Pod, took, want.KilledAfter.From.Duration, want.KilledAfter.To.Duration)
	}
	return nil
}
