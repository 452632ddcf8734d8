package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v2"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"github.com/podfall/podfall/cmd/podfall/cluster"
	"github.com/podfall/podfall/cmd/podfall/kubectl"
	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/mgmt"
	"github.com/podfall/podfall/internal/pki"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/gateway"
)

// isKubectl reports whether a command line is for kubectl's code: it names a command that is not
// one of podfall's own. A `run` with an image is kubectl's.
func isKubectl(own []*cli.Command, args []string) bool {
	verb := kubectl.Verb(args)
	switch {
	case verb == "", verb == "help" && kubectl.Verb(after(args, verb)) == "":
		return false
	case verb == "run" && kubectl.HasFlag(args, "--image"):
		return true
	}
	return !slices.ContainsFunc(own, func(command *cli.Command) bool { return command.HasName(verb) })
}

// after returns the words that follow a word.
func after(args []string, word string) []string { return args[slices.Index(args, word)+1:] }

// runKubectl runs kubectl's code against the cluster in the layout; without one, against the
// cluster that the kubeconfig or the flags name.
func runKubectl(ctx context.Context, p process, layout cluster.Layout, own []*cli.Command) (code int, err error) {
	if p.forks {
		return forkKubectl(ctx, p)
	}
	if p.release != nil {
		p.release() // kubectl handles interrupts itself
	}
	cfg := kubectl.Config{Args: withoutData(p.args), In: p.in, Out: p.out, Err: p.errs}
	for _, command := range own {
		if !command.Hidden && command.Category == "" {
			cfg.Others = append(cfg.Others, kubectl.Command{Name: command.Name, Short: command.Usage})
		}
	}
	if kubectl.NamesCluster(cfg.Args) {
		return kubectl.Run(ctx, cfg)
	}
	options, err := layout.Load()
	switch {
	case errors.Is(err, cluster.ErrNoCluster):
		missing := err
		cfg.Check = func() error { return requirePodfall(ctx, missing) }
		return kubectl.Run(ctx, cfg)
	case err != nil:
		return 0, err
	}
	inner := &innerGateway{layout: layout, options: options}
	defer inner.stop()
	cfg.Kubeconfig = layout.Kubeconfig()
	cfg.Connect = func() (*rest.Config, error) { return inner.start(ctx) }
	return kubectl.Run(ctx, cfg)
}

// forkKubectl runs the command line in a process of its own.
func forkKubectl(ctx context.Context, p process) (code int, err error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	command := exec.CommandContext(ctx, self, p.args...)
	command.Stdin, command.Stdout, command.Stderr = p.in, p.out, p.errs
	err = command.Run()
	if _, ended := errors.AsType[*exec.ExitError](err); ended {
		err = nil
	}
	return command.ProcessState.ExitCode(), err
}

// kubectlCategory is the heading of kubectl's commands in the help.
const kubectlCategory = "kubectl's own"

// kubectlHelp lists kubectl's commands for the help, without names that podfall's own commands have.
func kubectlHelp(own []*cli.Command) []*cli.Command {
	var all []*cli.Command
	for _, command := range kubectl.Commands() {
		if slices.ContainsFunc(own, func(other *cli.Command) bool { return other.HasName(command.Name) }) {
			continue
		}
		all = append(all, &cli.Command{Name: command.Name, Usage: command.Short, Category: kubectlCategory})
	}
	return all
}

// withoutData returns the command line without --data and its value.
func withoutData(args []string) []string {
	var rest []string
	for i := 0; i < len(args); i++ {
		name, _, joined := strings.Cut(args[i], "=")
		switch {
		case args[i] == "--":
			return append(rest, args[i:]...)
		case name != "--data" && name != "-data":
			rest = append(rest, args[i])
		case !joined:
			i++
		}
	}
	return rest
}

// innerGateway is a gateway within this process, which kubectl's code talks to: the cluster's own
// may be cut off or have crashed. It asks as client:admin.
type innerGateway struct {
	layout  cluster.Layout
	options cluster.Options
	ends    []func()
}

// start connects to the bus and serves the Kubernetes API on a free port of the loopback, with a
// certificate and a token that only this process knows.
func (g *innerGateway) start(ctx context.Context) (*rest.Config, error) {
	schedule, err := g.options.Schedule()
	if err != nil {
		return nil, err
	}
	compat, err := proto.CompatFor(g.options.Compat)
	if err != nil {
		return nil, err
	}
	conn, err := dialHub(ctx, g.layout)
	if err != nil {
		return nil, err
	}
	g.ends = append(g.ends, conn.Close)
	driver := clock.NewDriver(schedule)
	g.ends = append(g.ends, followClock(ctx, conn, driver))
	now, token := clock.Clock{}.Now(), rand.Text()
	authority, certificate, err := loopbackCertificate(now)
	if err != nil {
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(loopback, "0"))
	if err != nil {
		return nil, err
	}
	var entropy [4]byte
	_, _ = rand.Read(entropy[:]) // crypto/rand never fails
	serving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	management := mgmt.NewClient(conn)
	processes := busProcesses{Client: management, driver: driver, names: func() []string {
		state, _ := management.Get(serving) // without a state no process is known
		return processNames(state)
	}}
	var running sync.WaitGroup
	running.Go(func() {
		_ = gateway.Run(serving, gateway.Config{ // a gateway that ends is a connection refused
			Bus: conn, Listener: listener, Token: token, Clock: driver.Clock(), Compat: compat, Boot: proto.NewBoot(now, entropy),
			TLS:  &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS13},
			Seed: randomSeed(), Processes: processes,
		})
	})
	g.ends = append(g.ends, func() { cancel(); running.Wait() })
	config := &rest.Config{
		Host: "https://" + listener.Addr().String(), BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAData: authority},
		UserAgent: "kubectl/" + compat.Release + " podfall", DisableCompression: true,
		QPS: -1, // the apiserver is this machine's: nothing needs to wait
	}
	g.ends = append(g.ends, func() { closeConnections(config) })
	return config, nil
}

// loopbackCertificate makes a certificate for the loopback, and returns its authority's too.
func loopbackCertificate(now time.Time) (authority []byte, certificate tls.Certificate, err error) {
	signer, err := pki.NewAuthority("podfall", now)
	if err != nil {
		return nil, tls.Certificate{}, err
	}
	server, err := signer.IssueServer("podfall", pki.Loopback(), now)
	if err != nil {
		return nil, tls.Certificate{}, err
	}
	certificate, err = tls.X509KeyPair(server.Certificate, server.Key)
	return signer.Certificate, certificate, err
}

// busProcesses asks the cluster's processes over the bus.
type busProcesses struct {
	*mgmt.Client
	driver *clock.Driver
	names  func() []string
}

// Names implements gateway.Processes.
func (p busProcesses) Names() []string { return p.names() }

// Ask implements gateway.Processes.
func (p busProcesses) Ask(ctx context.Context, process, question string) ([]byte, error) {
	return p.Inspect(ctx, process, []byte(question))
}

// Clock implements gateway.Processes.
func (p busProcesses) Clock() clock.Schedule { return p.driver.Schedule() }

// requirePodfall returns an error unless the kubeconfig leads to a podfall cluster: nobody who forgot
// --data may change another cluster.
func requirePodfall(ctx context.Context, missing error) error {
	session, err := dialRemote(ctx, clock.NewDriver(nil), missing)
	if err == nil {
		session.Close()
	}
	return err
}

// closeConnections closes the connections that kubectl's code has left open. The gateway would wait
// for them at its end. They are those of all clients of the config, because client-go shares them.
func closeConnections(config *rest.Config) {
	if transport, err := rest.TransportFor(config); err == nil {
		utilnet.CloseIdleConnectionsFor(transport)
	}
}

// stop ends what start began, the last first.
func (g *innerGateway) stop() {
	for _, end := range slices.Backward(g.ends) {
		end()
	}
}
