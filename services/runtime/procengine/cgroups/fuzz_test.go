package cgroups

import (
	"fmt"
	"strings"
	"testing"
)

// FuzzMount: the mount is found among any other mounts, and its path is unescaped from the kernel's
// octal codes. The process's own cgroup is found too.
func FuzzMount(f *testing.F) {
	f.Fuzz(func(t *testing.T, before, path, after string) {
		if MountPoint(before+"\n") != "" || OwnCgroup(before+"\n") != "" || !strings.HasPrefix(path, "/") {
			return
		}
		written := ""
		for i := range len(path) {
			if c := path[i]; strings.IndexByte(" \t\n\\#", c) >= 0 {
				written += fmt.Sprintf("\\%03o", c)
			} else {
				written += path[i : i+1]
			}
		}
		if strings.Join(strings.Fields(written), "") != written { // what the kernel takes for no space
			return
		}
		info := fmt.Sprintf("%s\n30 23 0:26 / %s rw,nosuid shared:4 - cgroup2 cgroup2 rw\n%s", before, written, after)
		if got := MountPoint(info); got != path {
			t.Errorf("%q: %q, want %q", info, got, path)
		}
		if strings.Contains(path, "\n") {
			return
		}
		if got := OwnCgroup(before + "\n0::" + path + "\n" + after); got != path {
			t.Errorf("own cgroup %q, want %q", got, path)
		}
	})
}
