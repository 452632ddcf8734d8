package kubelet

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/podfall/podfall/services/kubelet/cgroup"
	"github.com/podfall/podfall/services/kubelet/objects"
	"github.com/podfall/podfall/services/kubelet/volumes"
)

// stores are what a kubelet keeps on disk, and the copies of objects that its pods refer to.
type stores struct {
	root     *os.Root
	volumes  *volumes.Manager
	cgroups  *cgroup.Manager
	objects  *objects.Cache
	removals *removals
	// storage and hostPaths are directories outside the node's own; hostPaths may be nil.
	storage, hostPaths *os.Root
}

// objectPatience is how long a container's environment waits for the first list of an object
// (upstream's).
const objectPatience = time.Second

// openStores opens the directories, and creates those that belong to the cluster.
func (p *parts) openStores() (s stores, err error) {
	cfg := p.cfg
	if s.root, err = openRoot(cfg.DataDir); err != nil {
		return s, err
	}
	if s.storage, err = openRoot(cmp.Or(cfg.Machine.Storage, filepath.Join(cfg.DataDir, "storage"))); err != nil {
		return s, err
	}
	if cfg.Machine.HostPathRoot != "" {
		if s.hostPaths, err = os.OpenRoot(cfg.Machine.HostPathRoot); err != nil {
			return s, err
		}
	}
	s.removals = &removals{busy: map[string]bool{}}
	if s.objects, err = objects.New(objects.Config{API: p.api, Clock: cfg.Clock, Patience: objectPatience}); err != nil {
		return s, err
	}
	s.volumes, err = volumes.New(volumes.Config{
		Root: s.root, Storage: s.storage, HostPaths: s.hostPaths, Node: cfg.Node, Allocatable: p.capacity,
		API: p.api, Objects: s.objects, Events: p.recorder,
		Clock: cfg.Clock, Timing: cfg.Timing.Volumes, Faults: cfg.Machine.Faults, Log: cfg.Log,
	})
	if err != nil {
		return s, err
	}
	s.cgroups, err = cgroup.New(s.root, cfg.Machine.Faults)
	return s, err
}

// openRoot opens a directory by its absolute path, because files in it refer to others by absolute
// paths. It creates the directory if it does not exist.
func openRoot(dir string) (*os.Root, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return os.OpenRoot(dir)
}

// close closes the directories.
func (s stores) close() error {
	var errs []error
	for _, root := range []*os.Root{s.root, s.storage, s.hostPaths} {
		if root != nil {
			errs = append(errs, root.Close())
		}
	}
	return errors.Join(errs...)
}

// removals are the removals that housekeeping has under way. A slow removal does not delay others.
type removals struct {
	group sync.WaitGroup

	mu   sync.Mutex
	busy map[string]bool
}

// start begins a removal, unless an earlier one of that name still runs.
func (s *removals) start(ctx context.Context, name string, remove func(context.Context)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy[name] {
		return
	}
	s.busy[name] = true
	s.group.Go(func() {
		remove(ctx)
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.busy, name)
	})
}

// wait returns when no removal runs. No removal may be started by then.
func (s *removals) wait() { s.group.Wait() }
