package client

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto"
)

// deleteFlags are the flags of delete that decide what is sent and what is said.
type deleteFlags struct {
	// grace is --grace-period; -1 when not set (CLI-01).
	grace       int
	now, force  bool
	cascade     string
	output      string
	selection   deleteSelection
	ignore      *bool // --ignore-not-found; nil when not set
	interactive bool
	raw         string
	dryRun      string
}

// deleteSelection are the flags that choose among the objects of a type.
type deleteSelection struct {
	all           bool
	selector      string
	fieldSelector string
}

// some reports whether any of them is set.
func (s deleteSelection) some() bool { return s.all || s.selector != "" || s.fieldSelector != "" }

// deletePlan is what a delete command will do.
type deletePlan struct {
	// options go with every DELETE.
	options metav1.DeleteOptions
	// force says that grace 0 is sent, which changes the words (CLI-08).
	force       bool
	interactive bool
	// nameOnly is -o name.
	nameOnly      bool
	ignoreMissing bool
	dryRun        dryRun
	wait          bool
	timeout       time.Duration
	// namespaceGiven says that the user named a namespace.
	namespaceGiven bool
	// deprecations are printed before anything else, errors included.
	deprecations []string
}

// forever is how long --timeout=0 waits.
const forever = 168 * time.Hour

// planDelete decides the DeleteOptions, and refuses what contradicts itself, before any
// request is made (CLI-02, CLI-03, CLI-05, CLI-06).
func planDelete(f deleteFlags) (deletePlan, error) {
	plan := deletePlan{interactive: f.interactive, nameOnly: f.output == "name"}
	policy, deprecated, err := parseCascade(f.cascade)
	if deprecated != "" {
		plan.deprecations = append(plan.deprecations, deprecated)
	}
	if err != nil {
		return plan, err
	}
	plan.options.PropagationPolicy = &policy
	grace, err := decideGrace(f)
	if err != nil {
		return plan, err
	}
	plan.options.GracePeriodSeconds = grace
	plan.force = grace != nil && *grace == 0
	run, deprecated, err := parseDryRun(f.dryRun)
	if deprecated != "" {
		plan.deprecations = append(plan.deprecations, "Warning: "+deprecated)
	}
	if err != nil {
		return plan, err
	}
	plan.dryRun = run
	plan.options.DryRun = run.options()
	plan.ignoreMissing = f.selection.some()
	if f.ignore != nil {
		plan.ignoreMissing = *f.ignore
	}
	return plan, f.contradiction()
}

// decideGrace is the grace to send; nil leaves it to the object. A zero without --force
// is turned into the least grace there is, without a word (CLI-02).
func decideGrace(f deleteFlags) (*int64, error) {
	grace := int64(f.grace)
	if f.now {
		if grace != -1 {
			return nil, errors.New("--now and --grace-period cannot be specified together")
		}
		grace = 1
	}
	if grace == 0 && !f.force {
		grace = 1
	}
	switch {
	case f.force && grace > 0:
		return nil, errors.New("--force and --grace-period greater than 0 cannot be specified together")
	case f.force:
		grace = 0
	case grace < 0:
		return nil, nil
	}
	return &grace, nil
}

// parseCascade reads --cascade, its old truth values included (CLI-05).
func parseCascade(value string) (policy metav1.DeletionPropagation, deprecated string, err error) {
	switch value {
	case "background":
		return metav1.DeletePropagationBackground, "", nil
	case "foreground":
		return metav1.DeletePropagationForeground, "", nil
	case "orphan":
		return metav1.DeletePropagationOrphan, "", nil
	}
	yes, parseErr := strconv.ParseBool(value)
	if parseErr != nil {
		return "", "", fmt.Errorf(`invalid cascade value (%s). Must be "background", "foreground", or "orphan"`, value)
	}
	policy, word := metav1.DeletePropagationOrphan, "orphan"
	if yes {
		policy, word = metav1.DeletePropagationBackground, "background"
	}
	return policy, fmt.Sprintf("warning: --cascade=%s is deprecated (boolean value) and can be replaced with --cascade=%s.", value, word), nil
}

// contradiction is the first pair of flags that exclude each other (CLI-06).
func (f deleteFlags) contradiction() error {
	switch {
	case f.output != "" && f.output != "name":
		return fmt.Errorf("unexpected -o output mode: %s. We only support '-o name'", f.output)
	case f.selection.all && f.selection.selector != "":
		return errors.New("cannot set --all and --selector at the same time")
	case f.selection.all && f.selection.fieldSelector != "":
		return errors.New("cannot set --all and --field-selector at the same time")
	case f.raw != "" && f.interactive:
		return errors.New("--interactive can not be used with --raw")
	case f.raw != "" && f.output != "":
		return errors.New("--raw and --output are mutually exclusive")
	default:
		return nil
	}
}

// message is the line for one object (CLI-07, CLI-08).
func (p deletePlan) message(t podapi.Target, compat proto.Compat) string {
	if p.nameOnly {
		return qualified(t.Kind, t.Name)
	}
	text := fmt.Sprintf("%s %q deleted", kindText(t.Kind), t.Name)
	if p.force {
		text = fmt.Sprintf("%s %q force deleted", kindText(t.Kind), t.Name)
	}
	if t.Kind.Namespaced && compat.DeletedNamesNamespace {
		text += fmt.Sprintf(" from %s namespace", t.Namespace)
	}
	return text + p.dryRun.suffix()
}

// deletePlan reads the flags.
func (c *call) deletePlan() (deletePlan, error) {
	f := deleteFlags{
		grace:   c.flags.Int("grace-period"),
		now:     c.flags.Bool("now"),
		force:   c.flags.Bool("force"),
		cascade: c.flags.String("cascade"),
		output:  c.flags.String(flagOutput),
		selection: deleteSelection{
			all:           c.flags.Bool(flagAll),
			selector:      c.flags.String(flagSelector),
			fieldSelector: c.flags.String(flagFieldSelector),
		},
		interactive: c.flags.Bool("interactive"),
		raw:         c.flags.String(flagRaw),
		dryRun:      c.flags.String(flagDryRun),
	}
	if c.flags.IsSet(flagIgnoreMissing) {
		ignore := c.flags.Bool(flagIgnoreMissing)
		f.ignore = &ignore
	}
	plan, err := planDelete(f)
	plan.wait = c.flags.Bool("wait")
	if plan.timeout = c.flags.Duration(flagTimeout); plan.timeout == 0 {
		plan.timeout = forever
	}
	_, given := c.namespace()
	plan.namespaceGiven = given && !c.flags.Bool(flagAllNamespaces)
	return plan, err
}
