package cluster

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/podfall/podfall/services/runtime/procengine/cgroups"
)

// Confinement is how programs of manifests are kept from the machine. Its zero value is
// what this machine can do.
type Confinement struct {
	// Isolation is "none" for programs beside the machine's other processes; empty means
	// namespaces of their own where they can be had.
	Isolation string `json:"isolation,omitempty"`
	// User is who programs run as where the runtime is root, as UID or UID:GID; empty means
	// nobody's.
	User string `json:"user,omitempty"`
	// InContainer lets root run them, because the machine is nobody's own (T19).
	InContainer bool `json:"inContainer,omitempty"`
}

// arguments are those of a runtime.
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

// Cgroup is the name of the cgroup of all programs that a runtime runs from a directory.
func Cgroup(programs string) string {
	sum := sha256.Sum256([]byte(programs))
	return "podfall-" + hex.EncodeToString(sum[:6])
}

// endCgroups removes the cgroups of a runtime that is gone, and says what stays.
func endCgroups(programs string, progress func(string)) {
	tree, err := cgroups.Open(Cgroup(programs))
	if err != nil {
		return // then there never was one
	}
	if err := tree.RemoveAll(); err != nil {
		progress(strings.TrimSpace("cgroups stay: " + err.Error()))
	}
}
