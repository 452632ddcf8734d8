// Package cgroups limits the resources of real programs, if the machine has a cgroup file system of
// version 2 in which this user may create groups. The layout is a kubelet's: below the pod's
// cgroup, for example kubepods/burstable/pod<uid>, each container has one.
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

// Controller is a cgroup controller.
type Controller string

// CPU, Memory and PIDs are the controllers that podfall uses.
const (
	CPU    Controller = "cpu"
	Memory Controller = "memory"
	PIDs   Controller = "pids"
)

// Tree is the directory that holds the containers' cgroups. The methods of a nil Tree do nothing.
type Tree struct {
	dir         string
	controllers map[Controller]bool
}

// MountPoint returns where the cgroup2 file system is mounted according to /proc/self/mountinfo;
// empty if nowhere.
func MountPoint(mountinfo string) string {
	for line := range strings.Lines(mountinfo) {
		before, after, _ := strings.Cut(line, " - ")
		fields, kind := strings.Fields(before), strings.Fields(after)
		if len(fields) > 4 && len(kind) > 0 && kind[0] == "cgroup2" {
			return unescape(fields[4])
		}
	}
	return ""
}

// unescape decodes a mountinfo path, which has octal escapes for bytes that would end a field.
func unescape(path string) string {
	return strings.NewReplacer(`\011`, "\t", `\012`, "\n", `\040`, " ", `\134`, `\`, `\043`, "#").Replace(path)
}

// OwnCgroup returns this process's cgroup of version 2 according to /proc/self/cgroup.
func OwnCgroup(cgroup string) string {
	for line := range strings.Lines(cgroup) {
		if path, found := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); found {
			return path
		}
	}
	return ""
}

// Open creates a tree below this process's own cgroup. The name must be unique among runtimes. The
// error says why no tree is possible.
func Open(name string) (*Tree, error) {
	mountinfo, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	mount := MountPoint(string(mountinfo))
	if mount == "" {
		return nil, errors.New("no cgroup file system of version 2 is mounted")
	}
	parent := filepath.Join(mount, OwnCgroup(string(own)))
	// Moving a process requires write access to the common ancestor's cgroup.procs.
	if err := unix.Access(filepath.Join(parent, "cgroup.procs"), unix.W_OK); err != nil {
		return nil, &os.PathError{Op: "write", Path: filepath.Join(parent, "cgroup.procs"), Err: err}
	}
	return NewTree(parent, name)
}

// NewTree creates a tree below a cgroup. It uses the controllers that the cgroup can delegate.
func NewTree(parent, name string) (*Tree, error) {
	t := &Tree{dir: filepath.Join(parent, name), controllers: make(map[Controller]bool)}
	enableControllers(parent)
	if err := os.Mkdir(t.dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	handed := enableControllers(t.dir)
	for _, controller := range []Controller{CPU, Memory, PIDs} {
		t.controllers[controller] = handed[controller]
	}
	return t, nil
}

// enableControllers delegates the controllers of a cgroup to its children, and returns those that
// worked. A cgroup that contains processes can delegate none.
func enableControllers(dir string) map[Controller]bool {
	handed := make(map[Controller]bool)
	for _, controller := range []Controller{CPU, Memory, PIDs} {
		_ = os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+controller), 0) // the result is read below
	}
	data, _ := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
	for controller := range strings.FieldsSeq(string(data)) {
		handed[Controller(strings.TrimPrefix(controller, "+"))] = true
	}
	return handed
}

// HasController reports whether a resource is limited.
func (t *Tree) HasController(controller Controller) bool {
	return t != nil && t.controllers[controller]
}

// String describes the tree for users.
func (t *Tree) String() string {
	if t == nil {
		return "none"
	}
	var have []string
	for _, controller := range []Controller{CPU, Memory, PIDs} {
		if t.HasController(controller) {
			have = append(have, string(controller))
		}
	}
	if len(have) == 0 {
		return t.dir + ", without controllers"
	}
	return t.dir + ", with " + strings.Join(have, ", ")
}

// Path returns the cgroup of a container inside its pod's cgroup; empty without a tree.
func (t *Tree) Path(parent, id string) string {
	if t == nil {
		return ""
	}
	inside := filepath.Join(filepath.Clean("/"+parent), id) // no path out of the tree
	return filepath.Join(t.dir, inside)
}

// maxProcesses is the limit of processes and threads in a container.
const maxProcesses = 1 << 12

// Create creates a container's cgroup and its parents, and sets the limits of its resources.
func (t *Tree) Create(path string, resources *proto.LinuxContainerResources) error {
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
		enableControllers(above)
	}
	if err := os.Mkdir(path, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make a cgroup: %w", err)
	}
	return t.writeLimits(path, resources)
}

// writeLimits writes the limits for which there are controllers.
func (t *Tree) writeLimits(path string, resources *proto.LinuxContainerResources) error {
	var errs []error
	set := func(controller Controller, file, value string) {
		if t.controllers[controller] {
			errs = append(errs, os.WriteFile(filepath.Join(path, file), []byte(value), 0o600))
		}
	}
	set(PIDs, "pids.max", strconv.Itoa(maxProcesses))
	if limit := resources.GetMemoryLimitInBytes(); limit > 0 {
		set(Memory, "memory.max", strconv.FormatInt(limit, 10))
		set(Memory, "memory.oom.group", "1") // the whole container is killed, as upstream does
	}
	if resources.GetCpuQuota() > 0 && resources.GetCpuPeriod() > 0 {
		set(CPU, "cpu.max", fmt.Sprintf("%d %d", resources.CpuQuota, resources.CpuPeriod))
	}
	if shares := resources.GetCpuShares(); shares > 0 {
		set(CPU, "cpu.weight", strconv.FormatInt(cpuWeight(shares), 10))
	}
	return errors.Join(errs...)
}

// cpuWeight converts cgroup v1 shares, 2 to 262144, to a v2 weight, 1 to 10000, as upstream does.
func cpuWeight(shares int64) int64 {
	shares = min(max(shares, 2), 262144)
	return 1 + (shares-2)*9999/262142
}

// Remove removes a container's cgroup, and its parents that are empty.
func (t *Tree) Remove(path string) {
	if t == nil || path == "" {
		return
	}
	for ; path != t.dir && len(path) > len(t.dir); path = filepath.Dir(path) {
		if os.Remove(path) != nil && !isMissing(path) {
			return
		}
	}
}

func isMissing(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// RemoveAll removes the tree, which must contain no process.
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
