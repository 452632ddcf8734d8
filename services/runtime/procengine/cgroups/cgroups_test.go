package cgroups

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/podfall/podfall/proto"
)

func TestWhereItIs(t *testing.T) {
	for info, want := range map[string]string{
		"41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n":                 "/sys/fs/cgroup/unified",
		"35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n":                      "",
		"30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n40 b\n": "/sys/fs/cgroup",
		"": "",
	} {
		if got := MountPoint(info); got != want {
			t.Errorf("%q: mounted on %q, want %q", info, got, want)
		}
	}
	if got := OwnCgroup("9:name=systemd:/a\n4:memory:/b\n0::/user.slice/x\n"); got != "/user.slice/x" {
		t.Errorf("own cgroup %q", got)
	}
}

func TestWeight(t *testing.T) {
	for shares, want := range map[int64]int64{0: 1, 2: 1, 1024: 39, 262144: 10000, 1 << 40: 10000} {
		if got := cpuWeight(shares); got != want {
			t.Errorf("%d shares weigh %d, want %d", shares, got, want)
		}
	}
}

// TestT10PathStaysInTheTree is T10: the pod's cgroup name comes from a request, and cannot lead out
// of the tree.
func TestT10PathStaysInTheTree(t *testing.T) {
	tree := &Tree{dir: "/cg/podfall"}
	for parent, want := range map[string]string{
		"/kubepods/pod1": "/cg/podfall/kubepods/pod1/id", "": "/cg/podfall/id", "../../..": "/cg/podfall/id", "/a/../../b": "/cg/podfall/b/id",
	} {
		if got := tree.Path(parent, "id"); got != want {
			t.Errorf("%q: %q, want %q", parent, got, want)
		}
	}
}

// TestBounds uses plain directories with the files that a kernel would create.
func TestBounds(t *testing.T) {
	dir := t.TempDir()
	tree := &Tree{dir: dir, controllers: map[Controller]bool{CPU: true, Memory: true, PIDs: true}}
	path := tree.Path("/kubepods/burstable/pod1", "id")
	err := tree.Create(path, &proto.LinuxContainerResources{CpuPeriod: 100000, CpuQuota: 50000, CpuShares: 1024, MemoryLimitInBytes: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		"memory.max": "67108864", "memory.oom.group": "1", "cpu.max": "50000 100000", "cpu.weight": "39", "pids.max": "4096",
	} {
		if data, err := os.ReadFile(filepath.Join(path, file)); string(data) != want {
			t.Errorf("%s is %q, %v, want %q", file, data, err, want)
		}
	}
	var none *Tree
	if none.Path("/a", "b") != "" || none.Create("", nil) != nil || none.HasController(Memory) || none.String() != "none" {
		t.Error("no tree does something")
	}
	none.Remove("/a")
}
