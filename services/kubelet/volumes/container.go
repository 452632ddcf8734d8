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

// Mounts are what a container sees of the pod's volumes. SubPaths are the container's
// volumeMounts' own, with their variables already expanded, in the same order; one is
// made if it is not there, and never lies outside its volume. Errors are upstream's.
func (m *Manager) Mounts(ctx context.Context, pod *corev1.Pod, spec *corev1.Container, subPaths []string) ([]*proto.Mount, error) {
	var mounts []*proto.Mount
	for i, mount := range spec.VolumeMounts {
		r, err := m.mounted(pod, mount.Name)
		if err != nil {
			return nil, err
		}
		if r == nil {
			return nil, fmt.Errorf("cannot find volume %q to mount into container %q", mount.Name, spec.Name)
		}
		host := m.path(pod, mount.Name, r)
		if subPath := subPaths[i]; subPath != "" {
			if host, err = subPathOf(host, subPath); errors.Is(err, errHidden) {
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

// mounted is the record of a volume of the pod; nil when there is none.
func (m *Manager) mounted(pod *corev1.Pod, volume string) (*record, error) {
	if err := errors.Join(segment("metadata.uid", string(pod.UID)), segment("spec.volumes.name", volume)); err != nil {
		return nil, err
	}
	return m.read(pod.UID, volume)
}

// errHidden is what is logged and not told: whoever wrote the manifest is not to learn
// about the machine's files.
var errHidden = errors.New("not to be told")

// subPathOf is a place inside a volume.
func subPathOf(volume, subPath string) (string, error) {
	switch {
	case filepath.IsAbs(subPath):
		return "", fmt.Errorf("error SubPath `%s` must not be an absolute path", subPath)
	case slices.Contains(strings.Split(subPath, "/"), ".."):
		return "", fmt.Errorf("unable to provision SubPath `%s`: must not contain '..'", subPath)
	}
	host, err := prepare(volume, filepath.Clean(subPath))
	if err != nil {
		return "", fmt.Errorf("%w: %w", errHidden, err)
	}
	return host, nil
}

// prepare makes a directory inside a volume, unless there is something.
func prepare(volume, inside string) (string, error) {
	root, err := os.OpenRoot(volume)
	if err != nil {
		return "", err
	}
	_, err = root.Stat(inside)
	if errors.Is(err, fs.ErrNotExist) {
		var like fs.FileInfo // whoever may write to the volume may write there
		if like, err = root.Stat("."); err == nil {
			err = mkdirAll(root, inside, like.Mode().Perm())
		}
	}
	if err = errors.Join(err, root.Close()); err != nil {
		return "", err
	}
	return resolve(volume, inside)
}

// maxEnvFile is how many bytes of a file of variables are read.
const maxEnvFile = 64 << 10

// EnvFile is the value of a key in a file of variables in a volume of the pod: lines of
// KEY=value, with comments behind a #. It is empty when the file has no such key.
func (m *Manager) EnvFile(pod *corev1.Pod, ref *corev1.FileKeySelector) (string, error) {
	r, err := m.mounted(pod, ref.VolumeName)
	if err != nil || r == nil {
		return "", errors.Join(fmt.Errorf("cannot find the volume %q referenced by FileKeyRef", ref.VolumeName), err)
	}
	root, err := os.OpenRoot(m.path(pod, ref.VolumeName, r))
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
	return variable(data, ref.Key), nil
}

// variable is the first value of a key in a file of variables.
func variable(file []byte, wanted string) string {
	for line := range strings.Lines(string(file)) {
		line, _, _ = strings.Cut(strings.TrimRight(line, "\r\n"), "#")
		if key, value, found := strings.Cut(line, "="); found && key == wanted {
			return value
		}
	}
	return ""
}

// errEnvFile is upstream's text, which says nothing of the file.
var errEnvFile = errors.New("couldn't parse env file")
