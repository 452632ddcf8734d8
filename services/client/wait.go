package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/internal/terminal"
)

func waitCommand(env Env) *cli.Command {
	return &cli.Command{
		Name:      "wait",
		Usage:     "wait until objects are as they should be",
		ArgsUsage: "(-f FILE | TYPE [NAME… | -l SELECTOR | --all] | TYPE/NAME…) --for=create|delete|condition=C[=V]|jsonpath=P[=V]",
		Flags: join(namespaceFlags(), selectorFlags(), filenameFlags(), []cli.Flag{
			allNamespacesFlag(),
			&cli.BoolFlag{Name: flagAll, Usage: "every object of the type"},
			&cli.GenericFlag{Name: "for", Value: &texts{}, Usage: "what to wait for; several are waited for in turn"},
			&cli.DurationFlag{Name: flagTimeout, Value: 30 * time.Second, Usage: "how long to wait; 0 looks once, a negative one is a week"},
			outputFlag("json, yaml, name or jsonpath=…"),
		}),
		Action: action(env, runWait),
	}
}

// texts is a flag that may be given several times.
type texts []string

// Set implements flag.Value.
func (t *texts) Set(text string) error {
	*t = append(*t, text)
	return nil
}

// String implements flag.Value.
func (t *texts) String() string { return strings.Join(*t, " ") }

// waiting is one wait command.
type waiting struct {
	*call
	api     API
	aims    []waitAim
	printer printFunc
	// once says not to wait, but only to look.
	once bool
}

func runWait(ctx context.Context, c *call) error {
	asked, _ := c.flags.Generic("for").(*texts)
	aims, err := parseWaitAims(*asked)
	if err != nil {
		return err
	}
	printer, err := c.objectPrinter()
	if err != nil {
		return err
	}
	target, err := c.aim(ctx)
	if err != nil {
		return err
	}
	api, err := c.api(ctx)
	if err != nil {
		return err
	}
	timeout := c.flags.Duration(flagTimeout)
	w := &waiting{call: c, api: api, aims: aims, printer: printer, once: timeout == 0}
	within := ctx
	if !w.once {
		if timeout < 0 {
			timeout = forever
		}
		limited, cancel := c.env.Clock.Timeout(ctx, timeout)
		defer cancel()
		within = limited
	}
	err = w.run(within, target)
	switch {
	case ctx.Err() != nil:
		return errInterruptedWait
	case errors.Is(err, context.DeadlineExceeded):
		return errors.New("timed out waiting for the condition")
	default:
		return err
	}
}

func (w *waiting) forKind(kind waitKind) bool {
	return slices.ContainsFunc(w.aims, func(a waitAim) bool { return a.kind == kind })
}

func (w *waiting) run(ctx context.Context, target aim) error {
	if w.forKind(waitCreate) {
		if err := w.untilSome(ctx, target); err != nil {
			return err
		}
	}
	found, errs := target.victims(ctx, w.api)
	if len(errs) > 0 {
		return joined(errs)
	}
	if len(found) == 0 && !w.forKind(waitDelete) {
		return errors.New("no matching resources found")
	}
	for _, v := range found {
		if err := w.object(ctx, v.target); err != nil {
			return err
		}
	}
	return nil
}

// createPause is how often wait --for=create looks.
const createPause = 500 * time.Millisecond

// untilSome returns once everything named, or something selected, exists.
func (w *waiting) untilSome(ctx context.Context, target aim) error {
	for {
		found, errs := target.victims(ctx, w.api)
		if len(errs) > 0 {
			return joined(errs)
		}
		missing := len(found) == 0
		for _, v := range found {
			_, err := w.api.Get(ctx, v.target, metav1.GetOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				return err
			}
			missing = missing || err != nil
		}
		if !missing {
			return nil
		}
		if w.once {
			return context.DeadlineExceeded
		}
		if err := w.env.Clock.Sleep(ctx, createPause); err != nil {
			return err
		}
	}
}

// object waits for every aim in turn, and says so after each.
func (w *waiting) object(ctx context.Context, t podapi.Target) error {
	obj, err := w.api.Get(ctx, t, metav1.GetOptions{})
	if apierrors.IsNotFound(err) && w.forKind(waitDelete) {
		return nil // it had gone before: there is nothing to say
	}
	if err != nil {
		return err
	}
	var final runtime.Object = obj
	for _, a := range w.aims {
		switch a.kind {
		case waitCreate:
		case waitDelete:
			err = w.untilGone(ctx, t)
		case waitCondition, waitPath:
			final, err = w.untilMet(ctx, t, a)
		}
		if errors.Is(err, context.DeadlineExceeded) {
			return errTimedOut(t)
		}
		if err != nil {
			return err
		}
		if w.printer == nil {
			terminal.Printf(w.stdout, "%s condition met\n", qualified(t.Kind, t.Name))
		} else if err := w.printer(final); err != nil {
			return err
		}
	}
	return nil
}

func (w *waiting) untilGone(ctx context.Context, t podapi.Target) error {
	if w.once {
		_, err := w.api.Get(ctx, t, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err == nil {
			err = errNotMet(t)
		}
		return err
	}
	return goneWaiter{api: w.api, clock: w.env.Clock, stderr: w.stderr}.wait(ctx, t, "")
}

func errNotMet(t podapi.Target) error {
	return fmt.Errorf("condition not met for %s", resourceName(t.Kind, t.Name))
}

// untilMet returns the object once the aim is met; its end is an error.
func (w *waiting) untilMet(ctx context.Context, t podapi.Target, a waitAim) (runtime.Object, error) {
	if w.once {
		obj, err := w.api.Get(ctx, t, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		if met, err := a.met(obj); err != nil || !met {
			return nil, errors.Join(err, errNotMet(t))
		}
		return obj, nil
	}
	for {
		obj, err := w.watchOnce(ctx, t, a)
		if obj != nil || err != nil {
			return obj, err
		}
	}
}

// watchOnce is a list and the watch that follows it; nothing at all when the watch broke
// and should be started again.
func (w *waiting) watchOnce(ctx context.Context, t podapi.Target, a waitAim) (runtime.Object, error) {
	all := t
	all.Name = ""
	opts := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, t.Name).String()}
	list, err := w.api.List(ctx, all, opts)
	if err != nil {
		return nil, err
	}
	if len(list.Items) == 0 {
		return nil, apierrors.NewNotFound(t.Kind.GroupResource(), t.Name)
	}
	if met, err := a.met(list.Items[0]); met || err != nil {
		return list.Items[0], err
	}
	opts.ResourceVersion = list.ResourceVersion
	events, err := w.api.Watch(ctx, all, opts)
	if err != nil {
		return nil, err
	}
	defer events.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case event, open := <-events.ResultChan():
			switch {
			case !open:
				return nil, ctx.Err()
			case event.Type == watch.Error:
				terminal.Printf(w.stderr, "error: An error occurred while waiting for the condition to be satisfied: %v\n", apierrors.FromObject(event.Object))
				return nil, w.env.Clock.Sleep(ctx, relistPause)
			case event.Type != watch.Added && event.Type != watch.Modified:
				continue
			}
			if met, err := a.met(event.Object); met || err != nil {
				return event.Object, err
			}
		}
	}
}
