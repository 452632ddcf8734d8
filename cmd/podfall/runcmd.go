package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/urfave/cli/v2"

	"github.com/podfall/podfall/analysis/guarantees"
	"github.com/podfall/podfall/analysis/scenario"
	"github.com/podfall/podfall/cmd/podfall/cluster"
	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/terminal"
	"github.com/podfall/podfall/proto"
)

// exitFailed is the exit code of a failed scenario or a violated invariant.
const exitFailed = 4

// defaultSpeed is the clock speed of a scenario's own cluster: fast, and still slow compared with
// the time that requests take.
const defaultSpeed = 60

// runCommand executes scenarios.
func runCommand(layout cluster.Layout) *cli.Command {
	return &cli.Command{
		Name: "run", Usage: "play scenarios, and check that they go as told; exit code 4 when one does not", ArgsUsage: "FILE...",
		Description: "Each scenario gets a cluster of its own, which is taken down afterwards, unless --here plays them all in the one of --data,\n" +
			"one after the other. Durations in scenarios are in the cluster's time. With --verify a scenario in which a promise is broken has\n" +
			"not gone as told, and the data of its own cluster are kept, to be looked at with `podfall verify DIR`.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "junit", Usage: "write what became of them to this `FILE`, as JUnit"},
			&cli.Float64Flag{Name: "speed", Value: defaultSpeed, Usage: "seconds of the cluster in one of the wall"},
			&cli.DurationFlag{Name: "late", Usage: "how late, on the wall, the machine may make what is to happen within a time: `5s` for one that is busy"},
			&cli.Uint64Flag{Name: "seed", Usage: "the seed of faults that name none"},
			&cli.IntFlag{Name: "parallel", Value: 1, Usage: "how many to play at the same time"},
			&cli.BoolFlag{Name: "here", Usage: "play them in the cluster that runs"},
			&cli.BoolFlag{Name: "harmless", Usage: "leave out what is wrong: every scenario must then fail"},
			&cli.BoolFlag{Name: "verify", Usage: "check afterwards what podfall promises against what the cluster has written down, as verify does; on with --here, whose data stay"},
			&cli.BoolFlag{Name: "verbose", Aliases: []string{"v"}, Usage: "tell each step"},
		},
		Action: func(c *cli.Context) error {
			r, err := newRunner(c, layout)
			if err != nil {
				return err
			}
			reports := r.runAll(c.Context)
			if path := c.String("junit"); path != "" {
				data, err := scenario.JUnit(reports)
				if err == nil {
					err = os.WriteFile(path, data, 0o600)
				}
				if err != nil {
					return err
				}
			}
			return exitStatus(c, reports)
		},
	}
}

// exitStatus returns the exit error of a run.
func exitStatus(c *cli.Context, reports []scenario.Report) error {
	if err := c.Err(); err != nil {
		return err
	}
	broken := 0
	for _, report := range reports {
		if report.Err != nil {
			broken++
		}
	}
	if broken == 0 {
		return nil
	}
	return cli.Exit(fmt.Sprintf("%d of %d scenarios did not go as told", broken, len(reports)), exitFailed)
}

// runner executes scenarios.
type runner struct {
	scenarios []scenario.Scenario
	existing  *cluster.Layout
	speed     float64
	cfg       scenario.Config
	slots     chan struct{}
	verbose   bool
	verify    bool

	mu  sync.Mutex
	cli *cli.Context
}

func newRunner(c *cli.Context, layout cluster.Layout) (*runner, error) {
	if !c.Args().Present() {
		return nil, usageError("want the file of a scenario, such as chaos/scenarios/stk-06.yaml")
	}
	if c.Int("parallel") < 1 {
		return nil, usageError("--parallel %d: want 1 or more", c.Int("parallel"))
	}
	r := &runner{
		speed: c.Float64("speed"), verbose: c.Bool("verbose"), cli: c, slots: make(chan struct{}, c.Int("parallel")),
		cfg: scenario.Config{Harmless: c.Bool("harmless"), Seed: c.Uint64("seed")},
	}
	if _, err := clock.NewSchedule(clock.Clock{}.Now(), r.speed); err != nil {
		return nil, usageError("--%v", err)
	}
	if r.cfg.Late = c.Duration("late"); r.cfg.Late < 0 {
		return nil, usageError("--late %v: want 0 or more", r.cfg.Late)
	}
	r.verify = c.Bool("verify") || c.Bool("here") && !c.IsSet("verify")
	if c.Bool("here") {
		r.existing, r.slots = &layout, make(chan struct{}, 1)
	}
	for _, path := range c.Args().Slice() {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		story, err := scenario.Parse(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		r.scenarios = append(r.scenarios, story)
	}
	return r, nil
}

// runAll executes every scenario and prints each result.
func (r *runner) runAll(ctx context.Context) []scenario.Report {
	reports := make([]scenario.Report, len(r.scenarios))
	var playing sync.WaitGroup
	for i, story := range r.scenarios {
		r.slots <- struct{}{}
		playing.Go(func() {
			defer func() { <-r.slots }()
			reports[i] = r.runOne(ctx, story)
			r.printResult(reports[i])
		})
	}
	playing.Wait()
	return reports
}

// runOne executes a scenario in its cluster.
func (r *runner) runOne(ctx context.Context, story scenario.Scenario) scenario.Report {
	failed := func(err error) scenario.Report { return scenario.Report{Scenario: story, Err: err} }
	if err := ctx.Err(); err != nil {
		return failed(err)
	}
	layout, end, err := r.openCluster(ctx, story.Cluster)
	if err != nil {
		return failed(err)
	}
	w, err := openWorld(ctx, layout)
	if err != nil {
		return failed(errors.Join(err, end()))
	}
	cfg := r.cfg
	cfg.Cluster, cfg.Clock, cfg.Compat = w, w.clock.Clock(), w.compat
	if r.verbose {
		cfg.OnStep = func(number int, step scenario.Step) { r.printProgress("%s %d: %s", story.Name, number+1, step.Title()) }
	}
	report := scenario.Run(ctx, story, cfg)
	w.close()
	report.Err = errors.Join(report.Err, r.finish(ctx, layout, end))
	return report
}

// finish stops a scenario's cluster, and verifies its data if that is enabled.
func (r *runner) finish(ctx context.Context, layout cluster.Layout, end func() error) error {
	if !r.verify {
		return end()
	}
	if r.existing != nil {
		return verifyInvariants(ctx, layout)
	}
	ignore := func(string) {}
	if err := layout.Down(context.WithoutCancel(ctx), ignore); err != nil {
		return errors.Join(err, layout.Purge())
	}
	if err := verifyInvariants(ctx, layout); err != nil {
		return fmt.Errorf("%w\nits data are kept in %s", err, layout.Root)
	}
	return layout.Purge()
}

// verifyInvariants returns the invariants that the cluster has violated; nil for none.
func verifyInvariants(ctx context.Context, layout cluster.Layout) error {
	evidence, err := readEvidence(ctx, layout, io.Discard)
	if err != nil {
		return err
	}
	results, err := guarantees.Check(evidence)
	for _, result := range results {
		if broken := result.Err(); broken != nil {
			err = errors.Join(err, fmt.Errorf("a promise was broken: %w", broken))
		}
	}
	return err
}

// openCluster returns the cluster for a scenario, and a function that ends it.
func (r *runner) openCluster(ctx context.Context, needs scenario.Requirements) (cluster.Layout, func() error, error) {
	if r.existing != nil {
		return *r.existing, func() error { return nil }, nil
	}
	dir, err := os.MkdirTemp("", "podfall-run-")
	if err != nil {
		return cluster.Layout{}, nil, err
	}
	layout := cluster.Layout{Root: dir}
	options := cluster.Options{
		Name: "scenario", Speed: r.speed, Origin: clock.Clock{}.Now(), Compat: proto.DefaultRelease, Timing: "default",
		ControlPlane: cluster.ControlPlane{Controllers: needs.Controllers, DisablePlugins: needs.DisableAdmission},
	}
	for i := range max(1, needs.Nodes) {
		options.Nodes = append(options.Nodes, fmt.Sprintf("node-%d", i+1))
	}
	ignore := func(string) {}
	end := func() error {
		return errors.Join(layout.Down(context.WithoutCancel(ctx), ignore), layout.Purge())
	}
	if _, err := layout.Create(options, makeKeys); err != nil {
		return layout, nil, errors.Join(err, layout.Purge())
	}
	if err := layout.Detach(ctx, ignore); err != nil {
		return layout, nil, errors.Join(err, end())
	}
	return layout, end, nil
}

// printResult prints a scenario's result.
func (r *runner) printResult(report scenario.Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	word := "held  "
	if report.Err != nil {
		word = "broken"
	}
	terminal.Printf(r.cli.App.Writer, "%s %s: %s (%s)\n", word, report.Scenario.Name, report.Scenario.Title, report.Took.Round(100_000_000))
	if report.Err != nil {
		fmt.Fprintf(r.cli.App.Writer, "       %v\n", report.Err)
	}
}

func (r *runner) printProgress(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	terminal.Printf(r.cli.App.ErrWriter, format+"\n", args...)
}
