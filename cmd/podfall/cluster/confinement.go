package cluster

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/podfall/podfall/services/runtime/procengine/cgroups"
)

// Confinement isolates the programs of manifests from the machine. The zero value uses what the
// machine supports.
type Confinement struct {
	// Isolation is "none" for programs next to the machine's other processes; empty means
	// namespaces, if the machine permits them.
	Isolation string `json:"isolation,omitempty"`
	// User runs the programs if the runtime is root, as UID or UID:GID; empty means nobody.
	User string `json:"user,omitempty"`
	// InContainer allows root to run programs, because the machine is a container (T19).
	InContainer bool `json:"inContainer,omitempty"`
}

// arguments returns the runtime's command-line arguments.
func (c Confinement) arguments() []string {
	var args []string
	if c.Isolation != "" {
		args = append(args, "--isolation", c.Isolation)
	}
	if c.User != "" {
		args = append(args, "--exec-user", c.User)
	}
	if c.InContainer {
		args = append(args, "--i-am-in-a-container")
	}
	return args
}

// CgroupName returns the name of the cgroup for all programs in a directory.
func CgroupName(programs string) string {
	sum := sha256.Sum256([]byte(programs))
	return "podfall-" + hex.EncodeToString(sum[:6])
}

// removeCgroups removes the cgroups of a stopped runtime, and reports those that stay.
func removeCgroups(programs string, progress func(string)) {
	tree, err := cgroups.Open(CgroupName(programs))
	if err != nil {
		return // then there was no cgroup
	}
	if err := tree.RemoveAll(); err != nil {
		progress(strings.TrimSpace("cgroups stay: " + err.Error()))
	}
}
