package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// buildView creates the process's own view: its own processes in /proc, and its container's mounts.
// None of it is visible outside of the namespace. Nothing outside is written, except that a volume
// gets the directory on which another volume is mounted.
func (p Plan) buildView() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keep mounts to the namespace: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	v := view{plan: p, replaced: map[string]bool{}}
	mounts := slices.Clone(p.Mounts)
	slices.SortStableFunc(mounts, func(a, b Mount) int { return strings.Compare(a.Container, b.Container) })
	sources := make([]*os.File, len(mounts))
	for i, mount := range mounts { // before any mount covers it
		source, err := mount.cloneTree()
		if err != nil {
			return fmt.Errorf("mount %s: %w", mount.Container, err)
		}
		defer source.Close()
		sources[i] = source
	}
	for i, mount := range mounts {
		if err := v.bindMount(sources[i], mount); err != nil {
			return fmt.Errorf("mount %s: %w", mount.Container, err)
		}
	}
	return nil
}

// cloneTree returns a detached copy of the mount's source. Setuid programs and devices do not work
// in it.
func (m Mount) cloneTree() (*os.File, error) {
	original, err := openPath(m.Host, unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		return nil, err
	}
	defer original.Close()
	tree, err := unix.OpenTree(int(original.Fd()), "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH|unix.AT_RECURSIVE)
	if err != nil {
		return nil, err
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
	if m.ReadOnly {
		attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	err = unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr)
	return os.NewFile(uintptr(tree), m.Host), err
}

// openPath returns an O_PATH descriptor of a path.
func openPath(path string, resolve uint64) (*os.File, error) {
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: resolve})
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// fdPath returns the /proc path of a descriptor.
func fdPath(file *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", file.Fd()) }

// view is a file system under construction.
type view struct {
	plan Plan
	// mounted holds the mounts in place, replaced the directories covered by a tmpfs.
	mounted  []Mount
	replaced map[string]bool
}

// bindMount mounts a source at its mount point. A descriptor holds the mount point, so that a
// process that writes to a volume cannot replace it meanwhile.
func (v *view) bindMount(source *os.File, mount Mount) error {
	info, err := os.Stat(fdPath(source))
	if err != nil {
		return err
	}
	target := filepath.Clean(mount.Container)
	if _, err := os.Stat(target); errors.Is(err, fs.ErrNotExist) {
		err = v.makeMountPoint(target, info)
		if err != nil {
			return err
		}
	}
	at, err := openPath(target, 0)
	if err != nil {
		return err
	}
	defer at.Close()
	place, err := os.Readlink(fdPath(at))
	if err != nil {
		return err
	}
	if protected := v.plan.protectedAt(place); protected != "" {
		return fmt.Errorf("%w: it would hide %s", ErrProtected, protected)
	}
	v.mounted = append(v.mounted, mount)
	return unix.MoveMount(int(source.Fd()), "", int(at.Fd()), "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}

// ErrProtected is the error of a mount over a protected path.
var ErrProtected = errors.New("nothing may be mounted there")

// protectedAt returns a protected path that a mount at path would hide or reach into; empty if
// there is none.
func (p Plan) protectedAt(path string) string {
	for _, protected := range p.Protected {
		below, err := filepath.Rel(protected, path)
		if err == nil && filepath.IsLocal(below) {
			return protected
		}
		above, err := filepath.Rel(path, protected)
		if err == nil && filepath.IsLocal(above) {
			return protected
		}
	}
	return ""
}

// makeMountPoint creates a mount point. It lies in the volume that covers its path, or else in a
// tmpfs of this namespace that replaces the machine's directory.
func (v *view) makeMountPoint(target string, like fs.FileInfo) error {
	for _, volume := range slices.Backward(v.mounted) {
		inside, err := filepath.Rel(filepath.Clean(volume.Container), target)
		if err == nil && filepath.IsLocal(inside) {
			return createEntry(volume.Container, inside, like)
		}
	}
	parent := filepath.Dir(target)
	for parent != "/" {
		if info, err := os.Stat(parent); err == nil && info.IsDir() {
			break
		}
		parent = filepath.Dir(parent)
	}
	if !v.replaced[parent] {
		if err := v.coverWithTmpfs(parent); err != nil {
			return fmt.Errorf("replace %s: %w", parent, err)
		}
		v.replaced[parent] = true
	}
	inside, err := filepath.Rel(parent, target)
	if err != nil {
		return err
	}
	return createEntry(parent, inside, like)
}

// createEntry creates a directory or an empty file below dir, of the same kind as the mount's
// source. It follows no link out of dir.
func createEntry(dir, inside string, like fs.FileInfo) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if like.IsDir() {
		return root.MkdirAll(inside, 0o755)
	}
	if err := root.MkdirAll(filepath.Dir(inside), 0o755); err != nil {
		return err
	}
	file, err := root.OpenFile(inside, os.O_CREATE|os.O_RDONLY, 0o644)
	if err != nil {
		return err
	}
	return file.Close()
}

// coverWithTmpfs covers a directory with a tmpfs that shows the same entries, to which entries can
// be added. The root directory cannot be covered; a new root replaces it.
func (v *view) coverWithTmpfs(dir string) error {
	original, err := openPath(dir, 0)
	if err != nil {
		return err
	}
	defer original.Close()
	info, err := original.Stat()
	if err != nil {
		return err
	}
	cover := dir
	if dir == "/" {
		cover = v.plan.Root
	}
	if err := unix.Mount("tmpfs", cover, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755"); err != nil {
		return err
	}
	if err := os.Chmod(cover, info.Mode()&(fs.ModePerm|fs.ModeSticky)); err != nil {
		return err
	}
	entries, err := os.ReadDir(fdPath(original))
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if err := bindEntry(filepath.Join(fdPath(original), entry.Name()), filepath.Join(cover, entry.Name()), entry); err != nil {
			return err
		}
	}
	if dir != "/" {
		return nil
	}
	return pivotRoot(cover)
}

// bindEntry shows a directory entry in another directory.
func bindEntry(from, to string, entry fs.DirEntry) error {
	switch {
	case entry.Type() == fs.ModeSymlink:
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return os.Symlink(target, to)
	case entry.IsDir():
		if err := os.Mkdir(to, 0o755); err != nil {
			return err
		}
	default:
		file, err := os.OpenFile(to, os.O_CREATE|os.O_RDONLY, 0o644)
		if err != nil {
			return err
		}
		file.Close()
	}
	return unix.Mount(from, to, "", unix.MS_BIND|unix.MS_REC, "")
}

// pivotRoot makes a directory the root and detaches the old root.
func pivotRoot(root string) error {
	if err := os.Chdir(root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return err
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return err
	}
	return os.Chdir("/")
}
