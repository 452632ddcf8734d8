package volumes

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"time"
)

// A volume made of objects changes all at once, as with upstream's kubelet, so that a program
// may watch the link:
//
//	..2026_01_02_15_04_05.0/    the files
//	..data -> ..2026_01_02_15_04_05.0
//	key    -> ..data/key
//
// If a kubelet is killed in between, the next write repairs the rest.
const (
	dataLink  = "..data"
	draftLink = "..data_tmp"
)

// replaceFiles makes files the content of dir, unless they are already.
func replaceFiles(dir *os.Root, files payload, now time.Time) error {
	current, err := dir.Readlink(dataLink)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if !strings.HasPrefix(current, "..") || strings.Contains(current, "/") {
		current = "" // none of ours
	}
	if is, err := readFiles(dir, current); current == "" || err != nil || !files.equal(is) {
		if current, err = writeAndSwap(dir, files, nextNumber(current), now); err != nil {
			return fmt.Errorf("write the volume's files: %w", err)
		}
	}
	return repairLinks(dir, files, current)
}

// readFiles returns the files below a directory.
func readFiles(dir *os.Root, below string) (payload, error) {
	files := payload{}
	err := fs.WalkDir(dir.FS(), below, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		data, err := dir.ReadFile(name)
		if err != nil {
			return err
		}
		files[strings.TrimPrefix(name, below+"/")] = file{data, info.Mode().Perm()}
		return nil
	})
	return files, err
}

// writeAndSwap writes the files to a new directory and points the link to it. It returns the
// directory's name.
func writeAndSwap(dir *os.Root, files payload, number int, now time.Time) (string, error) {
	fresh, err := makeStampedDir(dir, number, now)
	if err != nil {
		return "", err
	}
	for name, f := range files {
		at := path.Join(fresh, name)
		err := mkdirAll(dir, path.Dir(at), 0o755)
		if err == nil {
			err = dir.WriteFile(at, f.data, 0o600)
		}
		if err == nil {
			err = dir.Chmod(at, f.mode) // whatever the umask is
		}
		if err != nil {
			return "", err
		}
	}
	for top := range files.topNames() {
		if err := dir.Symlink(path.Join(dataLink, top), top); err != nil && !errors.Is(err, fs.ErrExist) {
			return "", err
		}
	}
	if err := dir.Remove(draftLink); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if err := dir.Symlink(fresh, draftLink); err != nil {
		return "", err
	}
	return fresh, dir.Rename(draftLink, dataLink)
}

// nextNumber returns the number after that of a directory, so that no new directory has the name of
// one that a reader may still use.
func nextNumber(current string) int {
	_, text, _ := strings.Cut(strings.TrimPrefix(current, ".."), ".")
	number, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return number + 1
}

// makeStampedDir creates a directory named after the time, and numbered.
func makeStampedDir(dir *os.Root, number int, now time.Time) (string, error) {
	for n := number; ; n++ {
		name := fmt.Sprintf("..%s.%d", now.UTC().Format("2006_01_02_15_04_05"), n)
		if err := dir.Mkdir(name, 0o755); !errors.Is(err, fs.ErrExist) {
			return name, errors.Join(err, dir.Chmod(name, 0o755))
		}
	}
}

// mkdirAll creates the missing directories of a path with the given mode, whatever the umask:
// programs may run as other users than the kubelet.
func mkdirAll(dir *os.Root, name string, mode fs.FileMode) error {
	if _, err := dir.Stat(name); name == "." || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := mkdirAll(dir, path.Dir(name), mode); err != nil {
		return err
	}
	if err := dir.Mkdir(name, mode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return dir.Chmod(name, mode)
}

// repairLinks creates missing links, and removes what no longer belongs.
func repairLinks(dir *os.Root, files payload, current string) error {
	entries, err := fs.ReadDir(dir.FS(), ".")
	if err != nil {
		return err
	}
	tops := files.topNames()
	var errs []error
	for _, entry := range entries {
		name := entry.Name()
		switch {
		case name == dataLink || name == current:
		case tops[name] && isDataLink(dir, name):
			delete(tops, name)
		case strings.HasPrefix(name, ".."):
			errs = append(errs, dir.RemoveAll(name))
		default:
			errs = append(errs, dir.Remove(name))
		}
	}
	for top := range tops {
		errs = append(errs, dir.Symlink(path.Join(dataLink, top), top))
	}
	return errors.Join(errs...)
}

// isDataLink reports whether a name is the link to the file of that name.
func isDataLink(dir *os.Root, name string) bool {
	to, err := dir.Readlink(name)
	return err == nil && to == path.Join(dataLink, name)
}
