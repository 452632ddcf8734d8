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

// Allowlist holds the programs that may be run: files and directories, as absolute paths without
// symbolic links. A directory allows everything below it. The empty Allowlist allows nothing,
// because manifests are untrusted.
type Allowlist struct {
	paths []string
	// given holds the paths as configured, with their last link not followed.
	given []string
}

// NewAllowlist resolves paths; each must exist.
func NewAllowlist(paths []string) (Allowlist, error) {
	var a Allowlist
	for _, path := range paths {
		absolute, err := filepath.Abs(path)
		if err == nil {
			absolute, err = filepath.EvalSymlinks(absolute)
		}
		if err != nil {
			return Allowlist{}, fmt.Errorf("allowed program %q: %w", path, err)
		}
		a.paths = append(a.paths, absolute)
		named, err := resolveParent(path)
		if err != nil {
			return Allowlist{}, fmt.Errorf("allowed program %q: %w", path, err)
		}
		a.given = append(a.given, named)
	}
	return a, nil
}

// resolveParent resolves the symbolic links of a path except those of its last element.
func resolveParent(path string) (string, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(absolute))
	return filepath.Join(dir, filepath.Base(absolute)), err
}

// Paths returns the allowed files and directories.
func (a Allowlist) Paths() []string { return slices.Clone(a.paths) }

// Given returns the paths as configured. A process that is started with them has the same Allowlist:
// unlike those of Paths, they keep the links that may be named.
func (a Allowlist) Given() []string { return slices.Clone(a.given) }

// ErrNotAllowed is the cause of every refused program.
var ErrNotAllowed = errors.New("not allowed")

// ResolveProgram returns the path of an allowed program. A name without a slash is looked up among
// the allowed files, and directly in allowed directories. A link must be allowed both where it is
// and where it points. So no path elsewhere can become an allowed program or reveal whether it
// exists. Setuid and setgid programs are refused.
func (a Allowlist) ResolveProgram(name string) (string, error) {
	path, err := a.findProgram(name)
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

func (a Allowlist) findProgram(name string) (string, error) {
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			return "", fmt.Errorf("program %q: want an absolute path, or a name without a slash", name)
		}
		dir, base := filepath.Split(name) // not cleaned: the meaning of .. depends on the links before it
		dir, err := filepath.EvalSymlinks(dir)
		lies := filepath.Join(dir, base)
		if err != nil || base == "" || base == "." || base == ".." || !a.covers(lies) && !slices.Contains(a.given, lies) {
			return "", a.notAllowedError(name, filepath.Clean(name))
		}
		path, err := filepath.EvalSymlinks(lies)
		if err == nil && !a.covers(path) {
			err = a.notAllowedError(name, path)
		}
		return path, err
	}
	for i, allowed := range a.paths {
		if (filepath.Base(allowed) == name || filepath.Base(a.given[i]) == name) && !isDirectory(allowed) {
			return allowed, nil
		}
		path, err := filepath.EvalSymlinks(filepath.Join(allowed, name))
		if err == nil && a.covers(path) {
			return path, nil
		}
	}
	return "", a.notAllowedError(name, name)
}

func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// ResolveDirectory returns the path, without symbolic links, of an allowed working directory: an
// allowed directory or one below it.
func (a Allowlist) ResolveDirectory(name string) (string, error) {
	if !filepath.IsAbs(name) {
		return "", fmt.Errorf("directory %q: want an absolute path", name)
	}
	path, err := filepath.EvalSymlinks(name)
	switch {
	case err != nil:
		return "", fmt.Errorf("directory %q: %w", name, err)
	case !a.covers(path):
		return "", a.notAllowedError(name, path)
	}
	return path, nil
}

// covers reports whether a path without symbolic links is allowed.
func (a Allowlist) covers(path string) bool {
	for _, allowed := range a.paths {
		inside, err := filepath.Rel(allowed, path)
		if err == nil && filepath.IsLocal(inside) {
			return true
		}
	}
	return false
}

func (a Allowlist) notAllowedError(name, path string) error {
	if len(a.paths) == 0 {
		return fmt.Errorf("program %q is %w: podfall runs no program of a manifest unless --allow-exec names it or its directory", name, ErrNotAllowed)
	}
	return fmt.Errorf("program %q is %w: start podfall with --allow-exec %s as well; allowed now: %s",
		name, ErrNotAllowed, path, strings.Join(a.paths, ", "))
}
