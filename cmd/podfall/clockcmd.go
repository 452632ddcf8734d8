package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/podfall/podfall/cmd/podfall/cluster"
	"github.com/podfall/podfall/internal/bus"
	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/mgmt"
	"github.com/podfall/podfall/proto"
)

// clockCommand shows the cluster's clock, and changes it in all processes at once.
func clockCommand(layout cluster.Layout) *cli.Command {
	speed := func() cli.Flag {
		return &cli.Float64Flag{Name: "speed", Usage: "seconds of the cluster in one of the wall from now on, 0.001 to 10000"}
	}
	move := func(name, usage string, change mgmt.ClockChange) *cli.Command {
		return &cli.Command{
			Name: name, Usage: usage, Flags: []cli.Flag{speed(), outputFlag()},
			Action: func(c *cli.Context) error { return moveClock(c, layout, change) },
		}
	}
	return &cli.Command{
		Name: "clock", Usage: "show the cluster's clock, or change it in all processes at one instant", ArgsUsage: "[pause|resume|step DURATION]",
		Description: "Graces, back-offs, leases and time stamps are in the cluster's time. What is under way goes on at a new speed.\n" +
			"A step is a jump: all that is due by then is due at once, and the nodes' leases are older by as much.",
		Flags: []cli.Flag{speed(), outputFlag()},
		Subcommands: []*cli.Command{
			move("pause", "stop the clock: no grace ends and no lease expires", mgmt.ClockChange{Pause: true}),
			move("resume", "let a clock go on that was paused", mgmt.ClockChange{Resume: true}),
			{
				Name: "step", Usage: "make the clock jump ahead by a `DURATION` such as 5m", ArgsUsage: "DURATION", Flags: []cli.Flag{speed(), outputFlag()},
				Action: func(c *cli.Context) error {
					step, err := time.ParseDuration(c.Args().First())
					if err != nil || step <= 0 || c.Args().Len() != 1 {
						return usageError("step %q: want one duration of more than 0s, such as 90s or 5m", strings.Join(c.Args().Slice(), " "))
					}
					return moveClock(c, layout, mgmt.ClockChange{Step: step})
				},
			},
		},
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return usageError("clock %s: want pause, resume, step DURATION or --speed N", c.Args().First())
			}
			return moveClock(c, layout, mgmt.ClockChange{})
		},
	}
}

func outputFlag() cli.Flag {
	return &cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "json, or a table"}
}

// moveClock makes the change, if there is one, waits until it is in force, and shows the clock.
func moveClock(c *cli.Context, layout cluster.Layout, change mgmt.ClockChange) error {
	if output := c.String("output"); output != "" && output != "json" {
		return usageError("--output %q: want json", output)
	}
	if change.Speed = c.Float64("speed"); c.IsSet("speed") {
		if _, err := clock.NewSchedule(time.Time{}, change.Speed); err != nil {
			return usageError("--%v", err)
		}
	}
	options, err := layout.Load()
	if err != nil {
		return err
	}
	var state mgmt.FaultState
	err = withManagement(c, layout, func(client *mgmt.Client) (err error) {
		if change == (mgmt.ClockChange{}) {
			state, err = client.Get(c.Context)
		} else {
			state, err = client.Set(c.Context, mgmt.Change{MoveClock: &change})
		}
		return err
	})
	if err != nil {
		return err
	}
	wall := clock.Clock{}
	if err := wall.Sleep(c.Context, wall.Until(state.Clock[len(state.Clock)-1].Wall)); err != nil {
		return err
	}
	if change != (mgmt.ClockChange{}) && len(options.Containers.AllowExec) > 0 {
		fmt.Fprint(c.App.ErrWriter, programsNote(state.Clock.SegmentAt(wall.Now()), change.Step))
	}
	return showClock(c.App.Writer, c.String("output"), state.Clock, wall.Now())
}

// showClock prints the clock's reading at now.
func showClock(out io.Writer, format string, schedule clock.Schedule, now time.Time) error {
	segment, shows := schedule.SegmentAt(now), schedule.TimeAt(now).UTC()
	if format == "json" {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(map[string]any{"time": shows, "wall": now.UTC(), "speed": segment.Speed, "paused": segment.Paused})
	}
	state := "running"
	if segment.Paused {
		state = "paused"
	}
	table := tabwriter.NewWriter(out, 0, 8, 3, ' ', 0)
	fmt.Fprintln(table, "TIME\tSPEED\tSTATE")
	fmt.Fprintf(table, "%s\t%v\t%s\n", shows.Format("2006-01-02T15:04:05.000Z"), segment.Speed, state)
	return table.Flush()
}

// warnPrograms warns on standard error how a cluster's clock affects real programs.
func warnPrograms(c *cli.Context, layout cluster.Layout, options cluster.Options) error {
	schedule, err := options.Schedule()
	if err != nil {
		return err
	}
	err = withManagement(c, layout, func(client *mgmt.Client) error {
		if state, err := client.Get(c.Context); err == nil { // an external hub may have no fault state
			schedule = state.Clock
		}
		return nil
	})
	if err != nil {
		return err
	}
	fmt.Fprint(c.App.ErrWriter, programsNote(schedule.SegmentAt(clock.Clock{}.Now()), 0))
	return nil
}

// programsNote explains how the clock affects real programs, which run in wall time but get their
// signals in cluster time. It is empty for a clock at normal speed.
func programsNote(segment clock.Segment, step time.Duration) string {
	const grace = 30 * time.Second
	var note strings.Builder
	if segment.Speed != 1 {
		fmt.Fprintf(&note, "note: real programs do not run faster or slower: at speed %v a grace of %v is %v for them\n",
			segment.Speed, grace, time.Duration(float64(grace)/segment.Speed))
	}
	if segment.Paused {
		note.WriteString("note: real programs run on in a pause: one that was sent SIGTERM has until its grace is over after the resume\n")
	}
	if step > 0 {
		fmt.Fprintf(&note, "note: a step gives real programs no time: one whose grace ends within the %v is sent SIGKILL at once\n", step)
	}
	return note.String()
}

// dialHub connects the command line to the hub.
func dialHub(ctx context.Context, layout cluster.Layout) (*bus.Conn, error) {
	addresses, err := layout.Addresses()
	if err != nil {
		return nil, fmt.Errorf("the cluster in %s is not up: %w", layout.Root, err)
	}
	config := bus.Config{URLs: addresses.Hub, Identity: proto.Client(admin)}
	if config.Seed, err = bus.LoadSeed(layout.Keys(), config.Identity); err != nil {
		return nil, err
	}
	ctx, cancel := clock.Clock{}.Timeout(ctx, dialTimeout)
	defer cancel()
	conn, err := bus.Dial(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("the cluster in %s does not answer; see podfall status: %w", layout.Root, err)
	}
	return conn, nil
}

// followClock updates the clock from the fault state until stop. It returns once the first state
// has arrived, or there is known to be none.
func followClock(ctx context.Context, conn *bus.Conn, driver *clock.Driver) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	received := make(chan struct{})
	once := sync.OnceFunc(func() { close(received) })
	var following sync.WaitGroup
	following.Go(func() {
		defer once()
		_ = mgmt.NewClient(conn).Follow(ctx, func(state mgmt.FaultState) { // without fault state the clock keeps its initial schedule
			driver.Set(state.Clock)
			once()
		})
	})
	<-received
	return func() {
		cancel()
		following.Wait()
	}
}
