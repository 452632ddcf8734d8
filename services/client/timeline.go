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
	about, err := c.about(ctx)
	if err != nil {
		return err
	}
	if about.Kind.Resource != "pods" {
		return fmt.Errorf("%s: want a pod", about.Kind.Resource)
	}
	events, err := c.past(ctx)
	if err != nil {
		return err
	}
	teller := &timelineWriter{past: events, printed: map[toldStep]bool{}, pod: about.Namespace + "/" + about.Name}
	follow := c.flags.Bool("follow")
	for {
		told, found, err := teller.read(ctx)
		switch {
		case err != nil:
			return err
		case !found && (!follow || !c.mayBeDeleted(ctx, about)):
			return fmt.Errorf("no deletion of pod %q in namespace %q has been written down. %s", about.Name, about.Namespace, evidence(events.sources()))
		case found && c.flags.String(flagOutput) == "json":
			if !follow || told.Over {
				return c.json(toldTimeline{told, events.sources()})
			}
		case found:
			teller.write(told)
		}
		if !follow || told.Over {
			teller.end()
			return nil
		}
		if err := (clock.Clock{}).Sleep(ctx, followPause); err != nil {
			teller.end()
			return err
		}
	}
}

// mayBeDeleted reports whether the API has the pod, or does not say: then its deletion may still begin.
func (c *call) mayBeDeleted(ctx context.Context, about podapi.Target) bool {
	api, err := c.api(ctx)
	if err == nil {
		_, err = api.Get(ctx, about, metav1.GetOptions{})
	}
	return !apierrors.IsNotFound(err)
}

// toldTimeline is a timeline as programs are told it.
type toldTimeline struct {
	timeline.Timeline

	// Sources are whose words it goes by.
	Sources []why.Source `json:"sources"`
}

// followPause is between two looks at the history, on the wall.
const followPause = 200 * time.Millisecond

// timelineWriter reads the history and prints what is new in a pod's deletion.
type timelineWriter struct {
	*past

	pod     string
	printed map[toldStep]bool
	uid     string
}

// toldStep is what a step is known by: a process that was silent for a while tells late
// what belongs between others' steps.
type toldStep struct {
	at            time.Time
	process, text string
}

// end says whose words were told.
func (w *timelineWriter) end() {
	if w.flags.String(flagOutput) == "" {
		terminal.Printf(w.stdout, "\n%s\n", evidence(w.sources()))
		if w.unasked != "" {
			terminal.Printf(w.stdout, "Nobody was asked, files were read: %s\n", w.unasked)
		}
	}
}

// read takes what is new into the timeline.
func (w *timelineWriter) read(ctx context.Context) (timeline.Timeline, bool, error) {
	if err := w.past.read(ctx); err != nil {
		return timeline.Timeline{}, false, err
	}
	uid := w.uid
	if uid == "" {
		uid = w.flags.String("uid")
	}
	told, found := timeline.Find(w.events, w.pod, uid)
	w.uid = told.UID
	return told, found, nil
}

// The widths of the columns before the lanes.
const laneWidth = 12

// write prints the steps that have not been printed yet.
func (w *timelineWriter) write(told timeline.Timeline) {
	if len(w.printed) == 0 {
		terminal.Printf(w.stdout, "pod %s, uid %s, node %s, asked for at %s, grace %ds\n\n", told.Pod, told.UID, told.Node,
			told.Began.UTC().Format(time.RFC3339), told.GraceSeconds)
		terminal.Printf(w.stdout, "%9s %6s  %-*s %-8s %s\n", "AFTER", "GRACE", laneWidth, "LANE", "RULE", "STEP")
	}
	for _, step := range told.Steps {
		known := toldStep{step.At, step.Process, step.Text}
		if w.printed[known] {
			continue
		}
		w.printed[known] = true
		share := "-"
		if told.GraceSeconds > 0 {
			share = fmt.Sprintf("%.0f%%", 100*step.Grace)
		}
		terminal.Printf(w.stdout, "%+8.3fs %6s  %-*s %-8s %s%s\n", step.AfterSeconds, share, laneWidth, step.Lane, step.Rule, indent(step.Lane), step.Text)
	}
	if told.Over {
		terminal.Printf(w.stdout, "\nThe object is gone, and nothing of it is alive.\n")
	}
}

// indent moves a step into its lane.
func indent(lane timeline.Lane) string {
	return strings.Repeat("  ", max(slices.Index(timeline.Lanes(), lane), 0))
}
