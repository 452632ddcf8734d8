package volumes

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
)

// hostPath returns a path of the machine that may be mounted, without symbolic links: inside the
// allowed directory, and of the type that the volume asks for.
func (m *Manager) hostPath(name string, kind *corev1.HostPathType) (string, error) {
	if m.HostPaths == nil {
		return "", fmt.Errorf("hostPath %q is not allowed: podfall mounts no directory of this machine unless --host-path-root names it "+
			"or one above it", name)
	}
	inside, err := filepath.Rel(m.HostPaths.Name(), filepath.Clean(name))
	if !filepath.IsAbs(name) || err != nil || !filepath.IsLocal(inside) {
		return "", fmt.Errorf("hostPath %q is not allowed: want a path inside --host-path-root %s", name, m.HostPaths.Name())
	}
	wanted := corev1.HostPathUnset
	if kind != nil {
		wanted = *kind
	}
	if err := checkHostPath(m.HostPaths, inside, name, wanted); err != nil {
		return "", err
	}
	return resolveInside(m.HostPaths.Name(), inside)
}

// checkHostPath creates a missing path if its type says so, and checks the type of an existing one.
func checkHostPath(root *os.Root, inside, name string, wanted corev1.HostPathType) error {
	info, err := root.Stat(inside)
	missing := errors.Is(err, fs.ErrNotExist)
	switch {
	case missing && (wanted == corev1.HostPathDirectoryOrCreate || wanted == corev1.HostPathUnset):
		return root.MkdirAll(inside, 0o755)
	case missing && wanted == corev1.HostPathFileOrCreate:
		f, err := root.OpenFile(inside, os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		return f.Close()
	case err != nil && !missing:
		return fmt.Errorf("hostPath %q: %w", name, err)
	}
	var mode fs.FileMode
	if info != nil {
		mode = info.Mode()
	}
	for _, row := range []struct {
		kinds []corev1.HostPathType
		is    bool
		what  string
	}{
		{[]corev1.HostPathType{corev1.HostPathDirectory, corev1.HostPathDirectoryOrCreate}, mode.IsDir(), "directory"},
		{[]corev1.HostPathType{corev1.HostPathFile, corev1.HostPathFileOrCreate}, !missing && mode.IsRegular(), "file"},
		{[]corev1.HostPathType{corev1.HostPathSocket}, mode&fs.ModeSocket != 0, "socket file"},
		{[]corev1.HostPathType{corev1.HostPathCharDev}, mode&fs.ModeCharDevice != 0, "character device"},
		{[]corev1.HostPathType{corev1.HostPathBlockDev}, mode&fs.ModeDevice != 0 && mode&fs.ModeCharDevice == 0, "block device"},
	} {
		for _, kind := range row.kinds {
			if kind == wanted && !row.is {
				return fmt.Errorf("hostPath type check failed: %s is not a %s", name, row.what)
			}
		}
	}
	return nil
}

// resolveInside returns a path in a directory, without symbolic links. It fails if a link leads out
// of the directory.
func resolveInside(dir, inside string) (string, error) {
	base, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", err
	}
	path, err := filepath.EvalSymlinks(filepath.Join(base, inside))
	if err != nil {
		return "", err
	}
	if rest, err := filepath.Rel(base, path); err != nil || !filepath.IsLocal(rest) {
		return "", fmt.Errorf("%q leads out of %q", inside, dir)
	}
	return path, nil
}
