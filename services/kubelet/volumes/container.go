package volumes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/podfall/podfall/proto"
)

// Mounts returns a container's mounts of the pod's volumes. SubPaths belong to the container's
// volumeMounts, expanded and in the same order. A missing subPath is created, and never lies
// outside its volume. Errors are upstream's.
func (m *Manager) Mounts(ctx context.Context, pod *corev1.Pod, spec *corev1.Container, subPaths []string) ([]*proto.Mount, error) {
	var mounts []*proto.Mount
	for i, mount := range spec.VolumeMounts {
		r, err := m.mountRecord(pod, mount.Name)
		if err != nil {
			return nil, err
		}
		if r == nil {
			return nil, fmt.Errorf("cannot find volume %q to mount into container %q", mount.Name, spec.Name)
		}
		host := m.volumePath(pod, mount.Name, r)
		if subPath := subPaths[i]; subPath != "" {
			if host, err = resolveSubPath(host, subPath); errors.Is(err, errHidden) {
				m.Log.ErrorContext(ctx, "prepare a subPath", "pod", pod.Namespace+"/"+pod.Name, "volume", mount.Name, "subPath", subPath, "err", err)
				err = fmt.Errorf("failed to prepare subPath for volumeMount %q of container %q", mount.Name, spec.Name)
			}
			if err != nil {
				return nil, err
			}
		}
		mounts = append(mounts, &proto.Mount{
			HostPath: host, ContainerPath: mount.MountPath, ReadOnly: mount.ReadOnly || r.ReadOnly,
		})
	}
	return mounts, nil
}

// mountRecord returns the record of a volume of the pod, or nil.
func (m *Manager) mountRecord(pod *corev1.Pod, volume string) (*record, error) {
	if err := errors.Join(checkName("metadata.uid", string(pod.UID)), checkName("spec.volumes.name", volume)); err != nil {
		return nil, err
	}
	return m.readRecord(pod.UID, volume)
}

// errHidden marks an error that is logged but not sent to users: the author of a manifest must not
// learn about the machine's files.
var errHidden = errors.New("not to be told")

// resolveSubPath returns a path inside a volume.
func resolveSubPath(volume, subPath string) (string, error) {
	switch {
	case filepath.IsAbs(subPath):
		return "", fmt.Errorf("error SubPath `%s` must not be an absolute path", subPath)
	case slices.Contains(strings.Split(subPath, "/"), ".."):
		return "", fmt.Errorf("unable to provision SubPath `%s`: must not contain '..'", subPath)
	}
	host, err := makeSubPath(volume, filepath.Clean(subPath))
	if err != nil {
		return "", fmt.Errorf("%w: %w", errHidden, err)
	}
	return host, nil
}

// makeSubPath creates a directory inside a volume, unless something is there.
func makeSubPath(volume, inside string) (string, error) {
	root, err := os.OpenRoot(volume)
	if err != nil {
		return "", err
	}
	_, err = root.Stat(inside)
	if errors.Is(err, fs.ErrNotExist) {
		var like fs.FileInfo // those who may write to the volume may write there
		if like, err = root.Stat("."); err == nil {
			err = mkdirAll(root, inside, like.Mode().Perm())
		}
	}
	if err = errors.Join(err, root.Close()); err != nil {
		return "", err
	}
	return resolveInside(volume, inside)
}

// maxEnvFile is the largest size of a file of variables, in bytes.
const maxEnvFile = 64 << 10

// EnvFile returns the value of a key in a file of variables in a volume of the pod: lines of
// KEY=value, with comments after a #. It is empty if the file has no such key.
func (m *Manager) EnvFile(pod *corev1.Pod, ref *corev1.FileKeySelector) (string, error) {
	r, err := m.mountRecord(pod, ref.VolumeName)
	if err != nil || r == nil {
		return "", errors.Join(fmt.Errorf("cannot find the volume %q referenced by FileKeyRef", ref.VolumeName), err)
	}
	root, err := os.OpenRoot(m.volumePath(pod, ref.VolumeName, r))
	if err != nil {
		return "", errEnvFile
	}
	defer root.Close()
	info, err := root.Stat(filepath.Clean(ref.Path))
	switch {
	case errors.Is(err, fs.ErrNotExist) && ref.Optional != nil && *ref.Optional:
		return "", nil
	case err != nil, !info.Mode().IsRegular(), info.Size() > maxEnvFile:
		return "", errEnvFile
	}
	data, err := root.ReadFile(filepath.Clean(ref.Path))
	if err != nil {
		return "", errEnvFile
	}
	return findVariable(data, ref.Key), nil
}

// findVariable returns the first value of a key in a file of variables.
func findVariable(file []byte, wanted string) string {
	for line := range strings.Lines(string(file)) {
		line, _, _ = strings.Cut(strings.TrimRight(line, "\r\n"), "#")
		if key, value, found := strings.Cut(line, "="); found && key == wanted {
			return value
		}
	}
	return ""
}

// errEnvFile is upstream's text, which says nothing about the file.
var errEnvFile = errors.New("couldn't parse env file")
