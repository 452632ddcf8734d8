package volumes

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/podfall/podfall/services/kubelet/downward"
)

// payload is the files of a volume made of objects, by their path in it.
type payload map[string]file

// file is one file of a payload.
type file struct {
	data []byte
	mode fs.FileMode
}

// selection says which values of an object become files; all of them without items.
type selection struct {
	name  string
	items []corev1.KeyToPath
	mode  int32
	// optional means that the object, and what items name, need not be there.
	optional *bool
}

// selectFiles returns an object's values as files. Missing is the message for a named key that does
// not exist.
func (s selection) selectFiles(values map[string][]byte, missing string) (payload, error) {
	files := payload{}
	if len(s.items) == 0 {
		for name, data := range values {
			files[name] = file{data, modeOf(nil, s.mode)}
		}
		return files, nil
	}
	for _, item := range s.items {
		data, found := values[item.Key]
		if !found && isTrue(s.optional) {
			continue
		}
		if !found {
			return nil, fmt.Errorf("%s: %s", missing, item.Key)
		}
		files[item.Path] = file{data, modeOf(item.Mode, s.mode)}
	}
	return files, nil
}

// defaultMode is the mode of files if the volume gives none.
const defaultMode = 0o644

func modeOf(own *int32, usual int32) fs.FileMode {
	if own != nil {
		usual = *own
	}
	return fs.FileMode(usual) & fs.ModePerm
}

func modeOrDefault(mode *int32) int32 {
	if mode == nil {
		return defaultMode
	}
	return *mode
}

// configMapValues returns all values of a ConfigMap.
func configMapValues(config *corev1.ConfigMap) map[string][]byte {
	all := make(map[string][]byte, len(config.Data)+len(config.BinaryData))
	for key, text := range config.Data {
		all[key] = []byte(text)
	}
	maps.Copy(all, config.BinaryData)
	return all
}

// downwardFiles returns fields of the pod as files.
func downwardFiles(pod *corev1.Pod, items []corev1.DownwardAPIVolumeFile, mode int32, allocatable corev1.ResourceList) (payload, error) {
	files := payload{}
	for _, item := range items {
		var text string
		var err error
		switch {
		case item.FieldRef != nil:
			text, err = downward.Field(pod, item.FieldRef.FieldPath, downward.Addresses{})
		case item.ResourceFieldRef != nil:
			text, err = downward.Resource(pod, nil, item.ResourceFieldRef, allocatable)
		}
		if err != nil {
			return nil, err
		}
		files[item.Path] = file{[]byte(text), modeOf(item.Mode, mode)}
	}
	return files, nil
}

// check refuses invalid paths, paths that lead out of the volume, and names that the atomic update
// uses.
func (p payload) check() error {
	for name := range p {
		switch {
		case name == "" || path.IsAbs(name) || path.Clean(name) != name || name == ".":
			return fmt.Errorf("invalid path: must be relative path: %q", name)
		case slices.Contains(strings.Split(name, "/"), ".."):
			return fmt.Errorf("invalid path: must not contain '..': %q", name)
		case strings.HasPrefix(name, ".."):
			return fmt.Errorf("invalid path: must not start with '..': %q", name)
		case strings.Contains(name, "\x00"):
			return fmt.Errorf("invalid path: must not contain a NUL byte: %q", name)
		}
	}
	return nil
}

// topNames returns the first elements of the paths, as a directory listing shows them.
func (p payload) topNames() map[string]bool {
	tops := map[string]bool{}
	for name := range p {
		top, _, _ := strings.Cut(name, "/")
		tops[top] = true
	}
	return tops
}
