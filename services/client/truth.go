package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/podfall/podfall/analysis/why"
	"github.com/podfall/podfall/analysis/why/gather"
	"github.com/podfall/podfall/analysis/windows"
	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/inspect"
	"github.com/podfall/podfall/internal/terminal"
	"github.com/podfall/podfall/proto/kinds"
)

func truthCommand(env Env) *cli.Command {
	return &cli.Command{
		Name:      "truth",
		Usage:     "show what the API says beside what the nodes say: orphans, and split-brain windows",
		ArgsUsage: "[NODE…]",
		Flags:     []cli.Flag{outputFlag("json")},
		Action:    action(env, runTruth),
	}
}

// Truth compares the API's state of pods with the nodes' state.
type Truth struct {
	At    time.Time   `json:"at"`
	Rows  []TruthRow  `json:"pods"`
	Nodes []TruthNode `json:"nodes"`
	// Windows are the split-brain windows, open and closed, as far back as the history goes.
	// Sources are the processes whose history that is.
	Windows []windows.Window `json:"windows"`
	Sources []why.Source     `json:"sources"`
	// WindowsUnknown is why windows are unknown; empty if they are known.
	WindowsUnknown string `json:"blind,omitempty"`
}

// TruthNode is the answer of one node.
type TruthNode struct {
	Node string `json:"node"`
	// AgeSeconds is the age of the node's answer.
	AgeSeconds float64 `json:"ageSeconds"`
	Err        string  `json:"err,omitempty"`
}

// TruthRow is one incarnation of a pod.
type TruthRow struct {
	Node      string `json:"node"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	// API is the state in the API: a phase, Terminating, or gone.
	API string `json:"api"`
	// Alive is how many containers the node has alive.
	Alive int `json:"alive"`
	// PIDs are the processes of those containers on the node's machine. Scripted counts containers
	// without a process.
	PIDs     []int `json:"pids,omitempty"`
	Scripted int   `json:"scripted,omitempty"`
	// OnNode is the node's state: how many containers are alive, or unknown.
	OnNode string `json:"there"`
	// Verdict names a difference between both states, for example an orphan.
	Verdict string `json:"verdict,omitempty"`
}

func runTruth(ctx context.Context, c *call) error {
	if format := c.flags.String(flagOutput); format != "" && format != "json" {
		return c.misused("--output %q: want json, or nothing", format)
	}
	api, err := c.api(ctx)
	if err != nil {
		return err
	}
	pods, err := listAll(ctx, api, target(builtInKind("pods"), "", ""), metav1.ListOptions{})
	if err != nil {
		return err
	}
	known, err := nodeNames(ctx, api, pods.Items)
	if err != nil {
		return err
	}
	nodes := c.flags.Args().Slice()
	for _, node := range nodes {
		if !slices.Contains(known, node) {
			return c.misused("NODE %q: there is none of this name: want one of %s", node, strings.Join(known, ", "))
		}
	}
	if len(nodes) == 0 {
		nodes = known
	}
	answers := c.askRuntimes(ctx, nodes)
	truth := Truth{At: c.env.Clock.Now(), Rows: []TruthRow{}, Windows: []windows.Window{}}
	for i, node := range nodes {
		truth.Nodes = append(truth.Nodes, TruthNode{Node: node, AgeSeconds: truth.At.Sub(answers[i].At).Seconds(), Err: answers[i].Err})
		truth.Rows = append(truth.Rows, compareNode(node, podsOn(pods.Items, node), answers[i])...)
	}
	reader, err := c.openHistory(ctx)
	if err == nil {
		err = reader.readNew(ctx)
	}
	switch {
	case errors.Is(err, errNoHistory):
		truth.WindowsUnknown = err.Error()
	case err != nil:
		return err
	default:
		truth.Windows, truth.Sources = append(truth.Windows, windows.Find(reader.events, c.env.Clock.Now())...), reader.sources()
	}
	if c.flags.String(flagOutput) == "json" {
		return c.printJSON(truth)
	}
	return c.printTruth(truth)
}

// askRuntimes asks all nodes' runtimes at once.
func (c *call) askRuntimes(ctx context.Context, nodes []string) []inspect.Answer[inspect.Runtime] {
	answers := make([]inspect.Answer[inspect.Runtime], len(nodes))
	ctx, cancel := clock.Clock{}.Timeout(ctx, gather.Patience)
	defer cancel()
	var all sync.WaitGroup
	for i, node := range nodes {
		all.Go(func() {
			answers[i].At, answers[i].Err = c.env.Clock.Now(), "processes cannot be asked from here"
			if c.session.Inspect == nil {
				return
			}
			data, err := c.session.Inspect(ctx, "runtime/"+node)
			answers[i].At = c.env.Clock.Now()
			runtime := &inspect.Runtime{}
			if err == nil {
				err = json.Unmarshal(data, runtime)
			}
			if err != nil {
				answers[i].Err = err.Error()
				return
			}
			answers[i].Report, answers[i].Err = runtime, ""
		})
	}
	all.Wait()
	return answers
}

// compareNode compares the API's and the runtime's pods of one node, by UID.
func compareNode(node string, pods []*corev1.Pod, answer inspect.Answer[inspect.Runtime]) []TruthRow {
	rows := map[string]*TruthRow{}
	for _, pod := range pods {
		state := string(pod.Status.Phase)
		if pod.DeletionTimestamp != nil {
			state = "Terminating"
		}
		rows[string(pod.UID)] = &TruthRow{Node: node, Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID), API: state}
	}
	if answer.Report != nil {
		for _, container := range answer.Report.Containers {
			if !container.Alive {
				continue
			}
			row := rows[container.UID]
			if row == nil {
				row = &TruthRow{Node: node, Namespace: container.Namespace, Name: container.Pod, UID: container.UID, API: "gone"}
				rows[container.UID] = row
			}
			row.Alive++
			if container.PID != 0 {
				row.PIDs = append(row.PIDs, container.PID)
			}
			if container.Scripted {
				row.Scripted++
			}
		}
	}
	sorted := make([]TruthRow, 0, len(rows))
	for _, row := range rows {
		row.setVerdict(answer.Report != nil)
		sorted = append(sorted, *row)
	}
	slices.SortFunc(sorted, func(a, b TruthRow) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	return sorted
}

func (r *TruthRow) setVerdict(known bool) {
	switch {
	case !known:
		r.OnNode = "unknown"
		return
	case r.Alive == 0:
		r.OnNode = "nothing alive"
	default:
		r.OnNode = fmt.Sprintf("%d alive", r.Alive) + formatProcesses(r.PIDs, r.Scripted)
	}
	switch {
	case r.API == "gone" && r.Alive > 0:
		r.Verdict = "orphan: the API has forgotten it"
	case r.API == string(corev1.PodRunning) && r.Alive == 0:
		r.Verdict = "the API thinks that it runs"
	case r.API == "Terminating" && r.Alive == 0:
		r.Verdict = "stopped, not confirmed"
	}
}

// printTruth prints the comparison for people.
func (c *call) printTruth(truth Truth) error {
	table := printers.GetNewTabWriter(c.stdout)
	terminal.Printf(table, "NODE\tNAMESPACE\tPOD\tUID\tAPI\tNODE SAYS\tVERDICT\n")
	for _, row := range truth.Rows {
		terminal.Printf(table, "%s\t%s\t%s\t%.8s\t%s\t%s\t%s\n", row.Node, row.Namespace, row.Name, row.UID, row.API, row.OnNode, row.Verdict)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, node := range truth.Nodes {
		if node.Err != "" {
			terminal.Printf(c.stdout, "\n%s says nothing: %s\n", node.Node, node.Err)
		}
	}
	for _, w := range truth.Windows {
		state := "was open"
		if w.Open() {
			state = "OPEN"
		}
		terminal.Printf(c.stdout, "\nsplit brain of %s %s for %.1fs, since %s\n", w.Identity, state, w.Took, w.Begin.UTC().Format(time.RFC3339))
		for _, incarnation := range w.Incarnations {
			terminal.Printf(c.stdout, "  uid %s on %s: containers %s%s\n", incarnation.UID, incarnation.Node, shortIDs(incarnation.Containers), formatProcesses(incarnation.PIDs, incarnation.Scripted))
		}
	}
	switch {
	case truth.WindowsUnknown != "":
		terminal.Printf(c.stdout, "\nWhether there was a split brain is not known: %s.\n", truth.WindowsUnknown)
		return nil
	case len(truth.Windows) == 0:
		terminal.Printf(c.stdout, "\nNo split brain.\n")
	}
	terminal.Printf(c.stdout, "\n%s\n", formatSources(truth.allSources()))
	return nil
}

// allSources are the runtimes that were asked just now, and the sources of the windows.
func (t Truth) allSources() []why.Source {
	all := make([]why.Source, 0, len(t.Nodes)+len(t.Sources))
	for _, node := range t.Nodes {
		all = append(all, why.Source{Name: "runtime/" + node.Node, AgeSeconds: node.AgeSeconds, Err: node.Err})
	}
	for _, s := range t.Sources {
		if !slices.ContainsFunc(all, func(other why.Source) bool { return other.Name == s.Name }) {
			all = append(all, s)
		}
	}
	return all
}

func shortIDs(ids []string) string {
	all := make([]string, 0, len(ids))
	for _, id := range ids {
		all = append(all, id[:min(len(id), 12)])
	}
	return strings.Join(all, " ")
}

// formatProcesses lists the containers' processes in parentheses; empty if none is known.
func formatProcesses(pids []int, scripted int) string {
	var all []string
	for _, pid := range pids {
		all = append(all, fmt.Sprintf("pid %d", pid))
	}
	switch {
	case scripted > 0 && len(all) == 0:
		all = append(all, "scripted, no process")
	case scripted > 0:
		all = append(all, fmt.Sprintf("%d scripted", scripted))
	case len(all) == 0:
		return ""
	}
	return " (" + strings.Join(all, ", ") + ")"
}

// nodeNames returns the API's nodes, and the nodes of pods that have no Node object.
func nodeNames(ctx context.Context, api API, pods []kinds.Object) ([]string, error) {
	nodes, err := listAll(ctx, api, target(builtInKind("nodes"), "", ""), metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, node := range nodes.Items {
		names = append(names, node.GetName())
	}
	for _, obj := range pods {
		if pod, ok := obj.(*corev1.Pod); ok && pod.Spec.NodeName != "" && !slices.Contains(names, pod.Spec.NodeName) {
			names = append(names, pod.Spec.NodeName)
		}
	}
	slices.Sort(names)
	return names, nil
}

func podsOn(pods []kinds.Object, node string) []*corev1.Pod {
	var there []*corev1.Pod
	for _, obj := range pods {
		if pod, ok := obj.(*corev1.Pod); ok && pod.Spec.NodeName == node {
			there = append(there, pod)
		}
	}
	return there
}

// builtInKind returns a kind of the table.
func builtInKind(resource string) kinds.Kind {
	kind, _ := kinds.ByResource(resource) // there is one
	return kind
}
