// Package cluster runs a podfall cluster as processes on one machine. plan.go defines the processes
// and their start order, process.go and supervisor.go start and stop them, and layout.go defines
// the data directory.
//
// # Order
//
// The bus starts first, then the apiserver and the runtimes, then the controllers, the gateway and
// the kubelets. A process reports on a pipe when it is ready.
//
// # Stopping
//
// The supervisor stops its processes in reverse order and waits for each. A process that exits or
// is killed is reported and stays down until the next up, because users must be able to break a
// cluster without it repairing itself.
package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/services/bus"
)

// Layout is a cluster's data directory.
//
//	cluster.json          the options of up: name, nodes, speed, release
//	keys/                 one nkey seed per identity, 0600
//	run/                  process records, addresses and the supervisor's lock
//	log/<process>.log     the output of each process
//	board.json            the fault state: clock, faults and cuts
//	history/              the history of each process (internal/history)
//	kubeconfig            how kubectl finds the gateway, 0600
//	gateway/              the gateway's authority, certificate and token, 0600
//	apiserver/            the cluster's objects
//	volumes/              the persistent volumes, which all nodes share
//	nodes/<node>/         kubelet/ and runtime/ of a node, and manifests/ for its static pods
type Layout struct{ Root string }

// Keys is the directory of the cluster's seeds.
func (l Layout) Keys() string { return filepath.Join(l.Root, "keys") }

// Kubeconfig is the cluster's kubeconfig file.
func (l Layout) Kubeconfig() string { return filepath.Join(l.Root, "kubeconfig") }

// History is the directory of the processes' histories.
func (l Layout) History() string { return filepath.Join(l.Root, "history") }

// Store is the directory of the cluster's objects.
func (l Layout) Store() string { return l.apiserverDir() }

func (l Layout) optionsFile() string    { return filepath.Join(l.Root, "cluster.json") }
func (l Layout) runDir() string         { return filepath.Join(l.Root, "run") }
func (l Layout) logDir() string         { return filepath.Join(l.Root, "log") }
func (l Layout) apiserverDir() string   { return filepath.Join(l.Root, "apiserver") }
func (l Layout) gatewayDir() string     { return filepath.Join(l.Root, "gateway") }
func (l Layout) gatewayAddress() string { return filepath.Join(l.runDir(), "gateway.json") }
func (l Layout) lockFile() string       { return filepath.Join(l.runDir(), "supervisor.lock") }

// stateFile holds the fault state: clock, faults and cuts.
func (l Layout) stateFile() string { return filepath.Join(l.Root, "board.json") }

func (l Layout) busAddresses() string       { return filepath.Join(l.runDir(), "bus.json") }
func (l Layout) volumesDir() string         { return filepath.Join(l.Root, "volumes") }
func (l Layout) nodeDir(name string) string { return filepath.Join(l.Root, "nodes", name) }

func (l Layout) runtimeAddress(node string) string {
	return filepath.Join(l.runDir(), "runtime-"+node+".json")
}

// NodeKeys is the directory of the two seeds of a node's private bus.
func (l Layout) NodeKeys(node string) string { return filepath.Join(l.Keys(), "nodes", node) }

// Options describe a cluster. They never change while its data directory exists.
type Options struct {
	Name string `json:"name"`
	// Nodes are the nodes' names, at least one.
	Nodes []string `json:"nodes"`
	// Speed is cluster seconds per wall second, counted from Origin.
	Speed  float64   `json:"speed"`
	Origin time.Time `json:"origin"`
	// Compat is the release to imitate.
	Compat string `json:"compat"`
	// Timing is "default" for upstream's timing, or "fastest".
	Timing string `json:"timing"`
	// KubeletArguments are passed to every kubelet.
	KubeletArguments []string `json:"kubeletArguments,omitempty"`
	ControlPlane
	// Port is the gateway's port; 0 means a free one, which then stays the same.
	Port int `json:"port,omitempty"`
	// Containers says what the runtimes may run.
	Containers Containers `json:"containers,omitzero"`
	// Listen is the address that processes listen on; empty means loopback.
	Listen string `json:"listen,omitempty"`
	// ExternalBus lists the URLs of a NATS server to use instead of an embedded hub.
	ExternalBus []string `json:"externalBus,omitempty"`
}

// ControlPlane configures the control plane.
type ControlPlane struct {
	// Controllers selects the controllers to run, like upstream's --controllers; none means all.
	Controllers []string `json:"controllers,omitempty"`
	// DisablePlugins lists the admission plugins to disable.
	DisablePlugins []string `json:"disableAdmissionPlugins,omitempty"`
	// StuckEvents has an event tell why a pod stays in Terminating.
	StuckEvents bool `json:"stuckEvents,omitempty"`
}

// ErrNoCluster means that the data directory contains no cluster.
var ErrNoCluster = errors.New("no cluster here")

// Schedule returns the initial clock schedule.
func (o Options) Schedule() (clock.Schedule, error) { return clock.NewSchedule(o.Origin, o.Speed) }

// Load reads the options of the cluster in the directory; ErrNoCluster if there is none.
func (l Layout) Load() (Options, error) {
	data, err := os.ReadFile(l.optionsFile())
	if errors.Is(err, fs.ErrNotExist) {
		return Options{}, fmt.Errorf("%w: %s: start one with `podfall up`, or name its directory with --data", ErrNoCluster, l.Root)
	}
	if err != nil {
		return Options{}, err
	}
	var options Options
	if err := json.Unmarshal(data, &options); err != nil {
		return Options{}, fmt.Errorf("%s: %w", l.optionsFile(), err)
	}
	return options, nil
}

// createDirs creates the directory of a new cluster, closed to other users.
func (l Layout) createDirs(options Options) error {
	for _, dir := range []string{l.Root, l.Keys(), l.runDir(), l.logDir()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	data, err := json.MarshalIndent(options, "", "  ")
	if err != nil {
		return err
	}
	return WriteFile(l.optionsFile(), append(data, '\n'))
}

// WriteFile replaces a file atomically.
func WriteFile(path string, data []byte) error {
	temporary, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.new")
	if err != nil {
		return err
	}
	_, err = temporary.Write(data)
	err = errors.Join(err, temporary.Sync(), temporary.Close())
	if err == nil {
		err = os.Rename(temporary.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temporary.Name()))
	}
	return nil
}

// Addresses returns where the cluster's network listens. It fails if the bus has not published its
// addresses yet.
func (l Layout) Addresses() (bus.Addresses, error) {
	var addresses bus.Addresses
	err := readJSON(l.busAddresses(), &addresses)
	return addresses, err
}

// readURL reads the URL that a process has published.
func readURL(path string) (string, error) {
	var address URLFile
	err := readJSON(path, &address)
	return address.URL, err
}

// URLFile is the file in which a runtime publishes the URL of its private bus, and the gateway its
// own URL.
type URLFile struct {
	URL string `json:"url"`
}
