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

	"github.com/podfall/podfall/analysis/timeline"
	"github.com/podfall/podfall/analysis/why"
	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/internal/terminal"
)

func timelineCommand(env Env) *cli.Command {
	return &cli.Command{
		Name:      "timeline",
		Usage:     "tell one deletion of a pod across all processes, also when the pod is gone",
		ArgsUsage: "(pod/NAME | pod NAME)",
		Flags: []cli.Flag{
			namespaceFlag(),
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "go on until the pod is gone and nothing of it is alive"},
			&cli.StringFlag{Name: "uid", Usage: "the incarnation with this `UID`, not the newest"},
			outputFlag("json"),
		},
		Action: action(env, runTimeline),
	}
}

var errNoHistory = errors.New("this cluster has written no history here, and nobody can be asked for it: want its data directory, with --data, or its kubeconfig")

func runTimeline(ctx context.Context, c *call) error {
	if format := c.flags.String(flagOutput); format != "" && format != "json" {
		return c.misused("--output %q: want json, or nothing", format)
	}
	object, err := c.parseObject(ctx)
	if err != nil {
		return err
	}
	if object.Kind.Resource != "pods" {
		return fmt.Errorf("%s: want a pod", object.Kind.Resource)
	}
	events, err := c.openHistory(ctx)
	if err != nil {
		return err
	}
	writer := &timelineWriter{historyReader: events, printed: map[stepKey]bool{}, pod: object.Namespace + "/" + object.Name}
	follow := c.flags.Bool("follow")
	for {
		current, found, err := writer.readNew(ctx)
		switch {
		case err != nil:
			return err
		case !found && (!follow || !c.mayBeDeleted(ctx, object)):
			return fmt.Errorf("no deletion of pod %q in namespace %q has been written down. %s", object.Name, object.Namespace, formatSources(events.sources()))
		case found && c.flags.String(flagOutput) == "json":
			if !follow || current.Over {
				return c.printJSON(timelineReport{current, events.sources()})
			}
		case found:
			writer.printNew(current)
		}
		if !follow || current.Over {
			writer.printSources()
			return nil
		}
		if err := (clock.Clock{}).Sleep(ctx, followInterval); err != nil {
			writer.printSources()
			return err
		}
	}
}

// mayBeDeleted reports whether the API has the pod, or does not say: then its deletion may still begin.
func (c *call) mayBeDeleted(ctx context.Context, object podapi.Target) bool {
	api, err := c.api(ctx)
	if err == nil {
		_, err = api.Get(ctx, object, metav1.GetOptions{})
	}
	return !apierrors.IsNotFound(err)
}

// timelineReport is a timeline with its sources, for JSON.
type timelineReport struct {
	timeline.Timeline

	// Sources are the processes whose history the timeline is made from.
	Sources []why.Source `json:"sources"`
}

// followInterval is the wall-clock time between two reads of the history.
const followInterval = 200 * time.Millisecond

// timelineWriter reads the history and prints what is new in a pod's deletion.
type timelineWriter struct {
	*historyReader

	pod     string
	printed map[stepKey]bool
	uid     string
}

// stepKey identifies a printed step: a process that was silent may report steps late that belong
// between those of others.
type stepKey struct {
	at            time.Time
	process, text string
}

// printSources prints whose history was read.
func (w *timelineWriter) printSources() {
	if w.flags.String(flagOutput) == "" {
		terminal.Printf(w.stdout, "\n%s\n", formatSources(w.sources()))
		if w.askError != "" {
			terminal.Printf(w.stdout, "Nobody was asked, files were read: %s\n", w.askError)
		}
	}
}

// readNew reads new events and returns the timeline.
func (w *timelineWriter) readNew(ctx context.Context) (timeline.Timeline, bool, error) {
	if err := w.historyReader.readNew(ctx); err != nil {
		return timeline.Timeline{}, false, err
	}
	uid := w.uid
	if uid == "" {
		uid = w.flags.String("uid")
	}
	current, found := timeline.Find(w.events, w.pod, uid)
	w.uid = current.UID
	return current, found, nil
}

const laneWidth = 12

// printNew prints the steps that have not been printed yet.
func (w *timelineWriter) printNew(current timeline.Timeline) {
	if len(w.printed) == 0 {
		terminal.Printf(w.stdout, "pod %s, uid %s, node %s, asked for at %s, grace %ds\n\n", current.Pod, current.UID, current.Node,
			current.Began.UTC().Format(time.RFC3339), current.GraceSeconds)
		terminal.Printf(w.stdout, "%9s %6s  %-*s %-8s %s\n", "AFTER", "GRACE", laneWidth, "LANE", "RULE", "STEP")
	}
	for _, step := range current.Steps {
		known := stepKey{step.At, step.Process, step.Text}
		if w.printed[known] {
			continue
		}
		w.printed[known] = true
		share := "-"
		if current.GraceSeconds > 0 {
			share = fmt.Sprintf("%.0f%%", 100*step.Grace)
		}
		terminal.Printf(w.stdout, "%+8.3fs %6s  %-*s %-8s %s%s\n", step.AfterSeconds, share, laneWidth, step.Lane, step.Rule, indentLane(step.Lane), step.Text)
	}
	if current.Over {
		terminal.Printf(w.stdout, "\nThe object is gone, and nothing of it is alive.\n")
	}
}

// indentLane is the indentation of a lane's steps.
func indentLane(lane timeline.Lane) string {
	return strings.Repeat("  ", max(slices.Index(timeline.Lanes(), lane), 0))
}
