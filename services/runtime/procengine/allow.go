package procengine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Allowance is which programs may be run: files and directories, as absolute paths
// without symbolic links. A directory allows everything below it. The empty Allowance
// allows nothing: what a manifest asks for is somebody else's wish.
type Allowance struct {
	paths []string
	// named are the paths as they were given, whose last link is not followed.
	named []string
}

// NewAllowance resolves paths; each must exist.
func NewAllowance(paths []string) (Allowance, error) {
	var a Allowance
	for _, path := range paths {
		absolute, err := filepath.Abs(path)
		if err == nil {
			absolute, err = filepath.EvalSymlinks(absolute)
		}
		if err != nil {
			return Allowance{}, fmt.Errorf("allowed program %q: %w", path, err)
		}
		a.paths = append(a.paths, absolute)
		named, err := unfollowed(path)
		if err != nil {
			return Allowance{}, fmt.Errorf("allowed program %q: %w", path, err)
		}
		a.named = append(a.named, named)
	}
	return a, nil
}

// unfollowed is a path without symbolic links, but for its last element, which stays what it
// is.
func unfollowed(path string) (string, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(absolute))
	return filepath.Join(dir, filepath.Base(absolute)), err
}

// Paths are the files and directories that are allowed.
func (a Allowance) Paths() []string { return slices.Clone(a.paths) }

// ErrNotAllowed is the cause of every refused program.
var ErrNotAllowed = errors.New("not allowed")

// Program is the path of a program that may be run. A name without a slash is looked for
// among what is allowed: by the name of a file, and directly in a directory. A link is
// allowed where it lies, before it is followed, and where it leads: what is elsewhere can
// neither become a program that is allowed, nor is it told whether it exists. A program that
// would run with another user's rights is refused.
func (a Allowance) Program(name string) (string, error) {
	path, err := a.find(name)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "", fmt.Errorf("program %q: %w", name, err)
	case !info.Mode().IsRegular() || info.Mode()&0o111 == 0:
		return "", fmt.Errorf("program %q: %w", name, fs.ErrPermission)
	case info.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0:
		return "", fmt.Errorf("program %q is %w: it would run with its owner's rights (setuid)", name, ErrNotAllowed)
	}
	return path, nil
}

func (a Allowance) find(name string) (string, error) {
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			return "", fmt.Errorf("program %q: want an absolute path, or a name without a slash", name)
		}
		dir, base := filepath.Split(name) // not cleaned: what .. means depends on the links before it
		dir, err := filepath.EvalSymlinks(dir)
		lies := filepath.Join(dir, base)
		if err != nil || base == "" || base == "." || base == ".." || !a.covers(lies) && !slices.Contains(a.named, lies) {
			return "", a.refusal(name, filepath.Clean(name))
		}
		path, err := filepath.EvalSymlinks(lies)
		if err == nil && !a.covers(path) {
			err = a.refusal(name, path)
		}
		return path, err
	}
	for i, allowed := range a.paths {
		if (filepath.Base(allowed) == name || filepath.Base(a.named[i]) == name) && !isDirectory(allowed) {
			return allowed, nil
		}
		path, err := filepath.EvalSymlinks(filepath.Join(allowed, name))
		if err == nil && a.covers(path) {
			return path, nil
		}
	}
	return "", a.refusal(name, name)
}

func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// Directory is the path, without symbolic links, of a directory in which a program may
// be started: one that is allowed itself, or lies in one.
func (a Allowance) Directory(name string) (string, error) {
	if !filepath.IsAbs(name) {
		return "", fmt.Errorf("directory %q: want an absolute path", name)
	}
	path, err := filepath.EvalSymlinks(name)
	switch {
	case err != nil:
		return "", fmt.Errorf("directory %q: %w", name, err)
	case !a.covers(path):
		return "", a.refusal(name, path)
	}
	return path, nil
}

// covers reports whether a path without symbolic links is allowed.
func (a Allowance) covers(path string) bool {
	for _, allowed := range a.paths {
		inside, err := filepath.Rel(allowed, path)
		if err == nil && filepath.IsLocal(inside) {
			return true
		}
	}
	return false
}

func (a Allowance) refusal(name, path string) error {
	if len(a.paths) == 0 {
		return fmt.Errorf("program %q is %w: podfall runs no program of a manifest unless --allow-exec names it or its directory", name, ErrNotAllowed)
	}
	return fmt.Errorf("program %q is %w: start podfall with --allow-exec %s as well; allowed now: %s",
		name, ErrNotAllowed, path, strings.Join(a.paths, ", "))
}
