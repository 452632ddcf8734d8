package cluster

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/podfall/podfall/services/bus"
)

// Member is one process of a cluster.
type Member struct {
	// Name is "bus", "apiserver", "controllers", "gateway", "kubelet/<node>" or "runtime/<node>".
	Name string
	// Node is set for the two processes that a node has.
	Node string
	// Arguments of podfall for it, once the members of earlier stages are ready.
	Arguments func(Addresses) []string
}

// tuning is the environment of a member. Heaps are small, so that collecting them less
// often costs little memory; and the two processes of a node are many, so that each
// keeps to one processor: waking another for every message took 40 % of their time.
func (m Member) tuning() []string {
	tuning := []string{"GOGC=400"}
	if m.Node != "" {
		tuning = append(tuning, "GOMAXPROCS=1")
	}
	return tuning
}

// Addresses is what the processes of earlier stages have told: where they listen.
type Addresses struct {
	// Bus is the hub, and the links of the nodes.
	Bus bus.Addresses
	// Runtimes are the private buses, by node.
	Runtimes map[string]string
}

// Plan is the cluster's processes by stage: those of one stage need only those of the
// stages before it.
func Plan(layout Layout, options Options) [][]Member {
	first := []Member{network(layout, options)}
	second := []Member{apiserver(layout, options)}
	third := []Member{controllers(layout, options), gateway(layout, options)}
	for i, node := range options.Nodes {
		second = append(second, runtime(layout, options, node, i))
		third = append(third, kubelet(layout, options, node))
	}
	return [][]Member{first, second, third}
}

func network(layout Layout, options Options) Member {
	args := []string{"bus", "--keys", layout.Keys(), "--addresses", layout.busAddresses()}
	for _, node := range options.Nodes {
		args = append(args, "--node", node)
	}
	for _, url := range options.ExternalBus {
		args = append(args, "--bus", url)
	}
	return Member{Name: "bus", Arguments: func(Addresses) []string { return args }}
}

func apiserver(layout Layout, options Options) Member {
	return Member{Name: "apiserver", Arguments: func(at Addresses) []string {
		return append([]string{
			"apiserver", "--bus", strings.Join(at.Bus.Hub, ","), "--keys", layout.Keys(), "--data", layout.apiserver(),
			"--compat", options.Compat,
		}, timeArguments(options)...)
	}}
}

func controllers(layout Layout, options Options) Member {
	var chosen []string
	if len(options.Controllers) > 0 {
		chosen = []string{"--controllers=" + strings.Join(options.Controllers, ",")}
	}
	return Member{Name: "controllers", Arguments: func(at Addresses) []string {
		return append([]string{
			"controllers", "--bus", strings.Join(at.Bus.Hub, ","), "--keys", layout.Keys(), "--compat", options.Compat,
		}, append(timeArguments(options), chosen...)...)
	}}
}

func gateway(layout Layout, options Options) Member {
	return Member{Name: "gateway", Arguments: func(at Addresses) []string {
		return append([]string{
			"gateway", "--bus", strings.Join(at.Bus.Hub, ","), "--keys", layout.Keys(), "--compat", options.Compat,
			"--secrets", layout.door(), "--address", layout.gatewayAddress(), "--port", strconv.Itoa(options.Port),
		}, timeArguments(options)...)
	}}
}

func runtime(layout Layout, options Options, node string, number int) Member {
	return Member{Name: "runtime/" + node, Node: node, Arguments: func(Addresses) []string {
		return slices.Concat([]string{
			"runtime", "--node", node, "--node-keys", layout.NodeKeys(node), "--address", layout.runtimeAddress(node),
			"--data", layout.runtime(node), "--pod-cidr", fmt.Sprintf("10.244.%d.0/24", number),
		}, timeArguments(options), options.Containers.arguments())
	}}
}

func kubelet(layout Layout, options Options, node string) Member {
	return Member{Name: "kubelet/" + node, Node: node, Arguments: func(at Addresses) []string {
		return slices.Concat([]string{
			"kubelet", "--node", node, "--bus", at.Bus.Links[node], "--keys", layout.Keys(),
			"--runtime", at.Runtimes[node], "--node-keys", layout.NodeKeys(node),
			"--data", layout.node(node) + "/kubelet", "--compat", options.Compat, "--timing", options.Timing,
		}, timeArguments(options), options.KubeletArguments)
	}}
}

// timeArguments give every process the same clock.
func timeArguments(options Options) []string {
	if options.Speed == 1 {
		return nil
	}
	return []string{
		"--speed", strconv.FormatFloat(options.Speed, 'f', -1, 64),
		"--origin", options.Origin.Format(time.RFC3339Nano),
	}
}
