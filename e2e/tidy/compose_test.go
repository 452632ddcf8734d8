package tidy

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// service holds the security-relevant fields of a service of compose.yaml.
type service struct {
	ReadOnly    bool     `json:"read_only"`
	CapDrop     []string `json:"cap_drop"`
	SecurityOpt []string `json:"security_opt"`
	Privileged  bool     `json:"privileged"`
	NetworkMode string   `json:"network_mode"`
	User        string   `json:"user"`
	Ports       []string `json:"ports"`
	Volumes     []string `json:"volumes"`
}

// TestT5ComposeExposesNothing: containers run without root, capabilities and a file system
// to write to, and only the gateway is published, on loopback.
func TestT5ComposeExposesNothing(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(root, "compose.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Services map[string]service `json:"services"`
		Networks map[string]struct {
			Internal bool `json:"internal"`
		} `json:"networks"`
	}
	if err := yaml.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Services) < 11 {
		t.Fatalf("%d services, want 11 or more", len(file.Services))
	}
	for name, s := range file.Services {
		if !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) || !slices.Contains(s.SecurityOpt, "no-new-privileges:true") {
			t.Errorf("%s: read-only %v, cap_drop %v, security_opt %v", name, s.ReadOnly, s.CapDrop, s.SecurityOpt)
		}
		if s.Privileged || s.User != "" || s.NetworkMode != "" && s.NetworkMode != "none" {
			t.Errorf("%s: privileged %v, user %q, network %q; want none of them", name, s.Privileged, s.User, s.NetworkMode)
		}
		for _, volume := range s.Volumes {
			if strings.HasPrefix(volume, "/") || strings.HasPrefix(volume, ".") {
				t.Errorf("%s mounts %s of the machine", name, volume)
			}
		}
		for _, port := range s.Ports {
			if name != "gateway" || !strings.HasPrefix(port, "127.0.0.1:") {
				t.Errorf("%s publishes %s", name, port)
			}
		}
	}
	for name, network := range file.Networks {
		if !network.Internal && name != "outside" {
			t.Errorf("the network %s leads out of the machine", name)
		}
	}
	image, err := os.ReadFile(filepath.Join(root, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	if users := regexp.MustCompile(`(?m)^USER (\d+):\d+$`).FindAllSubmatch(image, -1); len(users) != 2 || string(users[0][1]) == "0" || string(users[1][1]) == "0" {
		t.Errorf("users of the images: %q, want two, and not root", users)
	}
}
