package main

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podfall/podfall/cmd/podfall/cluster"
	"github.com/podfall/podfall/internal/bus"
	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/internal/homeport"
	"github.com/podfall/podfall/internal/inspect"
	"github.com/podfall/podfall/internal/mgmt"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/apiserver"
	network "github.com/podfall/podfall/services/bus"
	"github.com/podfall/podfall/services/controllers"
	"github.com/podfall/podfall/services/kubelet"
)

// serviceCommands returns the commands that run a cluster's processes.
func serviceCommands() []*cli.Command {
	return []*cli.Command{busCommand(), apiserverCommand(), controllersCommand(), gatewayCommand(), kubeletCommand(), runtimeCommand(), shimCommand(), launchCommand()}
}

// service holds what every cluster process needs.
type service struct {
	managed *managed
	clock   clock.Clock
	compat  proto.Compat
	boot    proto.Boot
	log     *slog.Logger
	// ready notifies the parent process.
	ready func()
}

// serviceFlags returns the flags that every service has.
func serviceFlags(more ...cli.Flag) []cli.Flag {
	return append([]cli.Flag{
		&cli.Float64Flag{Name: "speed", Value: 1, Usage: "seconds of the cluster in one of the wall, counted from --origin"},
		&cli.TimestampFlag{Name: "origin", Layout: time.RFC3339Nano, Usage: "when the cluster's clock showed the wall's time"},
		&cli.StringFlag{Name: "compat", Value: proto.DefaultRelease, Usage: "the `RELEASE` to imitate"},
		&cli.StringFlag{Name: "log-level", Value: "info", Usage: "debug, info, warn or error"},
		&cli.StringFlag{Name: "history", Usage: "the `DIRECTORY` in which to write down what this process does; none writes nothing"},
		hubFlag(), keysFlag(), readyFlag(),
	}, more...)
}

func busFlag() cli.Flag {
	return &cli.StringFlag{Name: "bus", Required: true, Usage: "the bus's `URL`s, separated by commas"}
}

func keysFlag() cli.Flag {
	return &cli.StringFlag{Name: "keys", Usage: "the `DIRECTORY` with this process's nkey seed; none on an open bus"}
}

// newService returns the service for a process name.
func newService(c *cli.Context, process string) (service, error) {
	var s service
	schedule, err := initialSchedule(c)
	if err != nil {
		return s, err
	}
	s.managed = newManaged(process, schedule)
	s.managed.historyDir = c.String("history")
	s.clock = s.managed.clock.Clock()
	if s.compat, err = proto.CompatFor(c.String("compat")); err != nil {
		return s, usageError("--%v", err)
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.String("log-level"))); err != nil {
		return s, usageError("--log-level %q: want debug, info, warn or error", c.String("log-level"))
	}
	s.log = slog.New(slog.NewTextHandler(c.App.ErrWriter, &slog.HandlerOptions{Level: level}))
	var entropy [4]byte
	if _, err := rand.Read(entropy[:]); err != nil {
		return s, err
	}
	s.boot = proto.NewBoot(clock.Clock{}.Now(), entropy)
	s.ready = readyNotifier(c.Int("ready-fd"))
	return s, nil
}

// initialSchedule returns the clock schedule to use until the fault state is received.
func initialSchedule(c *cli.Context) (clock.Schedule, error) {
	origin, speed := clock.Clock{}.Now(), c.Float64("speed")
	if given := c.Timestamp("origin"); given != nil {
		origin = *given
	} else if speed != 1 {
		return nil, usageError("--speed %v: want --origin too, the same for every process", speed)
	}
	schedule, err := clock.NewSchedule(origin, speed)
	if err != nil {
		return nil, usageError("--%v", err)
	}
	return schedule, nil
}

// recordedGets samples gets: one of so many is recorded. A client that polls one object must not
// push other events out of the history.
const recordedGets = 16

// openHistory opens the history of this process if --history is set.
func (s service) openHistory(c *cli.Context) (*history.Recorder, error) {
	if c.String("history") == "" {
		return nil, nil //nolint:nilnil // a nil recorder records nothing
	}
	recorder, err := history.Open(history.Config{
		Dir: c.String("history"), Process: s.managed.process, Boot: s.boot, Clock: s.clock, GetSampling: recordedGets,
		Warn: func(err error) { s.log.WarnContext(c.Context, "the history has a gap", "err", err) },
	})
	s.managed.history.Store(recorder)
	return recorder, err
}

// readyNotifier returns a function that writes the ready line on the parent's descriptor, if there
// is one.
func readyNotifier(descriptor int) func() {
	if descriptor == 0 {
		return func() {}
	}
	readyPipe := os.NewFile(uintptr(descriptor), "ready")
	return func() {
		_, _ = io.WriteString(readyPipe, cluster.LineReady+"\n") // a parent that has exited does not read
		_ = readyPipe.Close()
	}
}

// dial connects as id, with the key in the directory if one is given.
func (s service) dial(ctx context.Context, urls, keys string, id proto.Identity) (*bus.Conn, error) {
	cfg := bus.Config{URLs: strings.Split(urls, ","), Identity: id, Log: s.log}
	if keys != "" {
		seed, err := bus.LoadSeed(keys, id)
		if err != nil {
			return nil, err
		}
		cfg.Seed = seed
	}
	return bus.Dial(ctx, cfg)
}

// probeTimeout bounds how long an external NATS server may take to answer.
const probeTimeout = 10 * time.Second

// probe checks that an external NATS server is reachable and accepts podfall's keys, before other
// processes wait for it.
func (s service) probe(ctx context.Context, urls []string, keys string) error {
	if len(urls) == 0 {
		return nil
	}
	ctx, cancel := clock.Clock{}.Timeout(ctx, probeTimeout)
	defer cancel()
	all := strings.Join(urls, ",")
	conn, err := s.dial(ctx, all, keys, proto.Bus)
	if err != nil {
		return fmt.Errorf("--bus %s: %w", all, err)
	}
	conn.Close()
	return nil
}

func busCommand() *cli.Command {
	return &cli.Command{
		Name: "bus", Usage: "the cluster network: a hub and a link per node", Category: "processes",
		Flags: serviceFlags(
			&cli.StringSliceFlag{Name: "node", Usage: "make a link for the node of this `NAME`"},
			&cli.StringFlag{Name: "addresses", Usage: "the `FILE` to write addresses to; if it exists, listen there again"},
			&cli.StringFlag{Name: "board", Usage: "the `FILE` of what is set for the whole cluster: its clock, faults and cuts; none keeps it in memory"},
			&cli.StringFlag{Name: "listen", Value: loopback, Usage: "the `ADDRESS` to listen on"},
			&cli.StringSliceFlag{Name: "bus", Usage: "lead the links to the NATS server at this `URL` instead of an own hub"},
		),
		Action: func(c *cli.Context) error {
			s, err := newService(c, string(proto.Bus))
			if err != nil {
				return err
			}
			if err := s.probe(c.Context, c.StringSlice("bus"), c.String("keys")); err != nil {
				return err
			}
			path := c.String("addresses")
			var pinned network.Addresses
			if err := readAddresses(path, &pinned); err != nil {
				return err
			}
			recorder, err := s.openHistory(c)
			if err != nil {
				return err
			}
			defer recorder.Close()
			return s.watchStalls(c.Context, func(ctx context.Context) error {
				return runPublishing(ctx, path, s, func(ctx context.Context, publish func(any) error) error {
					return network.Run(ctx, network.Config{
						Nodes: c.StringSlice("node"), Credentials: c.String("keys"), External: c.StringSlice("bus"),
						Host: c.String("listen"), Pinned: pinned, StateFile: c.String("board"), Clock: s.managed.clock, Boot: s.boot, History: recorder, Log: s.log,
						Ready: func(at network.Addresses) { _ = publish(at) },
					})
				})
			})
		},
	}
}

// readAddresses reads the address file of an earlier run; a missing file leaves into unchanged.
func readAddresses(path string, into any) error {
	if path == "" {
		return nil
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(data, into)
	}
	if err != nil {
		return fmt.Errorf("addresses: %w", err)
	}
	return nil
}

// runPublishing runs a service that publishes its addresses. They are written to path before the
// service is ready; if the write fails, the service ends.
func runPublishing(ctx context.Context, path string, s service, run func(context.Context, func(any) error) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	err := run(ctx, func(addresses any) error {
		data, err := json.Marshal(addresses)
		if err == nil && path != "" {
			err = cluster.WriteFile(path, data)
		}
		if err != nil {
			cancel(err)
			return err
		}
		if path != "" {
			s.reservePorts(ctx, path)
		}
		s.ready()
		return nil
	})
	if cause := context.Cause(ctx); err == nil && cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}

// reservePorts asks other clusters to leave the ports in path alone while this process is down.
func (s service) reservePorts(ctx context.Context, path string) {
	if err := homeport.Reserve(path); err != nil {
		s.log.WarnContext(ctx, "other clusters may take these ports while this process is away", "file", path, "err", err)
	}
}

func apiserverCommand() *cli.Command {
	return &cli.Command{
		Name: "apiserver", Usage: "the objects, their revisions and their watches", Category: "processes",
		Flags: serviceFlags(
			busFlag(),
			&cli.StringFlag{Name: "data", Required: true, Usage: "the `DIRECTORY` of the database"},
			&cli.StringSliceFlag{Name: pluginsFlag, Usage: "the admission `PLUGINS` to leave out"},
			&cli.IntFlag{Name: "keep", Usage: "how many changes to remember; 0 means 100000"},
		),
		Action: func(c *cli.Context) error {
			s, err := newService(c, "apiserver")
			if err != nil {
				return err
			}
			conn, err := s.dial(c.Context, c.String("bus"), c.String("keys"), proto.APIServer)
			if err != nil {
				return err
			}
			defer conn.Close()
			recorder, err := s.openHistory(c)
			if err != nil {
				return err
			}
			defer recorder.Close()
			return s.serve(c, func(ctx context.Context, _ *mgmt.Agent) error {
				return apiserver.Run(ctx, apiserver.Config{
					Bus: conn, Observers: observers[inspect.APIServer](s, recorder), Faults: s.managed.faults, DataDir: c.String("data"), Clock: s.clock, Compat: s.compat, Boot: s.boot,
					DisablePlugins: c.StringSlice(pluginsFlag), Keep: c.Int("keep"), Log: s.log, Ready: s.ready,
				})
			})
		},
	}
}

// pluginsFlag is kube-apiserver's flag, also used by up.
const pluginsFlag = "disable-admission-plugins"

// stuckEvents is a flag of the controllers, here and at up.
const stuckEvents = "stuck-events"

func stuckEventsFlag() cli.Flag {
	return &cli.BoolFlag{Name: stuckEvents, Usage: "record an Event StuckTerminating on each pod that is there 10 s after its grace; no real cluster has them"}
}

func controllersCommand() *cli.Command {
	return &cli.Command{
		Name: "controllers", Usage: "the controllers: " + strings.Join(controllers.Names(), ", "), Category: "processes",
		Flags: serviceFlags(
			busFlag(),
			&cli.StringSliceFlag{Name: "controllers", Usage: "the `CONTROLLERS` to run: * for all, a name, or -name for all but that one"},
			&cli.StringFlag{Name: "volumes", Usage: "the `DIRECTORY` of the persistent volumes, which all nodes share; none removes no volume's files"},
			&cli.StringFlag{Name: "root-ca-file", Usage: "the `FILE` of the gateway's authority, published in every namespace as kube-root-ca.crt; none publishes nothing"},
			stuckEventsFlag(),
		),
		Action: func(c *cli.Context) error {
			s, err := newService(c, "controllers")
			if err != nil {
				return err
			}
			conn, err := s.dial(c.Context, c.String("bus"), c.String("keys"), proto.Controllers)
			if err != nil {
				return err
			}
			defer conn.Close()
			recorder, err := s.openHistory(c)
			if err != nil {
				return err
			}
			defer recorder.Close()
			var authority []byte
			if file := c.String("root-ca-file"); file != "" {
				if authority, err = os.ReadFile(file); err != nil {
					return err
				}
			}
			return s.serve(c, func(ctx context.Context, agent *mgmt.Agent) error {
				cfg := controllers.Config{
					Board: stateClient(agent), Bus: conn, Observers: observers[inspect.Controllers](s, recorder), Clock: s.clock, Boot: s.boot, Compat: s.compat, Log: s.log, Select: c.StringSlice("controllers"), Ready: s.ready,
				}
				cfg.Ask, cfg.Faults, cfg.Storage, cfg.RootCA = inspectFunc(agent), s.managed.faults, c.String("volumes"), authority
				cfg.StuckEvents = c.Bool(stuckEvents)
				return controllers.Run(ctx, cfg)
			})
		},
	}
}

func kubeletCommand() *cli.Command {
	return &cli.Command{
		Name: "kubelet", Usage: "the pods of one node", Category: "processes",
		Flags: serviceFlags(append(append(timingFlags(), machineFlags()...),
			busFlag(), nodeFlag(),
			&cli.StringFlag{Name: "runtime", Required: true, Usage: "the `URL` of the node's private bus"},
			&cli.StringFlag{Name: "node-keys", Usage: "the `DIRECTORY` of the seeds of the private bus"},
			&cli.StringFlag{Name: "data", Required: true, Usage: "the `DIRECTORY` of volumes and records"},
			&cli.StringFlag{Name: "volumes", Usage: "the `DIRECTORY` of the persistent volumes, which all nodes share; none means one below --data"},
			hostPathFlag(),
			&cli.StringFlag{Name: "cpu", Value: "4", Usage: "how many processors the node pretends to have"},
			&cli.StringFlag{Name: "memory", Value: "8Gi", Usage: "how much memory the node pretends to have"},
			&cli.StringFlag{Name: "max-pods", Value: "110", Usage: "how many pods the node takes"},
		)...),
		Action: func(c *cli.Context) error {
			s, err := newService(c, "kubelet/"+c.String("node"))
			if err != nil {
				return err
			}
			timing, err := parseTiming(c)
			if err != nil {
				return err
			}
			machine, err := parseMachine(c)
			if err != nil {
				return err
			}
			machine.Faults = s.managed.faults
			name := c.String("node")
			conn, err := s.dial(c.Context, c.String("bus"), c.String("keys"), proto.Node(name))
			if err != nil {
				return err
			}
			defer conn.Close()
			cri, err := s.dial(c.Context, c.String("runtime"), c.String("node-keys"), proto.Kubelet)
			if err != nil {
				return err
			}
			defer cri.Close()
			recorder, err := s.openHistory(c)
			if err != nil {
				return err
			}
			defer recorder.Close()
			return s.serve(c, func(ctx context.Context, _ *mgmt.Agent) error {
				return kubelet.Run(ctx, kubelet.Config{
					Node: name, Observers: observers[inspect.Kubelet](s, recorder), Bus: conn, Runtime: cri, DataDir: c.String("data"), Clock: s.clock, Compat: s.compat,
					Boot: s.boot, Log: s.log, Timing: timing, Ready: s.ready,
					Machine: machine,
				})
			})
		},
	}
}

// parseCapacity returns the node's simulated capacity.
func parseCapacity(c *cli.Context) (corev1.ResourceList, error) {
	capacity := make(corev1.ResourceList)
	for flag, name := range map[string]corev1.ResourceName{
		"cpu": corev1.ResourceCPU, "memory": corev1.ResourceMemory, "max-pods": corev1.ResourcePods,
	} {
		quantity, err := resource.ParseQuantity(c.String(flag))
		if err != nil || quantity.Sign() <= 0 {
			return nil, usageError("--%s %q: want a positive quantity, such as 4 or 8Gi", flag, c.String(flag))
		}
		capacity[name] = quantity
	}
	return capacity, nil
}

// randomSeed returns a seed that differs between kubelets, so that they spread their retries.
func randomSeed() uint64 {
	var bytes [8]byte
	_, _ = rand.Read(bytes[:]) // crypto/rand never fails
	return binary.LittleEndian.Uint64(bytes[:])
}

func nodeFlag() cli.Flag {
	return &cli.StringFlag{Name: "node", Required: true, Usage: "the node's `NAME`"}
}
