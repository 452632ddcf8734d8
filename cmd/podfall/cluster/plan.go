package cluster

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podfall/podfall/internal/podcidr"
	"github.com/podfall/podfall/services/bus"
)

// Member is one process of a cluster.
type Member struct {
	// Name is "bus", "apiserver", "controllers", "gateway", "kubelet/<node>" or "runtime/<node>".
	Name string
	// Node is set for the two processes of a node.
	Node string
	// Arguments returns podfall's arguments for the process, once the members of earlier stages are
	// ready.
	Arguments func(Addresses) []string
}

// tuning returns a member's environment. Heaps are small, so collecting garbage less often costs
// little memory. A cluster has many node processes, so each uses one processor: waking another for
// every message took 40 % of their time.
func (m Member) tuning() []string {
	tuning := []string{"GOGC=400"}
	if m.Node != "" {
		tuning = append(tuning, "GOMAXPROCS=1")
	}
	return tuning
}

// Addresses are the addresses that earlier stages have published.
type Addresses struct {
	// Bus has the hub and the links.
	Bus bus.Addresses
	// Runtimes has the private buses, by node.
	Runtimes map[string]string
}

// hub returns the hub's URLs, for management connections.
func (a Addresses) hub() string { return strings.Join(a.Bus.Hub, ",") }

// Plan returns the cluster's processes by stage. Processes of one stage depend only on earlier
// stages.
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
	args := []string{"bus", "--keys", layout.Keys(), "--addresses", layout.busAddresses(), "--board", layout.stateFile(), "--history", layout.History()}
	for _, node := range options.Nodes {
		args = append(args, "--node", node)
	}
	for _, url := range options.ExternalBus {
		args = append(args, "--bus", url)
	}
	args = slices.Concat(args, options.listenArguments(), timeArguments(options))
	return Member{Name: "bus", Arguments: func(Addresses) []string { return args }}
}

func apiserver(layout Layout, options Options) Member {
	var without []string
	if len(options.DisablePlugins) > 0 {
		without = []string{"--disable-admission-plugins=" + strings.Join(options.DisablePlugins, ",")}
	}
	return Member{Name: "apiserver", Arguments: func(at Addresses) []string {
		return append([]string{
			"apiserver", "--bus", at.Bus.Links["apiserver"], "--hub", at.hub(), "--keys", layout.Keys(), "--data", layout.apiserverDir(), "--history", layout.History(),
			"--compat", options.Compat,
		}, append(timeArguments(options), without...)...)
	}}
}

func controllers(layout Layout, options Options) Member {
	var chosen []string
	if len(options.Controllers) > 0 {
		chosen = []string{"--controllers=" + strings.Join(options.Controllers, ",")}
	}
	if options.StuckEvents {
		chosen = append(chosen, "--stuck-events")
	}
	return Member{Name: "controllers", Arguments: func(at Addresses) []string {
		return append([]string{
			"controllers", "--bus", at.Bus.Links["controllers"], "--hub", at.hub(), "--keys", layout.Keys(), "--history", layout.History(), "--compat", options.Compat,
			"--volumes", layout.volumesDir(), "--root-ca-file", filepath.Join(layout.gatewayDir(), authorityCertificate),
		}, append(timeArguments(options), chosen...)...)
	}}
}

func gateway(layout Layout, options Options) Member {
	return Member{Name: "gateway", Arguments: func(at Addresses) []string {
		return append([]string{
			"gateway", "--bus", at.Bus.Links["gateway"], "--hub", at.hub(), "--keys", layout.Keys(), "--compat", options.Compat,
			"--secrets", layout.gatewayDir(), "--address", layout.gatewayAddress(), "--port", strconv.Itoa(options.Port),
		}, append(timeArguments(options), options.listenArguments()...)...)
	}}
}

func runtime(layout Layout, options Options, node string, number int) Member {
	return Member{Name: "runtime/" + node, Node: node, Arguments: func(at Addresses) []string {
		return slices.Concat([]string{
			"runtime", "--node", node, "--hub", at.hub(), "--keys", layout.Keys(), "--node-keys", layout.NodeKeys(node), "--address", layout.runtimeAddress(node),
			"--data", layout.runtimeDir(node), "--history", layout.History(), "--pod-cidr", podcidr.NodeCIDR(number, options.maxPods()),
		}, timeArguments(options), options.listenArguments(), options.Containers.arguments())
	}}
}

func kubelet(layout Layout, options Options, node string) Member {
	return Member{Name: "kubelet/" + node, Node: node, Arguments: func(at Addresses) []string {
		return slices.Concat([]string{
			"kubelet", "--node", node, "--bus", at.Bus.Links[node], "--hub", at.hub(), "--keys", layout.Keys(),
			"--runtime", at.Runtimes[node], "--node-keys", layout.NodeKeys(node),
			"--data", layout.nodeDir(node) + "/kubelet", "--pod-manifest-path", layout.nodeDir(node) + "/manifests", "--history", layout.History(), "--compat", options.Compat, "--timing", options.Timing,
		}, options.Containers.volumeArguments(layout), timeArguments(options), options.KubeletArguments)
	}}
}

// maxPods returns the --max-pods value of the kubelet arguments; 0 if it is absent or invalid.
func (o Options) maxPods() int {
	pods := 0
	for i, argument := range o.KubeletArguments {
		name, value, _ := strings.Cut(argument, "=")
		if value == "" && i+1 < len(o.KubeletArguments) {
			value = o.KubeletArguments[i+1]
		}
		if strings.TrimLeft(name, "-") != "max-pods" {
			continue
		}
		pods = 0
		if amount, err := resource.ParseQuantity(value); err == nil { // parsed like the kubelet does
			pods = int(max(amount.Value(), 0))
		}
	}
	return pods
}

// listenArguments returns the --listen arguments.
func (o Options) listenArguments() []string {
	if o.Listen == "" {
		return nil
	}
	return []string{"--listen", o.Listen}
}

// timeArguments returns the arguments that give every process the same clock.
func timeArguments(options Options) []string {
	if options.Speed == 1 {
		return nil
	}
	return []string{
		"--speed", strconv.FormatFloat(options.Speed, 'f', -1, 64),
		"--origin", options.Origin.Format(time.RFC3339Nano),
	}
}
