package volumes

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestSubPath is T10: a subPath stays in its volume, and who asks for another learns
// nothing of the machine.
func TestSubPath(t *testing.T) {
	t.Parallel()
	s := newTestNode(t)
	s.put("configmaps/default/conf", config("key", "1"))
	pod := podWith("p", emptyVolume("v"), configVolume("c"))
	if err := s.Mount(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	inside := filepath.Join(s.dir, "kubelet/pods/uid-p/volumes/kubernetes.io~empty-dir/v")
	for link, to := range map[string]string{
		"out": s.dir, "up": "../../../../..", "etc": "/etc/passwd", "loop": "loop", "self": ".", "dir": "real", "through": "out/host",
	} {
		if err := os.Symlink(to, filepath.Join(inside, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(inside, "real"), 0o700); err != nil {
		t.Fatal(err)
	}
	ask := func(volume, subPath string) (string, error) {
		mounts, err := s.Mounts(s.t.Context(), pod, &corev1.Container{Name: "c", VolumeMounts: []corev1.VolumeMount{{Name: volume, MountPath: "/m"}}}, []string{subPath})
		if err != nil {
			return "", err
		}
		return mounts[0].GetHostPath(), nil
	}
	const hidden = `failed to prepare subPath for volumeMount "v" of container "c"`
	for subPath, want := range map[string]string{
		"/etc": "error SubPath `/etc` must not be an absolute path", "..": "unable to provision SubPath `..`: must not contain '..'",
		"a/../../b": "unable to provision SubPath `a/../../b`: must not contain '..'", "out": hidden, "up": hidden, "etc": hidden, "loop": hidden,
		"out/new": hidden, "through": hidden, "up/kubelet": hidden, "a\x00b": hidden,
	} {
		if host, err := ask("v", subPath); err == nil || err.Error() != want {
			t.Errorf("%q: %q %v, want %s", subPath, host, err, want)
		}
	}
	for subPath, want := range map[string]string{"new/deep": "new/deep", "dir": "real", "self/real": "real", "real/": "real", "..a": "..a"} {
		if host, err := ask("v", subPath); err != nil || host != filepath.Join(inside, want) {
			t.Errorf("%q: %q %v, want %s", subPath, host, err, want)
		}
	}
	if host, err := ask("c", "key"); err != nil || filepath.Base(host) != "key" {
		t.Errorf("one file of a ConfigMap: %q %v", host, err)
	}
	if _, err := ask("none", ""); err == nil || err.Error() != `cannot find volume "none" to mount into container "c"` {
		t.Errorf("a volume that there is not: %v", err)
	}
	for _, mount := range []struct {
		volume string
		want   bool
	}{{"v", false}, {"c", true}} {
		mounts, err := s.Mounts(s.t.Context(), pod, &corev1.Container{VolumeMounts: []corev1.VolumeMount{{Name: mount.volume}}}, []string{""})
		if err != nil || mounts[0].GetReadOnly() != mount.want {
			t.Errorf("%s is read-only: %v %v", mount.volume, mounts, err)
		}
	}
}

// TestHostPathLinks is T10: a link inside the allowed directory leads nowhere else.
func TestHostPathLinks(t *testing.T) {
	t.Parallel()
	s := newTestNode(t)
	host := filepath.Join(s.dir, "host")
	for link, to := range map[string]string{"out": s.dir, "etc": "/etc", "near": "real"} {
		if err := os.Symlink(to, filepath.Join(host, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(host, "real"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{host + "/out", host + "/etc/passwd", host + "/out/kubelet", host + "/out/new"} {
		for _, kind := range []corev1.HostPathType{"", corev1.HostPathDirectoryOrCreate, corev1.HostPathFileOrCreate, corev1.HostPathFile} {
			if got, err := s.hostPath(name, &kind); err == nil {
				t.Errorf("%s %q: %s", kind, name, got)
			}
		}
	}
	for name, want := range map[string]string{host: host, host + "/near": host + "/real", host + "/a/../real": host + "/real", host + "/new/x": host + "/new/x"} {
		if got, err := s.hostPath(name, nil); err != nil || got != want {
			t.Errorf("%q: %q %v, want %s", name, got, err, want)
		}
	}
	kind := corev1.HostPathFileOrCreate
	if got, err := s.hostPath(host+"/file", &kind); err != nil || got != host+"/file" {
		t.Errorf("a file to create: %q %v", got, err)
	}
}

// TestEnvFileLinks is T10: a file of variables is read in its volume alone.
func TestEnvFileLinks(t *testing.T) {
	t.Parallel()
	s := newTestNode(t)
	pod := podWith("p", emptyVolume("v"))
	if err := s.Mount(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	inside := filepath.Join(s.dir, "kubelet/pods/uid-p/volumes/kubernetes.io~empty-dir/v")
	if err := os.Symlink("/etc/passwd", filepath.Join(inside, "out")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(inside, "good"), []byte("# one\nA=1 # two\r\nB=b=c\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		path, key   string
		optional    bool
		want, error string
	}{
		{"good", "A", false, "1 ", ""},
		{"good", "B", false, "b=c", ""},
		{"good", "C", false, "", ""},
		{"none", "A", true, "", ""},
		{"none", "A", false, "", "couldn't parse env file"},
		{"out", "root", true, "", "couldn't parse env file"},
		{"../../../mounts/v", "A", true, "", "couldn't parse env file"},
		{".", "A", true, "", "couldn't parse env file"},
	} {
		got, err := s.EnvFile(pod, &corev1.FileKeySelector{VolumeName: "v", Path: row.path, Key: row.key, Optional: &row.optional})
		if got != row.want || (err != nil) != (row.error != "") || err != nil && err.Error() != row.error {
			t.Errorf("%s of %s: %q %v", row.key, row.path, got, err)
		}
	}
	if _, err := s.EnvFile(pod, &corev1.FileKeySelector{VolumeName: "none"}); err == nil {
		t.Error("a volume that there is not was read")
	}
}

// FuzzNames is T10: whatever names and paths say, nothing is made, changed or removed
// outside the directories that are for it.
func FuzzNames(f *testing.F) {
	f.Fuzz(func(t *testing.T, uid, name, path string) {
		s := newTestNode(t)
		for _, canary := range []string{"witness", "kubelet/witness", "kubelet/pods/other/volumes/kubernetes.io~empty-dir/v/witness"} {
			if err := os.MkdirAll(filepath.Join(s.dir, canary), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		s.put("configmaps/default/conf", config("k", "1"))
		source := &corev1.CSIPersistentVolumeSource{Driver: name, VolumeHandle: path}
		s.addClaim("data", corev1.PersistentVolumeSource{CSI: source})
		s.addAttachment(source)
		pod := podWith("p",
			emptyVolume(name),
			configVolume("c", corev1.KeyToPath{Key: "k", Path: path}),
			claimVolume("d", "data"),
			hostVolume("h", filepath.Join(s.dir, "host")+"/"+path, corev1.HostPathDirectoryOrCreate))
		pod.UID = types.UID(uid)
		before := writeOutside(t, s.dir)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		_ = s.Mount(ctx, pod) // what it says is not the point
		_, _ = s.Mounts(s.t.Context(), pod, &corev1.Container{VolumeMounts: []corev1.VolumeMount{{Name: name}}}, []string{path})
		_, _ = s.EnvFile(pod, &corev1.FileKeySelector{VolumeName: name, Path: path, Key: "k"})
		s.Timing.UnmountWait = time.Nanosecond
		_ = s.Unmount(ctx, pod)
		cancel()
		_ = s.RemoveDirs(ctx, pod)
		_ = s.RemovePod(ctx, pod.UID)
		if after := writeOutside(t, s.dir); before != after {
			t.Errorf("uid %q, volume %q, path %q: what lies outside was\n%s\nand is\n%s", uid, name, path, before, after)
		}
	})
}

// writeOutside is what there is but in the pod's own directory, the storage, and the allowed
// directory of the machine.
func writeOutside(t *testing.T, dir string) string {
	t.Helper()
	var found strings.Builder
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		inside, _ := filepath.Rel(dir, path)
		if inside == "host" || inside == "storage" {
			return fs.SkipDir
		}
		if filepath.Dir(inside) == "kubelet/pods" && inside != "kubelet/pods/other" {
			return fs.SkipDir // the pod's own
		}
		found.WriteString(inside + "\n")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found.String()
}
