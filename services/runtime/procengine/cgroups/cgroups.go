// Package cgroups keeps real programs to their limits where the machine has a cgroup file
// system of version 2 in which this user may make groups. The layout is a kubelet's: below
// the pod's cgroup, such as kubepods/burstable/pod<uid>, one for each container.
package cgroups

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/podfall/podfall/proto"
)

// Controller is what bounds one resource.
type Controller string

// The controllers that are used.
const (
	CPU    Controller = "cpu"
	Memory Controller = "memory"
	PIDs   Controller = "pids"
)

// Tree is the directory below which containers get their cgroups. A nil Tree has none, and
// does nothing.
type Tree struct {
	dir         string
	controllers map[Controller]bool
}

// Mount is where the file system of cgroups of version 2 is mounted, according to
// /proc/self/mountinfo; empty when it is nowhere.
func Mount(mountinfo string) string {
	for line := range strings.Lines(mountinfo) {
		before, after, _ := strings.Cut(line, " - ")
		fields, kind := strings.Fields(before), strings.Fields(after)
		if len(fields) > 4 && len(kind) > 0 && kind[0] == "cgroup2" {
			return unescape(fields[4])
		}
	}
	return ""
}

// unescape is a path as it is: mountinfo has octal numbers for what would end a field.
func unescape(path string) string {
	return strings.NewReplacer(`\011`, "\t", `\012`, "\n", `\040`, " ", `\134`, `\`, `\043`, "#").Replace(path)
}

// Own is the cgroup of version 2 of this process, according to /proc/self/cgroup.
func Own(cgroup string) string {
	for line := range strings.Lines(cgroup) {
		if path, found := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); found {
			return path
		}
	}
	return ""
}

// Open makes a tree below this process's own cgroup, named so that no other runtime has
// the same. The error says why there is none.
func Open(name string) (*Tree, error) {
	mountinfo, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	mount := Mount(string(mountinfo))
	if mount == "" {
		return nil, errors.New("no cgroup file system of version 2 is mounted")
	}
	parent := filepath.Join(mount, Own(string(own)))
	// Who moves a process needs this of the cgroup that both places are below.
	if err := unix.Access(filepath.Join(parent, "cgroup.procs"), unix.W_OK); err != nil {
		return nil, &os.PathError{Op: "write", Path: filepath.Join(parent, "cgroup.procs"), Err: err}
	}
	return At(parent, name)
}

// At makes a tree below a cgroup. Its controllers are those that the cgroup may hand on.
func At(parent, name string) (*Tree, error) {
	t := &Tree{dir: filepath.Join(parent, name), controllers: make(map[Controller]bool)}
	enable(parent)
	if err := os.Mkdir(t.dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	handed := enable(t.dir)
	for _, controller := range []Controller{CPU, Memory, PIDs} {
		t.controllers[controller] = handed[controller]
	}
	return t, nil
}

// enable hands the controllers of a cgroup on to those below, and says which it could. A
// cgroup with processes of its own can hand on none.
func enable(dir string) map[Controller]bool {
	handed := make(map[Controller]bool)
	for _, controller := range []Controller{CPU, Memory, PIDs} {
		_ = os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+controller), 0) // what came of it is read below
	}
	data, _ := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
	for controller := range strings.FieldsSeq(string(data)) {
		handed[Controller(strings.TrimPrefix(controller, "+"))] = true
	}
	return handed
}

// Has reports whether a resource is bounded.
func (t *Tree) Has(controller Controller) bool { return t != nil && t.controllers[controller] }

// String is what a person is told.
func (t *Tree) String() string {
	if t == nil {
		return "none"
	}
	var have []string
	for _, controller := range []Controller{CPU, Memory, PIDs} {
		if t.Has(controller) {
			have = append(have, string(controller))
		}
	}
	if len(have) == 0 {
		return t.dir + ", without controllers"
	}
	return t.dir + ", with " + strings.Join(have, ", ")
}

// Path is the cgroup of a container in that of its pod; empty without a tree.
func (t *Tree) Path(parent, id string) string {
	if t == nil {
		return ""
	}
	inside := filepath.Join(filepath.Clean("/"+parent), id) // no way up
	return filepath.Join(t.dir, inside)
}

// mostProcesses is how many processes and threads a container may have.
const mostProcesses = 1 << 12

// Make makes a container's cgroup, and those above it, with the limits of its resources.
func (t *Tree) Make(path string, resources *proto.LinuxContainerResources) error {
	if t == nil || path == "" {
		return nil
	}
	inside, err := filepath.Rel(t.dir, filepath.Dir(path))
	if err != nil {
		return err
	}
	above := t.dir
	for part := range strings.SplitSeq(inside, "/") {
		above = filepath.Join(above, part)
		if err := os.Mkdir(above, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("make a cgroup: %w", err)
		}
		enable(above)
	}
	if err := os.Mkdir(path, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make a cgroup: %w", err)
	}
	return t.bound(path, resources)
}

// bound writes the limits for which there are controllers.
func (t *Tree) bound(path string, resources *proto.LinuxContainerResources) error {
	var errs []error
	set := func(controller Controller, file, value string) {
		if t.controllers[controller] {
			errs = append(errs, os.WriteFile(filepath.Join(path, file), []byte(value), 0o600))
		}
	}
	set(PIDs, "pids.max", strconv.Itoa(mostProcesses))
	if limit := resources.GetMemoryLimitInBytes(); limit > 0 {
		set(Memory, "memory.max", strconv.FormatInt(limit, 10))
		set(Memory, "memory.oom.group", "1") // a container dies of it as a whole, as upstream's do
	}
	if resources.GetCpuQuota() > 0 && resources.GetCpuPeriod() > 0 {
		set(CPU, "cpu.max", fmt.Sprintf("%d %d", resources.CpuQuota, resources.CpuPeriod))
	}
	if shares := resources.GetCpuShares(); shares > 0 {
		set(CPU, "cpu.weight", strconv.FormatInt(weight(shares), 10))
	}
	return errors.Join(errs...)
}

// weight is a share of version 1, 2 to 262144, on the scale of version 2, 1 to 10000, as
// upstream converts it.
func weight(shares int64) int64 {
	shares = min(max(shares, 2), 262144)
	return 1 + (shares-2)*9999/262142
}

// Remove removes a container's cgroup, and those above it that nothing else is in.
func (t *Tree) Remove(path string) {
	if t == nil || path == "" {
		return
	}
	for ; path != t.dir && len(path) > len(t.dir); path = filepath.Dir(path) {
		if os.Remove(path) != nil && !isGone(path) {
			return
		}
	}
}

func isGone(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// RemoveAll removes the tree, in which no process is left.
func (t *Tree) RemoveAll() error {
	var dirs []string
	err := filepath.WalkDir(t.dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			dirs = append(dirs, path)
		}
		return err
	})
	for _, dir := range slices.Backward(dirs) { // the inner ones first
		err = errors.Join(err, os.Remove(dir))
	}
	return err
}
