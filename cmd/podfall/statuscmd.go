package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/podfall/podfall/cmd/podfall/cluster"
	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/inspect"
	"github.com/podfall/podfall/internal/mgmt"
	"github.com/podfall/podfall/internal/partition"
	"github.com/podfall/podfall/internal/terminal"
)

func statusCommand(layout cluster.Layout) *cli.Command {
	return &cli.Command{
		Name: "status", Usage: "list a cluster's processes, and what is cut or broken on purpose",
		Flags: []cli.Flag{outputFlag()},
		Action: func(c *cli.Context) error {
			options, err := layout.Load()
			if err != nil {
				return err
			}
			processes, err := layout.Status(options)
			if err != nil {
				return err
			}
			found := readManagement(c.Context, layout, options, processes)
			switch output := c.String("output"); output {
			case "json":
				return encodeStatus(c.App.Writer, options, processes, found)
			case "":
				if err := printStatus(c.App.Writer, processes); err != nil {
					return err
				}
				printPrograms(c.App.Writer, found.programs)
				if found.silent != "" {
					_, err := fmt.Fprintf(c.App.Writer, "\nWhat is cut or broken is not known: %s\n", terminal.Line(found.silent))
					return err
				}
				return printState(c.App.Writer, found.board)
			default:
				return usageError("--output %q: want json", output)
			}
		},
	}
}

// managementTimeout bounds how long status waits for answers.
const managementTimeout = time.Second

// management is what status learns over the management connection; empty if the bus does not run.
type management struct {
	board mgmt.FaultState
	// silent says why a running bus did not report its state.
	silent string
	// programs describes how real programs run, by node, if any may run.
	programs map[string]string
}

func readManagement(ctx context.Context, layout cluster.Layout, options cluster.Options, processes []cluster.Process) (found management) {
	silent := func(error) string { return "" } // a bus in a container has no process here either
	if i := slices.IndexFunc(processes, func(p cluster.Process) bool { return p.Name == "bus" && p.PID != 0 }); i >= 0 {
		silent = func(err error) string {
			if errors.Is(err, context.DeadlineExceeded) {
				return fmt.Sprintf("the bus, which is %s, has not told within %v", processes[i].State, managementTimeout)
			}
			return fmt.Sprintf("the bus, which is %s, does not tell: %v", processes[i].State, err)
		}
	}
	ctx, cancel := clock.Clock{}.Timeout(ctx, managementTimeout)
	defer cancel()
	conn, err := dialHub(ctx, layout)
	if err != nil {
		return management{silent: silent(err)}
	}
	defer conn.Close()
	client := mgmt.NewClient(conn)
	if found.board, err = client.Get(ctx); err != nil {
		found.silent = silent(err)
	}
	if len(options.Containers.AllowExec) == 0 {
		return found
	}
	found.programs = map[string]string{}
	for _, node := range options.Nodes {
		var answer inspect.Runtime
		raw, err := client.Inspect(ctx, "runtime/"+node, nil)
		if err == nil {
			err = json.Unmarshal(raw, &answer)
		}
		if found.programs[node] = answer.Programs; err != nil {
			found.programs[node] = "unknown: its runtime does not answer"
		}
	}
	return found
}

// linkState is the status of a member's link.
type linkState struct {
	Party string `json:"party"`
	// State is whole, cut or slow.
	State    string               `json:"state"`
	FromNode partition.Manner     `json:"fromNode"`
	ToNode   partition.Manner     `json:"toNode"`
	Detail   *partition.Condition `json:"condition,omitempty"`
}

// linkStates returns the states of all links at a wall time.
func linkStates(faults mgmt.FaultState, wall time.Time) []linkState {
	states := make([]linkState, 0, len(faults.Members))
	for _, member := range faults.Members {
		condition, _ := partition.ConditionOf(faults.Cuts, member, faults.Members, faults.Clock.TimeAt(wall))
		state := linkState{Party: member, State: "whole", FromNode: condition.Manner(partition.FromNode), ToNode: condition.Manner(partition.ToNode)}
		switch {
		case state.FromNode != partition.Carry || state.ToNode != partition.Carry:
			state.State = "cut"
		case !condition.IsHealthy():
			state.State = "slow"
		}
		if !condition.IsHealthy() {
			state.Detail = &condition
		}
		states = append(states, state)
	}
	return states
}

func encodeStatus(out io.Writer, options cluster.Options, processes []cluster.Process, found management) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	status := map[string]any{"cluster": options, "processes": processes}
	if state := found.board; state.Epoch != "" {
		status["links"], status["cuts"], status["faults"] = linkStates(state, clock.Clock{}.Now()), state.Cuts, state.Faults
	}
	if found.silent != "" {
		status["unknown"] = "what is cut or broken: " + found.silent
	}
	if found.programs != nil {
		status["programs"] = found.programs
	}
	return encoder.Encode(status)
}

// printPrograms prints how real programs run, and which isolation the machine refuses.
func printPrograms(out io.Writer, programs map[string]string) {
	if len(programs) > 0 {
		fmt.Fprintln(out)
	}
	for _, node := range slices.Sorted(maps.Keys(programs)) {
		terminal.Printf(out, "Programs on %s run %s\n", node, programs[node])
	}
}

func printStatus(out io.Writer, processes []cluster.Process) error {
	table := tabwriter.NewWriter(out, 0, 8, 3, ' ', 0)
	fmt.Fprintln(table, "PROCESS\tSTATE\tPID\tADDRESS")
	for _, process := range processes {
		pid := "<none>"
		if process.PID != 0 {
			pid = strconv.Itoa(process.PID)
		}
		terminal.Printf(table, "%s\t%s\t%s\t%s\n", process.Name, process.State, pid, cmp.Or(process.Address, "<none>"))
	}
	return table.Flush()
}

// printState prints the cuts and faults; nothing if there are none.
func printState(out io.Writer, state mgmt.FaultState) error {
	if len(state.Cuts) > 0 {
		fmt.Fprintln(out)
		table := tabwriter.NewWriter(out, 0, 8, 3, ' ', 0)
		fmt.Fprintln(table, "CUT\tWHO\tHOW")
		for _, cut := range state.Cuts {
			terminal.Printf(table, "%s\t%s\t%s\n", cut.Name, strings.Join(cut.Spec.CutOff(state.Members), ","), describeManner(cut.Spec)+describeEnd(cut.Until, cut.Lease))
		}
		if err := table.Flush(); err != nil {
			return err
		}
	}
	if len(state.Faults) == 0 {
		return nil
	}
	fmt.Fprintln(out)
	return printFaults(out, state.Faults)
}
