package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podfall/podfall/analysis/why"
	"github.com/podfall/podfall/analysis/why/gather"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/internal/terminal"
)

const (
	// maxExplained is how many objects one `why` explains. A larger number of objects is counted.
	maxExplained = 200
	// explainedAtOnce is how many objects are explained at the same time.
	explainedAtOnce = 8
	// whyListSchema names the form of the JSON of several reports.
	whyListSchema = "podfall.io/why-list/v1"
)

// whyList is what `why` without an object found.
type whyList struct {
	Schema  string       `json:"schema"`
	Items   []why.Report `json:"items"`
	Blocked bool         `json:"blocked"`
	// Left counts the objects that are being deleted and were not explained.
	Left int `json:"left,omitempty"`
}

// explainAll explains every object that is being deleted, in the namespace that the flags name or
// in all namespaces. It returns errBlocked if one of the objects is blocked.
func (c *call) explainAll(ctx context.Context) error {
	api, err := c.api(ctx)
	if err != nil {
		return err
	}
	targets, err := c.deletedObjects(ctx, api)
	if err != nil {
		return err
	}
	list := whyList{Schema: whyListSchema, Left: max(len(targets)-maxExplained, 0)}
	observer := gather.Observer{API: api, Ask: gather.JSON(c.session.Inspect), Clock: c.env.Clock}
	if list.Items, err = explainEach(ctx, observer, targets[:len(targets)-list.Left]); err != nil {
		return err
	}
	list.Blocked = slices.ContainsFunc(list.Items, why.Report.Blocked)
	if c.flags.String(flagOutput) == "json" {
		err = c.printJSON(list)
	} else {
		c.writeGroups(list)
	}
	if err == nil && list.Blocked {
		return errBlocked
	}
	return err
}

// deletedObjects lists the objects of all kinds that have a deletionTimestamp.
func (c *call) deletedObjects(ctx context.Context, api API) ([]podapi.Target, error) {
	namespace, explicit := c.namespace()
	if !explicit || c.flags.Bool(flagAllNamespaces) {
		namespace = ""
	}
	var found []podapi.Target
	listed := map[schema.GroupResource]bool{
		{Resource: "events"}:            true, // many, and nothing waits for one
		{Resource: "componentstatuses"}: true, // nobody can delete one
	}
	for _, kind := range c.kinds(ctx).everything() {
		if listed[kind.GroupResource()] || !kind.Namespaced && namespace != "" {
			continue
		}
		listed[kind.GroupResource()] = true
		list, err := listAll(ctx, api, target(kind, namespace, ""), metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", kind.GroupResource(), err)
		}
		for _, obj := range list.Items {
			if obj.GetDeletionTimestamp() != nil {
				found = append(found, target(kind, obj.GetNamespace(), obj.GetName()))
			}
		}
	}
	return found, nil
}

// explainEach returns the reports of the objects that are still there, in the order of targets.
func explainEach(ctx context.Context, observer gather.Observer, targets []podapi.Target) ([]why.Report, error) {
	reports, errs := make([]why.Report, len(targets)), make([]error, len(targets))
	places := make(chan struct{}, explainedAtOnce)
	var all sync.WaitGroup
	for i, target := range targets {
		all.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			reports[i], errs[i] = observer.Why(ctx, target)
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(reports, why.Report.Missing), nil
}

// causeGroup is the objects that one cause blocks, or that nothing blocks.
type causeGroup struct {
	first   *why.Finding // the finding of the first object; nil for objects that nothing blocks
	objects []string
}

// groupByCause groups reports by the first finding that blocks. Groups with more objects come
// first; objects that nothing blocks come last.
func groupByCause(reports []why.Report) []causeGroup {
	groups, order := map[string]*causeGroup{}, []string{}
	for _, report := range reports {
		finding, title := firstBlocker(report), ""
		if finding != nil {
			title = finding.Title()
		}
		if groups[title] == nil {
			groups[title] = &causeGroup{first: finding}
			order = append(order, title)
		}
		groups[title].objects = append(groups[title].objects, describeBlocked(report, finding))
	}
	slices.SortStableFunc(order, func(a, b string) int {
		if free := cmp.Compare(min(len(b), 1), min(len(a), 1)); free != 0 {
			return free
		}
		return cmp.Compare(len(groups[b].objects), len(groups[a].objects))
	})
	sorted := make([]causeGroup, 0, len(order))
	for _, title := range order {
		sorted = append(sorted, *groups[title])
	}
	return sorted
}

// firstBlocker returns the first finding that blocks the object itself or an object that the
// object waits for; nil if nothing blocks.
func firstBlocker(report why.Report) *why.Finding {
	for i := range report.Findings {
		if report.Findings[i].Blocks {
			return &report.Findings[i]
		}
	}
	for _, below := range report.Below {
		if finding := firstBlocker(below); finding != nil {
			return finding
		}
	}
	return nil
}

// describeBlocked returns one line about an object: its name, its namespace, and how long the
// finding or the deletion has lasted.
func describeBlocked(report why.Report, finding *why.Finding) string {
	line := report.Object
	if report.Namespace != "" {
		line += " in " + report.Namespace
	}
	if finding == nil {
		return line + ": " + report.State
	}
	if lasted := report.At.Sub(finding.Since); !finding.Since.IsZero() && lasted >= 0 {
		line += fmt.Sprintf(", for %v", lasted.Round(time.Second))
	}
	return line
}

// writeGroups prints the reports by cause.
func (c *call) writeGroups(list whyList) {
	if len(list.Items) == 0 {
		terminal.Printf(c.stdout, "Nothing is being deleted.\n")
	}
	for i, group := range groupByCause(list.Items) {
		if i > 0 {
			terminal.Printf(c.stdout, "\n")
		}
		noun := "objects"
		if len(group.objects) == 1 {
			noun = "object"
		}
		title, advice := "not blocked", ""
		if group.first != nil {
			title, advice = group.first.Title(), group.first.Unblocks
		}
		terminal.Printf(c.stdout, "%s: %d %s\n", title, len(group.objects), noun)
		for _, object := range group.objects {
			terminal.Printf(c.stdout, "  %s\n", object)
		}
		if advice != "" {
			terminal.Printf(c.stdout, "  unblocks   %s\n", advice)
		}
	}
	if list.Left > 0 {
		terminal.Printf(c.stdout, "\n%d more objects are being deleted: name a namespace with -n, or one object\n", list.Left)
	}
}
