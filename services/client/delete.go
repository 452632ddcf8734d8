package client

import (
	"context"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/terminal"
)

// deleteCommand is where a deletion's round 1 begins: flags become DeleteOptions
// (planDelete), every target gets one DELETE, and then the command waits until the
// objects are gone (goneWaiter).
func deleteCommand(env Env) *cli.Command {
	return &cli.Command{
		Name:      "delete",
		Usage:     "delete objects by name, by selector or by manifest, and wait until they are gone",
		ArgsUsage: "(-f FILE | TYPE [NAME… | -l SELECTOR | --all] | TYPE/NAME…)",
		Flags:     deleteFlagList(),
		Action:    action(env, runDelete),
	}
}

func deleteFlagList() []cli.Flag {
	return join(namespaceFlags(), selectorFlags(), filenameFlags(), []cli.Flag{
		allNamespacesFlag(),
		&cli.BoolFlag{Name: flagAll, Usage: "every object of the type"},
		&cli.IntFlag{Name: "grace-period", Value: -1, Usage: "seconds to end in; negative leaves it to the object"},
		&cli.BoolFlag{Name: "now", Usage: "a grace of one second"},
		&cli.BoolFlag{Name: "force", Usage: "remove the object at once, whatever still runs"},
		bareFlag{
			StringFlag: &cli.StringFlag{Name: "cascade", Value: "background", Usage: "background, foreground or orphan: what becomes of dependents"},
			bare:       "background",
		},
		&cli.BoolFlag{Name: "wait", Value: true, Usage: "wait until the objects are gone"},
		&cli.DurationFlag{Name: flagTimeout, Usage: "how long to wait; 0 is a week"},
		ignoreMissingFlag(),
		&cli.BoolFlag{Name: "interactive", Aliases: []string{"i"}, Usage: "ask first"},
		dryRunFlag(),
		outputFlag("name"),
		&cli.StringFlag{Name: flagRaw, Usage: "a path of the API, DELETEd as it is"},
	})
}

func runDelete(ctx context.Context, c *call) error {
	plan, err := c.deletePlan()
	for _, warning := range plan.deprecations {
		terminal.Printf(c.stderr, "%s\n", warning)
	}
	if err != nil {
		return err
	}
	if raw := c.flags.String(flagRaw); raw != "" {
		return runDeleteRaw(ctx, c, raw, plan)
	}
	aim, err := c.aim(ctx)
	if err != nil {
		return err
	}
	if plan.force {
		c.warn("Immediate deletion does not wait for confirmation that the running resource has been terminated. The resource may continue to run on the cluster indefinitely.") // CLI-04
	}
	api, err := c.api(ctx)
	if err != nil {
		return err
	}
	d := &deletion{call: c, api: api, plan: plan, aim: aim}
	if plan.interactive {
		if proceed, err := d.confirm(ctx); err != nil || !proceed {
			return err
		}
	}
	return d.run(ctx)
}

// deletion is one delete command after its plan is made.
type deletion struct {
	*call
	api  API
	plan deletePlan
	aim  aim
	// previewed is what the user has agreed to; nil when not asked.
	previewed map[place]bool
}

// deleted is a target whose DELETE was answered.
type deleted struct {
	victim
	// uid is the one in the answer; empty when the answer had none.
	uid types.UID
}

// run sends the DELETEs, one per target (CLI-20, CLI-21). Any failure but a target that
// may be missing ends the command before it waits (CLI-11).
func (d *deletion) run(ctx context.Context) error {
	victims, errs := d.aim.victims(ctx, d.api)
	var sent []deleted
	found := 0
	warned := false
	for _, v := range victims {
		if d.previewed != nil && !d.previewed[v.place()] {
			continue
		}
		found++
		if !v.target.Kind.Namespaced && d.plan.namespaceGiven && !warned {
			d.warn("deleting cluster-scoped resources, not scoped to the provided namespace") // CLI-28
			warned = true
		}
		uid, err := d.deleteOne(ctx, v)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		sent = append(sent, deleted{victim: v, uid: uid})
	}
	if errs = d.plan.serious(errs); len(errs) > 0 {
		return joined(errs)
	}
	if found == 0 {
		terminal.Printf(d.stdout, "No resources found\n") // CLI-10
		return nil
	}
	if !d.plan.wait || d.plan.dryRun != dryRunNone {
		return nil
	}
	return d.waitGone(ctx, sent)
}

// deleteOne sends one DELETE and says so as soon as it is answered (CLI-07).
func (d *deletion) deleteOne(ctx context.Context, v victim) (types.UID, error) {
	if d.plan.dryRun == dryRunClient {
		terminal.Printf(d.stdout, "%s\n", d.plan.message(v.target, d.env.Compat))
		return "", nil
	}
	answer, err := d.api.Delete(ctx, v.target, d.plan.options)
	if err != nil {
		return "", whileDoing("deleting", v.source, err)
	}
	terminal.Printf(d.stdout, "%s\n", d.plan.message(v.target, d.env.Compat))
	return uidOf(answer), nil
}

// uidOf is the UID of what an answer to DELETE is about.
func uidOf(answer runtime.Object) types.UID {
	if status, ok := answer.(*metav1.Status); ok {
		if status.Details == nil {
			return ""
		}
		return status.Details.UID
	}
	object, err := meta.Accessor(answer)
	if err != nil {
		return ""
	}
	return object.GetUID()
}

// serious drops what --ignore-not-found allows (CLI-09).
func (p deletePlan) serious(errs []error) []error {
	var kept []error
	for _, err := range errs {
		if !p.ignoreMissing || !apierrors.IsNotFound(err) {
			kept = append(kept, err)
		}
	}
	return kept
}

// confirm shows what would be deleted and asks (CLI-27).
func (d *deletion) confirm(ctx context.Context) (proceed bool, err error) {
	victims, errs := d.aim.victims(ctx, d.api)
	if errs = d.plan.serious(errs); len(errs) > 0 {
		return false, joined(errs)
	}
	if len(victims) == 0 {
		terminal.Printf(d.stdout, "No resources found\n")
		return false, nil
	}
	terminal.Printf(d.stdout, "You are about to delete the following %d resource(s):\n", len(victims))
	d.previewed = map[place]bool{}
	for _, v := range victims {
		d.previewed[v.place()] = true
		terminal.Printf(d.stdout, "%s\n", qualified(v.target.Kind, v.target.Name))
	}
	terminal.Printf(d.stdout, "Do you want to continue? (y/N): ")
	var answer string
	if _, err := fmt.Fscanln(d.env.Stdin, &answer); err == nil && strings.EqualFold(answer, "y") {
		return true, nil
	}
	terminal.Printf(d.stdout, "deletion is cancelled\n")
	return false, nil
}
