// Package kubelet is one emulated node. It watches the pods that are bound to the node, makes them
// run in the node's runtime, stops them when they are marked, cleans up, and confirms to the API
// that nothing is left. What deletion means is the apiserver's decision, what a container is the
// runtime's.
//
// The path of a pod: podset computes what changed; loop.go steps the pod's worker;
// podworker/machine.go decides; podworker carries out, reading the runtime through pleg and using
// volumes and cgroup; status reports, and deletes the object in round 3. housekeeping.go repairs
// what no event reports.
//
// # Two endings
//
// When Run's context ends, the kubelet leaves: no container is stopped, and the next kubelet of the
// node takes over what it finds (KBL-77). Only a mark, a removal or a kill ends a pod.
//
// # Errors
//
// Run fails only if the node's directory cannot be used. It waits for an apiserver or a runtime
// that is unreachable.
package kubelet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/bus"
	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/daemon"
	"github.com/podfall/podfall/internal/events"
	"github.com/podfall/podfall/internal/fault"
	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/internal/inspect"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/internal/runtimeapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/kubelet/eviction"
	"github.com/podfall/podfall/services/kubelet/node"
	"github.com/podfall/podfall/services/kubelet/pleg"
	"github.com/podfall/podfall/services/kubelet/podworker"
	"github.com/podfall/podfall/services/kubelet/probes"
	"github.com/podfall/podfall/services/kubelet/pulls"
	"github.com/podfall/podfall/services/kubelet/status"
)

// Config says which node this is and what it uses.
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
	// Compat is the release to imitate; the zero value is the default release.
	Compat proto.Compat
	// Boot is this incarnation of the kubelet.
	Boot proto.Boot
	Log  *slog.Logger // nil discards
	// Timing is Default() if it is zero.
	Timing Timing
	// Ready is called once, when the node is registered, accepts pods, and can be reached by
	// clients; it may be nil.
	Ready func()
	// Machine is the machine that the node pretends to be.
	Machine Machine
	// Observers record what the kubelet does, and may inspect it.
	inspect.Observers[inspect.Kubelet]
}

// Machine is the machine that a node pretends to be. Its zero value has [DefaultCapacity] and no
// faults.
type Machine struct {
	// Seed decides how retries are spread.
	Seed     uint64
	Capacity corev1.ResourceList
	Faults   *fault.Table
	// Storage is the directory of the cluster's persistent volumes, shared by all nodes; empty
	// means one in DataDir.
	Storage string
	// HostPathRoot is the directory of this machine that contains all hostPath volumes; empty
	// allows none.
	HostPathRoot string
	// Manifests is the directory of the node's static pods; empty means manifests in DataDir.
	Manifests string
	// Eviction says when pods are evicted; without thresholds it has [eviction.Thresholds].
	Eviction eviction.Limits
	// ShutdownGrace is how long the node's pods have when it is shut down, and
	// ShutdownGraceCritical how much of it is kept for critical pods; 30 s and 10 s when 0.
	ShutdownGrace, ShutdownGraceCritical time.Duration
}

// DefaultCapacity returns 4 cpus, 8Gi of memory, 100Gi of disk and 110 pods.
func DefaultCapacity() corev1.ResourceList {
	capacity := make(corev1.ResourceList, 4)
	capacity[corev1.ResourceEphemeralStorage] = resource.MustParse("100Gi")
	capacity[corev1.ResourceCPU] = resource.MustParse("4")
	capacity[corev1.ResourceMemory] = resource.MustParse("8Gi")
	capacity[corev1.ResourcePods] = resource.MustParse("110")
	return capacity
}

// API is the part of the apiserver that the whole kubelet uses; each part of it uses less.
type API interface {
	Create(ctx context.Context, target podapi.Target, obj kinds.Object, opts metav1.CreateOptions) (kinds.Object, error)
	Get(ctx context.Context, target podapi.Target, opts metav1.GetOptions) (kinds.Object, error)
	Update(ctx context.Context, target podapi.Target, obj kinds.Object, opts metav1.UpdateOptions) (kinds.Object, error)
	Patch(ctx context.Context, target podapi.Target, kind types.PatchType, patch []byte, opts metav1.PatchOptions) (kinds.Object, error)
	Delete(ctx context.Context, target podapi.Target, opts metav1.DeleteOptions) (kruntime.Object, error)
	Follow(ctx context.Context, target podapi.Target, opts metav1.ListOptions, sink podapi.Sink) error
}

// Run runs the kubelet of one node until ctx ends.
func Run(ctx context.Context, cfg Config) error {
	api := podapi.New(cfg.Bus, podapi.Config{Clock: cfg.Clock, Boot: cfg.Boot, Log: cfg.Log, Seed: cfg.Machine.Seed, Faults: cfg.Machine.Faults, History: cfg.History})
	w := newObserver(cfg)
	p, err := assemble(cfg, recordedAPI{api, w}, observedRuntime{runtimeapi.NewClient(cfg.Runtime, cfg.Clock), w})
	if err != nil {
		return fmt.Errorf("kubelet of %s: %w", cfg.Node, err)
	}
	w.lastSeen = p.relister.Last
	cfg.Metrics.OnCollect(func() { p.collectGauges(w.counts) })
	cfg.ProvideInspect(func(context.Context) inspect.Kubelet { return p.inspect(w) })
	return p.run(ctx)
}

// parts are the parts of a kubelet.
type parts struct {
	cfg      Config
	api      API
	capacity corev1.ResourceList
	reporter *status.Reporter
	recorder *events.Recorder
	workers  *podworker.Workers
	prober   *probes.Prober
	kinds    kindTable
	engine
	stores
	sources
	guards
}

// engine is the node's runtime, and the listings of it.
type engine struct {
	runtime  runtimeapi.Runtime
	relister *pleg.Relister
}

// kindTable holds the kinds that a kubelet uses.
type kindTable struct{ pods, nodes, leases kinds.Kind }

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
	p := &parts{cfg: cfg, api: api, capacity: DefaultCapacity()}
	maps.Copy(p.capacity, cfg.Machine.Capacity)
	if p.kinds, err = loadKinds(); err != nil {
		return nil, err
	}
	p.sources = p.openSources()
	p.recorder = events.New(events.Config{
		API: api, Clock: cfg.Clock, RateLimit: cfg.Timing.Events, Component: "kubelet", Host: cfg.Node, Log: cfg.Log,
	})
	if p.stores, err = p.openStores(); err != nil {
		return nil, errors.Join(err, p.close())
	}
	p.engine = engine{runtime: rt, relister: pleg.New(rt, cfg.Clock, cfg.Timing.Relist, cfg.Log)}
	p.reporter = status.NewReporter(status.Config{
		API: api, Copies: p.sources, Clock: cfg.Clock, Timing: cfg.Timing.Status, Compat: cfg.Compat,
		HostIP: node.HostIP, Pods: p.kinds.pods, Log: cfg.Log,
	})
	p.prober = probes.New(probes.Config{
		Runtime: rt, Cache: p.relister, Events: p.recorder, Clock: cfg.Clock, Log: cfg.Log,
	})
	p.workers = podworker.NewWorkers(podworker.Config{
		Runtime: rt, Cache: p.relister, Status: p.reporter, Probes: p.prober, Events: p.recorder,
		Host: podworker.Host{
			Images: pulls.New(pulls.Config{
				Images: rt, Events: p.recorder, Clock: cfg.Clock, Timing: cfg.Timing.Pulls, Faults: cfg.Machine.Faults,
			}),
			Volumes: recordedVolumes{p.volumes, cfg.History}, Cgroups: p.cgroups, Claims: claims{cfg.Machine.Faults}, Objects: p.objects, IP: node.HostIP, Allocatable: p.capacity,
		},
		Driver: podworker.Driver{Clock: cfg.Clock, History: cfg.History},
		Timing: cfg.Timing.Worker, Compat: cfg.Compat, Log: cfg.Log, Seed: cfg.Machine.Seed,
	})
	p.guards = p.openGuards()
	return p, nil
}

// run runs all parts until ctx ends and waits for them.
func (p *parts) run(ctx context.Context) (err error) {
	p.cfg.History.Record("", history.KubeletBoot{Node: p.cfg.Node})
	defer func() { p.cfg.History.Record("", history.KubeletStop{Node: p.cfg.Node}) }()
	defer func() { err = errors.Join(err, p.close()) }()
	defer p.removals.wait()
	all := []func(context.Context) error{
		p.relister.Run,
		p.objects.Run,
		p.followPods,
		p.readManifests,
		p.mirrors.Run,
		newLoop(p).run,
		p.workers.Run,
		p.prober.Run,
		p.reporter.Run,
		p.recorder.Run,
		p.collectGarbage,
		p.evictor.Run,
		p.shutdown.Run,
	}
	handlers := p.handlers()
	reachable := make(chan struct{}, len(handlers))
	for verb, answer := range handlers {
		all = append(all, func(ctx context.Context) error { return p.serve(ctx, verb, answer, reachable) })
	}
	all = append(all, func(ctx context.Context) error { return p.registerAndReport(ctx, reachable) })
	return daemon.Run(ctx, all...)
}

// registerAndReport registers the node and then reports its state. If the runtime answers soon it
// is listed first, so that a healthy node is Ready from its first status on. Ready is called once
// the pods are synced and each handler has sent on reachable: logs of a pod may be wanted at once.
func (p *parts) registerAndReport(ctx context.Context, reachable <-chan struct{}) error {
	soon, cancel := p.cfg.Clock.Timeout(ctx, p.cfg.Timing.Node.Retry)
	p.relister.Wait(soon)
	cancel()
	if err := p.node.Register(ctx); err != nil {
		return err
	}
	return daemon.Run(ctx, p.node.Run, func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.set.Synced():
		}
		for range cap(reachable) {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-reachable:
			}
		}
		if p.cfg.Ready != nil {
			p.cfg.Ready()
		}
		<-ctx.Done()
		return ctx.Err()
	})
}

func (p *parts) nodeLabels() map[string]string {
	return map[string]string{
		corev1.LabelHostname:   p.cfg.Node,
		corev1.LabelArchStable: runtime.GOARCH,
		corev1.LabelOSStable:   runtime.GOOS,
	}
}

func loadKinds() (kindTable, error) {
	var t kindTable
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
