// Package cluster runs a whole podfall cluster as processes on one machine: it knows
// which processes there are and in which order they become ready (plan.go), starts and
// stops them (process.go, supervisor.go), and where everything is kept (layout.go).
//
// # Order
//
// The bus comes first, then the apiserver and the runtimes, then the controllers, the
// gateway and the kubelets. A process is ready when it says so on the pipe it was given.
//
// # Endings
//
// The supervisor stops its processes in the reverse order and waits for each. A process
// that ends by itself, or is killed, is reported and stays down until the next up: a
// cluster to break must not mend itself.
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
//	cluster.json          what up was asked for: name, nodes, speed, release
//	keys/                 one nkey seed per identity, 0600
//	run/                  process records, addresses and the supervisor's lock
//	log/<process>.log     what each process wrote
//	board.json            what was changed while it ran: its clock, faults and cuts
//	history/              what each process did, as internal/history writes it
//	kubeconfig            how kubectl finds the gateway, 0600
//	gateway/              the gateway's authority, certificate and token, 0600
//	apiserver/            the cluster's objects
//	volumes/              the persistent volumes, which all nodes share
//	nodes/<node>/         kubelet/ and runtime/ of a node, and manifests/ for its static pods
type Layout struct{ Root string }

// Keys is the directory of the cluster's seeds.
func (l Layout) Keys() string { return filepath.Join(l.Root, "keys") }

// Kubeconfig is the file with which kubectl finds the cluster.
func (l Layout) Kubeconfig() string { return filepath.Join(l.Root, "kubeconfig") }

// History is the directory of what the processes have written down.
func (l Layout) History() string { return filepath.Join(l.Root, "history") }

// Store is the directory of the cluster's objects.
func (l Layout) Store() string { return l.apiserver() }

func (l Layout) options() string        { return filepath.Join(l.Root, "cluster.json") }
func (l Layout) run() string            { return filepath.Join(l.Root, "run") }
func (l Layout) logs() string           { return filepath.Join(l.Root, "log") }
func (l Layout) apiserver() string      { return filepath.Join(l.Root, "apiserver") }
func (l Layout) door() string           { return filepath.Join(l.Root, "gateway") }
func (l Layout) gatewayAddress() string { return filepath.Join(l.run(), "gateway.json") }
func (l Layout) lock() string           { return filepath.Join(l.run(), "supervisor.lock") }

// board is what is set for the whole cluster: its clock, faults and cuts.
func (l Layout) board() string { return filepath.Join(l.Root, "board.json") }

func (l Layout) busAddresses() string    { return filepath.Join(l.run(), "bus.json") }
func (l Layout) volumes() string         { return filepath.Join(l.Root, "volumes") }
func (l Layout) node(name string) string { return filepath.Join(l.Root, "nodes", name) }

func (l Layout) runtimeAddress(node string) string {
	return filepath.Join(l.run(), "runtime-"+node+".json")
}

// NodeKeys is the directory of the two seeds of a node's private bus.
func (l Layout) NodeKeys(node string) string { return filepath.Join(l.Keys(), "nodes", node) }

// Options is what a cluster was made with. It does not change while its data
// directory lives.
type Options struct {
	Name string `json:"name"`
	// Nodes are the nodes' names, at least one.
	Nodes []string `json:"nodes"`
	// Speed is how many seconds of the cluster pass in one of the wall, counted from
	// Origin.
	Speed  float64   `json:"speed"`
	Origin time.Time `json:"origin"`
	// Compat is the release to imitate.
	Compat string `json:"compat"`
	// Timing is "default", upstream's ticks, or "fastest".
	Timing string `json:"timing"`
	// KubeletArguments go to every kubelet as they are.
	KubeletArguments []string `json:"kubeletArguments,omitempty"`
	ControlPlane
	// Port is the gateway's; 0 means a free one, which it then keeps.
	Port int `json:"port,omitempty"`
	// Containers is what the runtimes may run.
	Containers Containers `json:"containers,omitzero"`
	// Listen is the address that processes listen on; empty means the loopback's.
	Listen string `json:"listen,omitempty"`
	// ExternalBus lists the URLs of a NATS server to use instead of an own hub.
	ExternalBus []string `json:"externalBus,omitempty"`
}

// ControlPlane is what of a control plane there is.
type ControlPlane struct {
	// Controllers says which controllers run, as upstream's --controllers; none means
	// all.
	Controllers []string `json:"controllers,omitempty"`
	// DisablePlugins are the apiserver's admission plugins that are left out.
	DisablePlugins []string `json:"disableAdmissionPlugins,omitempty"`
	// StuckEvents has an event tell why a pod stays in Terminating.
	StuckEvents bool `json:"stuckEvents,omitempty"`
}

// ErrNoCluster says that the data directory holds no cluster.
var ErrNoCluster = errors.New("no cluster here")

// Face is what the cluster's clock shows until it is changed.
func (o Options) Face() (clock.Face, error) { return clock.NewFace(o.Origin, o.Speed) }

// Load reads the options of the cluster in the directory; ErrNoCluster when there is
// none.
func (l Layout) Load() (Options, error) {
	data, err := os.ReadFile(l.options())
	if errors.Is(err, fs.ErrNotExist) {
		return Options{}, fmt.Errorf("%w: %s: start one with `podfall up`, or name its directory with --data", ErrNoCluster, l.Root)
	}
	if err != nil {
		return Options{}, err
	}
	var options Options
	if err := json.Unmarshal(data, &options); err != nil {
		return Options{}, fmt.Errorf("%s: %w", l.options(), err)
	}
	return options, nil
}

// create makes the directory for a new cluster, closed to other users.
func (l Layout) create(options Options) error {
	for _, dir := range []string{l.Root, l.Keys(), l.run(), l.logs()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	data, err := json.MarshalIndent(options, "", "  ")
	if err != nil {
		return err
	}
	return WriteFile(l.options(), append(data, '\n'))
}

// WriteFile replaces a file as a whole, or not at all, whatever happens meanwhile.
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

// Addresses is where the cluster's network listens; an error when it has not said yet.
func (l Layout) Addresses() (bus.Addresses, error) {
	var addresses bus.Addresses
	err := readJSON(l.busAddresses(), &addresses)
	return addresses, err
}

// readURL reads the file in which a process tells its one URL.
func readURL(path string) (string, error) {
	var address URLFile
	err := readJSON(path, &address)
	return address.URL, err
}

// URLFile is the file in which a process tells its one URL: a runtime that of its private bus,
// and the gateway its own.
type URLFile struct {
	URL string `json:"url"`
}
