package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"github.com/podfall/podfall/cmd/podfall/cluster"
	"github.com/podfall/podfall/internal/kubeconfig"
)

func kubeconfigCommand(layout cluster.Layout) *cli.Command {
	return &cli.Command{
		Name:  "kubeconfig",
		Usage: "print the cluster's kubeconfig, or put it into another one",
		Description: "--merge adds the context podfall-<name> to FILE and changes no entry that podfall has not made.\n" +
			"The current context stays what it is without --switch.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "merge", Usage: "put the cluster into this `FILE`, such as ~/.kube/config"},
			&cli.BoolFlag{Name: "switch", Usage: "with --merge: make the cluster the current one"},
		},
		Action: func(c *cli.Context) error {
			options, err := layout.Load()
			if err != nil {
				return err
			}
			access, err := layout.Access(options)
			if err != nil {
				return fmt.Errorf("the gateway of the cluster in %s has never listened; see podfall status: %w", layout.Root, err)
			}
			switch into := c.String("merge"); {
			case into != "":
				return mergeKubeconfig(c, access, into)
			case c.Bool("switch"):
				return usageError("--switch: want --merge FILE too")
			}
			data, err := access.File()
			if err == nil {
				_, err = c.App.Writer.Write(data)
			}
			return err
		},
	}
}

// mergeKubeconfig adds the access to the file, atomically.
func mergeKubeconfig(c *cli.Context, access kubeconfig.Access, path string) error {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target // keep a symbolic link
	}
	release, err := lockKubeconfig(path)
	if err != nil {
		return err
	}
	defer release()
	mode := fs.FileMode(0o600)
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	file, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	current := kubeconfig.Keep
	if c.Bool("switch") {
		current = kubeconfig.Switch
	}
	merged, err := access.Merge(file, current)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := cluster.WriteFile(path, merged.Data); err != nil {
		return err
	}
	if err := os.Chmod(path, mode); err != nil {
		return err
	}
	if merged.Rewritten {
		fmt.Fprintf(c.App.ErrWriter, "%s was not written in kubectl's style, and is now; its other entries mean what they did\n", path)
	}
	if current == kubeconfig.Keep {
		fmt.Fprintf(c.App.ErrWriter, "%s has the context %s now; use it with kubectl --context, or --switch to it\n", path, access.Context())
	}
	return nil
}

// lockKubeconfig locks the file against other programs as client-go does, with a file next to it.
func lockKubeconfig(path string) (release func(), err error) {
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_EXCL, 0)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { _ = errors.Join(lock.Close(), os.Remove(lock.Name())) }, nil
}
