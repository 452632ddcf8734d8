// Package images maps container images to a program of this machine or a script, because there is
// no registry.
//
// The catalog is a YAML file:
//
//	images:
//	- match: "example.com/shop/server"   # the image without its tag; * stands for any text
//	  command: ["/opt/shop/server", "--port=8080"]
//	  stopSignal: SIGQUIT                # SIGTERM without it
//	- match: "*/nginx"
//	  script: "on TERM exits 0 after 2s"
//	- match: "example.com/shop/big"
//	  pull: {takes: 20s, size: 1Gi}      # is not on the node until it has been pulled
//	- match: "example.com/shop/gone"
//	  pull: {error: "failed to pull and unpack image: not found"}
//
// The first matching entry applies. The pod's runtimeClassName, not the catalog, chooses the
// engine: a process uses the command, a scripted container uses the script. The pod's own command
// or script takes precedence over the image's.
package images

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// Image is the replacement of a container image. The zero Image replaces nothing.
type Image struct {
	// Match is a path.Match pattern, except that * matches slashes too.
	Match string `json:"match"`
	// Command is the program and its arguments, like an image's entrypoint.
	Command []string `json:"command,omitempty"`
	// Script is the script of a scripted container.
	Script string `json:"script,omitempty"`
	// StopSignal is a signal name; empty means SIGTERM.
	StopSignal string `json:"stopSignal,omitempty"`
	// Pull describes pulling the image; nil if the image is already on every node.
	Pull *Pull `json:"pull,omitempty"`
}

// Pull describes how an image is pulled to a node.
type Pull struct {
	// Takes is the duration in cluster time.
	Takes metav1.Duration `json:"takes,omitzero"`
	// Size is the size of the image.
	Size resource.Quantity `json:"size,omitzero"`
	// Error is the error that the pull returns; empty if the pull succeeds.
	Error string `json:"error,omitempty"`
}

// Catalog is a list of images. The nil Catalog is empty.
type Catalog struct{ images []Image }

// ReadFile reads a catalog. Errors name the file, the entry and the field.
func ReadFile(file string) (*Catalog, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("images: %w", err)
	}
	catalog, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("images: %s: %w", file, err)
	}
	return catalog, nil
}

// Parse parses a catalog from YAML.
func Parse(data []byte) (*Catalog, error) {
	var document struct {
		Images []Image `json:"images"`
	}
	if len(bytes.TrimSpace(data)) > 0 {
		if err := yaml.UnmarshalStrict(data, &document); err != nil {
			return nil, err
		}
	}
	for i, image := range document.Images {
		if err := image.validate(); err != nil {
			return nil, fmt.Errorf("images[%d].%w", i, err)
		}
	}
	return &Catalog{images: document.Images}, nil
}

func (i Image) validate() error {
	if i.Match == "" {
		return fmt.Errorf("match: want the name of an image, such as nginx or */nginx")
	}
	if _, err := path.Match(i.Match, ""); err != nil {
		return fmt.Errorf("match: %q: %w", i.Match, err)
	}
	if i.Pull != nil && i.Pull.Takes.Duration < 0 {
		return fmt.Errorf("pull.takes: %v: want a duration that is not negative, such as 20s", i.Pull.Takes.Duration)
	}
	if i.StopSignal != "" && unix.SignalNum(i.StopSignal) == 0 {
		return fmt.Errorf("stopSignal: %q: want the name of a signal, such as SIGTERM", i.StopSignal)
	}
	return nil
}

// Lookup returns the first entry that matches an image reference, or the zero Image.
func (b *Catalog) Lookup(image string) Image {
	if b == nil {
		return Image{}
	}
	name := withoutTag(image)
	for _, entry := range b.images {
		// Without slashes every * matches across what were slashes.
		pattern := strings.ReplaceAll(entry.Match, "/", "\x00")
		if ok, err := path.Match(pattern, strings.ReplaceAll(name, "/", "\x00")); ok && err == nil {
			return entry
		}
	}
	return Image{}
}

// withoutTag returns an image reference without tag and digest.
func withoutTag(image string) string {
	image, _, _ = strings.Cut(image, "@")
	if colon := strings.LastIndexByte(image, ':'); colon > strings.LastIndexByte(image, '/') {
		image = image[:colon]
	}
	return image
}
