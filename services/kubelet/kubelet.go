// Package kubelet is one emulated node: it watches the pods that are bound to the node,
// makes them run in the node's runtime, stops them when they are marked, cleans up, and
// confirms to the API that nothing is left. What deletion means is the apiserver's, what
// a container is the runtime's.
//
// A pod's way through it: podset says what changed; loop.go tells the pod's worker;
// podworker/machine.go decides; podworker carries out, with pleg as its eyes and volumes
// and cgroup as its hands; status reports, and deletes the object in round 3.
// housekeeping.go puts right what no event says.
//
// # Two endings
//
// When Run's context ends, the kubelet leaves: no container is stopped, and the next
// kubelet of the node takes over what it finds (KBL-77). Only a mark, a removal or a
// kill ends a pod.
//
// # Errors
//
// Run fails only if the node's directory cannot be used. An apiserver or a runtime that
// is away is waited for.
package kubelet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"runtime"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/bus"
	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/daemon"
	"github.com/podfall/podfall/internal/events"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/internal/runtimeapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/kubelet/cgroup"
	"github.com/podfall/podfall/services/kubelet/node"
	"github.com/podfall/podfall/services/kubelet/pleg"
	"github.com/podfall/podfall/services/kubelet/podsource"
	"github.com/podfall/podfall/services/kubelet/podworker"
	"github.com/podfall/podfall/services/kubelet/probes"
	"github.com/podfall/podfall/services/kubelet/status"
	"github.com/podfall/podfall/services/kubelet/volumes"
)

// Config says which node this is and what it stands on.
type Config struct {
	// Node is the node's name.
	Node string
	// Bus leads to the apiserver, as node:<Node>.
	Bus *bus.Conn
	// Runtime is the node bus, on which the node's runtime serves.
	Runtime *bus.Conn
	// DataDir holds the node's volumes and records; it is made if need be.
	DataDir string
	Clock   clock.Clock
	// Compat is the release that is imitated; the zero value is the default one.
	Compat proto.Compat
	// Boot is this incarnation of the kubelet.
	Boot proto.Boot
	Log  *slog.Logger // nil discards
	// Timing is Default() if it is zero.
	Timing Timing
	// Ready is called once, when the node is registered and takes pods; it may be nil.
	Ready func()
	// Seed decides how retries are spread.
	Seed uint64
	// Machine is what the node pretends to be.
	Machine Machine
}

// Machine is what a node pretends to be. Its zero value is 4 cpus, 8Gi and 110 pods,
// without faults.
type Machine struct {
	Capacity corev1.ResourceList
	Faults   Faults
}

// Faults can make what the kubelet does on its node fail or hang.
type Faults interface {
	volumes.Faults
	cgroup.Faults
}

// DefaultCapacity is 4 cpus, 8Gi of memory and 110 pods.
func DefaultCapacity() corev1.ResourceList {
	capacity := make(corev1.ResourceList, 3)
	capacity[corev1.ResourceCPU] = resource.MustParse("4")
	capacity[corev1.ResourceMemory] = resource.MustParse("8Gi")
	capacity[corev1.ResourcePods] = resource.MustParse("110")
	return capacity
}

// API is what the kubelet as a whole asks of the apiserver; each part sees less of it.
type API interface {
	Create(ctx context.Context, target podapi.Target, obj kinds.Object, opts metav1.CreateOptions) (kinds.Object, error)
	Get(ctx context.Context, target podapi.Target, opts metav1.GetOptions) (kinds.Object, error)
	Update(ctx context.Context, target podapi.Target, obj kinds.Object, opts metav1.UpdateOptions) (kinds.Object, error)
	Patch(ctx context.Context, target podapi.Target, kind types.PatchType, patch []byte, opts metav1.PatchOptions) (kinds.Object, error)
	Delete(ctx context.Context, target podapi.Target, opts metav1.DeleteOptions) (kruntime.Object, error)
	Follow(ctx context.Context, target podapi.Target, opts metav1.ListOptions, sink podapi.Sink) error
}

// Run is the kubelet of one node until ctx ends.
func Run(ctx context.Context, cfg Config) error {
	api := podapi.New(cfg.Bus, podapi.Config{Clock: cfg.Clock, Boot: cfg.Boot, Log: cfg.Log, Seed: cfg.Seed})
	p, err := assemble(cfg, api, runtimeapi.NewClient(cfg.Runtime, cfg.Clock))
	if err != nil {
		return fmt.Errorf("kubelet of %s: %w", cfg.Node, err)
	}
	return p.run(ctx)
}

// parts are what a kubelet is made of.
type parts struct {
	cfg      Config
	api      API
	runtime  runtimeapi.Runtime
	capacity corev1.ResourceList
	set      *podsource.Set
	relister *pleg.Relister
	reporter *status.Reporter
	recorder *events.Recorder
	workers  *podworker.Workers
	prober   *probes.Prober
	stores
	kinds table
}

// stores are what a kubelet keeps on disk.
type stores struct {
	root    *os.Root
	volumes *volumes.Manager
	cgroups *cgroup.Manager
}

// table are the kinds that a kubelet speaks of.
type table struct{ pods, nodes, leases kinds.Kind }

func assemble(cfg Config, api API, rt runtimeapi.Runtime) (*parts, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	cfg.Log = cfg.Log.With("node", cfg.Node)
	if cfg.Timing == (Timing{}) {
		cfg.Timing = Default()
	}
	var err error
	if cfg.Compat == (proto.Compat{}) {
		if cfg.Compat, err = proto.CompatFor(""); err != nil {
			return nil, err
		}
	}
	p := &parts{cfg: cfg, api: api, runtime: rt, set: podsource.New(), capacity: DefaultCapacity()}
	maps.Copy(p.capacity, cfg.Machine.Capacity)
	if p.kinds, err = loadTable(); err != nil {
		return nil, err
	}
	if p.stores, err = openStores(cfg); err != nil {
		return nil, err
	}
	p.relister = pleg.New(rt, cfg.Clock, cfg.Timing.Relist, cfg.Log)
	p.reporter = status.NewReporter(status.Config{
		API: api, Copies: p.set, Clock: cfg.Clock, Timing: cfg.Timing.Status, Compat: cfg.Compat,
		HostIP: node.HostIP, Pods: p.kinds.pods, Log: cfg.Log,
	})
	p.recorder = events.New(events.Config{
		API: api, Clock: cfg.Clock, Timing: cfg.Timing.Events, Component: "kubelet", Host: cfg.Node, Log: cfg.Log,
	})
	p.prober = probes.New(probes.Config{
		Runtime: rt, Cache: p.relister, Events: p.recorder, Clock: cfg.Clock, Log: cfg.Log,
	})
	p.workers = podworker.NewWorkers(podworker.Config{
		Runtime: rt, Cache: p.relister, Status: p.reporter, Probes: p.prober, Volumes: p.volumes, Cgroups: p.cgroups, Events: p.recorder,
		Clock: cfg.Clock, Timing: cfg.Timing.Worker, Compat: cfg.Compat, Log: cfg.Log, Seed: cfg.Seed,
	})
	return p, nil
}

// run runs all parts until ctx ends and waits for them.
func (p *parts) run(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, p.root.Close()) }()
	all := []func(context.Context) error{
		p.relister.Run,
		p.follow,
		newLoop(p).run,
		p.workers.Run,
		p.prober.Run,
		p.reporter.Run,
		p.recorder.Run,
		p.speak,
		p.collect,
	}
	if p.cfg.Bus != nil {
		all = append(all, p.serveLogs)
	}
	return daemon.Run(ctx, all...)
}

// follow keeps the set of the node's pods (KBL-01).
func (p *parts) follow(ctx context.Context) error {
	return p.api.Follow(ctx, podapi.Target{Kind: p.kinds.pods}, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.nodeName", p.cfg.Node).String(),
	}, p.set)
}

// speak registers the node and then speaks for it. The runtime is looked at first, if it
// answers soon, so that a healthy node is Ready from its first status on.
func (p *parts) speak(ctx context.Context) error {
	n := node.New(node.Config{
		API: p.api, Clock: p.cfg.Clock, Timing: p.cfg.Timing.Node, Name: p.cfg.Node, Labels: p.labels(), Capacity: p.capacity,
		Boot: p.cfg.Boot, Problems: p.relister.Problems, Nodes: p.kinds.nodes, Leases: p.kinds.leases, Log: p.cfg.Log,
	})
	soon, cancel := p.cfg.Clock.Timeout(ctx, p.cfg.Timing.Node.Retry)
	p.relister.Wait(soon)
	cancel()
	if err := n.Register(ctx); err != nil {
		return err
	}
	return daemon.Run(ctx, n.Run, func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.set.Synced():
		}
		if p.cfg.Ready != nil {
			p.cfg.Ready()
		}
		<-ctx.Done()
		return ctx.Err()
	})
}

func (p *parts) labels() map[string]string {
	return map[string]string{
		corev1.LabelHostname:   p.cfg.Node,
		corev1.LabelArchStable: runtime.GOARCH,
		corev1.LabelOSStable:   runtime.GOOS,
	}
}

func openStores(cfg Config) (stores, error) {
	var s stores
	if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
		return s, err
	}
	root, err := os.OpenRoot(cfg.DataDir)
	if err != nil {
		return s, err
	}
	s.root = root
	var faults volumes.Faults
	var cgroupFaults cgroup.Faults
	if cfg.Machine.Faults != nil {
		faults, cgroupFaults = cfg.Machine.Faults, cfg.Machine.Faults
	}
	s.volumes, err = volumes.New(volumes.Config{
		Root: root, Clock: cfg.Clock, Timing: cfg.Timing.Volumes, Faults: faults, Log: cfg.Log,
	})
	if err == nil {
		s.cgroups, err = cgroup.New(root, cgroupFaults)
	}
	if err != nil {
		return s, errors.Join(err, root.Close())
	}
	return s, nil
}

func loadTable() (table, error) {
	var t table
	for name, into := range map[string]*kinds.Kind{
		"pods": &t.pods, "nodes": &t.nodes, "leases.coordination.k8s.io": &t.leases,
	} {
		kind, ok := kinds.ByResource(name)
		if !ok {
			return t, fmt.Errorf("the table of kinds has no %s", name)
		}
		*into = kind
	}
	return t, nil
}
