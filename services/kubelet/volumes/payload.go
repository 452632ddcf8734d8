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

// payload is the files of a volume that is made of objects, by their path in it.
type payload map[string]file

// file is one of them.
type file struct {
	data []byte
	mode fs.FileMode
}

// selection is which of an object's values become files, and how: all of them when there
// are no items.
type selection struct {
	name  string
	items []corev1.KeyToPath
	mode  int32
	// optional means that the object, and what items name, need not be there.
	optional *bool
}

// keys are an object's values as files. Missing is the message for a key that is named and
// not there.
func (s selection) keys(values map[string][]byte, missing string) (payload, error) {
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

// usualMode is that of files whose volume gives none.
const usualMode = 0o644

func modeOf(own *int32, usual int32) fs.FileMode {
	if own != nil {
		usual = *own
	}
	return fs.FileMode(usual) & fs.ModePerm
}

func orUsual(mode *int32) int32 {
	if mode == nil {
		return usualMode
	}
	return *mode
}

// values are all of a ConfigMap's.
func values(config *corev1.ConfigMap) map[string][]byte {
	all := make(map[string][]byte, len(config.Data)+len(config.BinaryData))
	for key, text := range config.Data {
		all[key] = []byte(text)
	}
	maps.Copy(all, config.BinaryData)
	return all
}

// fieldsOf are fields of the pod as files.
func fieldsOf(pod *corev1.Pod, items []corev1.DownwardAPIVolumeFile, mode int32, allocatable corev1.ResourceList) (payload, error) {
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

// check refuses paths that are none, or that lead out of the volume, or into what the
// atomic update keeps for itself.
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

// tops are the first elements of the paths: what a directory listing shows.
func (p payload) tops() map[string]bool {
	tops := map[string]bool{}
	for name := range p {
		top, _, _ := strings.Cut(name, "/")
		tops[top] = true
	}
	return tops
}
