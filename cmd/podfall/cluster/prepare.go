package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/podfall/podfall/internal/partition"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/bus"
)

// Hosts names the hosts of a cluster with processes on several machines. Each process listens on
// all its addresses, on a fixed port.
type Hosts struct {
	// Hub is the bus's host name on the management network, Links its host name on the cluster
	// network.
	Hub, Links string
	// Runtime returns the runtime's host name on a node's own network.
	Runtime func(node string) string
}

// Fixed ports of a cluster on several machines. The links use the ports after the hub's.
const (
	hubPort     = 4222
	runtimePort = 4222
)

// AllAddresses is the listen address for every interface.
const AllAddresses = "0.0.0.0"

// Prepare completes the data directory of a cluster with separately started processes, for example
// containers. It writes the listen addresses beforehand.
func (l Layout) Prepare(options Options, hosts Hosts) error {
	at := bus.Addresses{Hub: []string{natsURL(hosts.Hub, hubPort)}, Links: map[string]string{}}
	for i, member := range partition.Members(options.Nodes) {
		at.Links[member] = natsURL(hosts.Links, hubPort+1+i)
	}
	files := map[string]any{
		l.busAddresses():   at,
		l.gatewayAddress(): URLFile{"https://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(options.Port))},
	}
	for _, node := range options.Nodes {
		files[l.runtimeAddress(node)] = URLFile{natsURL(hosts.Runtime(node), runtimePort)}
	}
	for path, content := range files {
		data, err := json.Marshal(content)
		if err == nil {
			err = WriteFile(path, data)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func natsURL(host string, port int) string {
	return "nats://" + net.JoinHostPort(host, strconv.Itoa(port))
}

// Share creates a node's data directory at root, with what the node's two processes need and only
// their keys.
func (l Layout) Share(options Options, node string, root Layout) error {
	if err := root.createDirs(options); err != nil {
		return err
	}
	if err := os.MkdirAll(root.NodeKeys(node), 0o700); err != nil {
		return err
	}
	paths := []string{l.busAddresses(), l.runtimeAddress(node)}
	for _, id := range bus.NodeIdentities(node) {
		paths = append(paths, filepath.Join(l.Keys(), id.Token()+".nk"))
	}
	for _, id := range []proto.Identity{proto.Kubelet, proto.Runtime} {
		paths = append(paths, filepath.Join(l.NodeKeys(node), id.Token()+".nk"))
	}
	for _, path := range paths {
		if err := l.copyTo(path, root); err != nil {
			return fmt.Errorf("share with %s: %w", node, err)
		}
	}
	return nil
}

// copyTo copies a file to the same place in another layout.
func (l Layout) copyTo(path string, to Layout) error {
	inside, err := filepath.Rel(l.Root, path)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return WriteFile(filepath.Join(to.Root, inside), data)
}

// Member returns the process with that name, and its arguments once earlier stages have published
// their addresses.
func (l Layout) Member(options Options, name string) (Member, []string, error) {
	members := slices.Concat(Plan(l, options)...)
	i := slices.IndexFunc(members, func(m Member) bool { return m.Name == name })
	if i < 0 {
		return Member{}, nil, l.CheckNames(options, name)
	}
	at, err := l.publishedAddresses(options)
	return members[i], members[i].Arguments(at), err
}

// publishedAddresses returns the addresses that this directory knows.
func (l Layout) publishedAddresses(options Options) (Addresses, error) {
	at := Addresses{Runtimes: map[string]string{}}
	var err error
	if at.Bus, err = l.Addresses(); err != nil {
		return at, err
	}
	for _, node := range options.Nodes {
		url, err := readURL(l.runtimeAddress(node))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return at, err
		}
		at.Runtimes[node] = url
	}
	return at, nil
}

// Exec replaces this process with the member, which keeps the PID and receives the signals.
func (l Layout) Exec(member Member, arguments []string) error {
	executable, err := os.Executable()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(l.runDir(), 0o700); err != nil {
		return err
	}
	ready, err := os.OpenFile(l.readyFile(member), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	duplicate, err := syscall.Dup(int(ready.Fd())) // Go's descriptors close on exec, a duplicate does not
	if err != nil {
		return errors.Join(err, ready.Close())
	}
	arguments = slices.Concat([]string{"podfall"}, arguments, []string{"--ready-fd", strconv.Itoa(duplicate)})
	return syscall.Exec(executable, arguments, append(member.tuning(), os.Environ()...))
}

// CheckReady returns nil if the member started last by Exec has reported that it is ready.
func (l Layout) CheckReady(member Member) error {
	line, err := os.ReadFile(l.readyFile(member))
	if err != nil {
		return err
	}
	if strings.TrimSpace(string(line)) != LineReady {
		return fmt.Errorf("%s is not ready", member.Name)
	}
	return nil
}

// readyFile is where a member reports that it is ready.
func (l Layout) readyFile(member Member) string {
	return filepath.Join(l.runDir(), strings.ReplaceAll(member.Name, "/", "-")+".ready")
}
