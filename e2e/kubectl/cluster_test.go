package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// cluster is one that `podfall up` has made.
type cluster struct{ data string }

// up starts a cluster, detached.
func up(data string, arguments ...string) (*cluster, error) {
	c := &cluster{data: data}
	out, err := c.podfall(append([]string{"up", "--detach", "--timing", "fastest"}, arguments...)...)
	if err != nil {
		return nil, fmt.Errorf("podfall up: %w\n%s", err, out)
	}
	if _, err := os.Stat(c.kubeconfig()); err != nil {
		return nil, fmt.Errorf("podfall up has left no kubeconfig: %w", err)
	}
	return c, nil
}

func (c *cluster) kubeconfig() string { return filepath.Join(c.data, "kubeconfig") }

func (c *cluster) down() error {
	if out, err := c.podfall("down", "--purge"); err != nil {
		return fmt.Errorf("podfall down: %w\n%s", err, out)
	}
	return nil
}

func (c *cluster) podfall(arguments ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, podfall, append([]string{"--data", c.data}, arguments...)...).CombinedOutput()
	return string(out), err
}

// logs is the end of what each process has written.
func (c *cluster) logs() string {
	const most = 1500
	var all strings.Builder
	paths, _ := filepath.Glob(filepath.Join(c.data, "log", "*.log"))
	for _, path := range paths {
		if data, err := os.ReadFile(path); err == nil && len(data) > 0 {
			fmt.Fprintf(&all, "%s:\n%s\n", filepath.Base(path), data[max(0, len(data)-most):])
		}
	}
	return all.String()
}
