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

// mount makes the process's own view: its own processes in /proc, and what its container
// has mounted. Nothing of it is seen outside of the namespace, and nothing outside is
// written to, except that a volume gets the directory on which another is mounted in it.
func (p Plan) mount() error {
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
	for i, mount := range mounts { // before anything covers it
		source, err := mount.source()
		if err != nil {
			return fmt.Errorf("mount %s: %w", mount.Container, err)
		}
		defer source.Close()
		sources[i] = source
	}
	for i, mount := range mounts {
		if err := v.bind(sources[i], mount); err != nil {
			return fmt.Errorf("mount %s: %w", mount.Container, err)
		}
	}
	return nil
}

// source is a copy of what is to be mounted that is mounted nowhere yet, in which neither
// setuid programs nor devices work.
func (m Mount) source() (*os.File, error) {
	original, err := openat2(m.Host, unix.RESOLVE_NO_SYMLINKS)
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

// openat2 is a descriptor that only says where something is.
func openat2(path string, resolve uint64) (*os.File, error) {
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: resolve})
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// link is a path of what a descriptor says.
func link(file *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", file.Fd()) }

// view is a file system that is being put together.
type view struct {
	plan Plan
	// mounted are the mounts that are in place, replaced the directories that are ours.
	mounted  []Mount
	replaced map[string]bool
}

// bind mounts a source where its mount says. A descriptor holds that place, so that
// nobody who writes to a volume meanwhile can make another one of it.
func (v *view) bind(source *os.File, mount Mount) error {
	info, err := os.Stat(link(source))
	if err != nil {
		return err
	}
	target := filepath.Clean(mount.Container)
	if _, err := os.Stat(target); errors.Is(err, fs.ErrNotExist) {
		err = v.provide(target, info)
		if err != nil {
			return err
		}
	}
	at, err := openat2(target, 0)
	if err != nil {
		return err
	}
	defer at.Close()
	place, err := os.Readlink(link(at))
	if err != nil {
		return err
	}
	if protected := v.plan.hides(place); protected != "" {
		return fmt.Errorf("%w: it would hide %s", ErrProtected, protected)
	}
	v.mounted = append(v.mounted, mount)
	return unix.MoveMount(int(source.Fd()), "", int(at.Fd()), "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}

// ErrProtected refuses a mount.
var ErrProtected = errors.New("nothing may be mounted there")

// hides is which of the protected paths a mount at a path would hide, or reach into; empty
// when none.
func (p Plan) hides(path string) string {
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

// provide makes the mount point of a mount: in the volume that covers its path, or else in
// a directory of this namespace alone, which takes the place of the machine's.
func (v *view) provide(target string, like fs.FileInfo) error {
	for _, volume := range slices.Backward(v.mounted) {
		inside, err := filepath.Rel(filepath.Clean(volume.Container), target)
		if err == nil && filepath.IsLocal(inside) {
			return create(volume.Container, inside, like)
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
		if err := v.replace(parent); err != nil {
			return fmt.Errorf("replace %s: %w", parent, err)
		}
		v.replaced[parent] = true
	}
	inside, err := filepath.Rel(parent, target)
	if err != nil {
		return err
	}
	return create(parent, inside, like)
}

// create makes a directory or an empty file, like what is to be mounted on it, below a directory, and leaves it by no link.
func create(dir, inside string, like fs.FileInfo) error {
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

// replace covers a directory with one in memory that shows the same, to which entries can
// be added. The root of all cannot be covered; another one takes its place.
func (v *view) replace(dir string) error {
	original, err := openat2(dir, 0)
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
	entries, err := os.ReadDir(link(original))
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if err := show(filepath.Join(link(original), entry.Name()), filepath.Join(cover, entry.Name()), entry); err != nil {
			return err
		}
	}
	if dir != "/" {
		return nil
	}
	return enter(cover)
}

// show makes an entry of a directory visible in another one.
func show(from, to string, entry fs.DirEntry) error {
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

// enter makes a directory the root, and lets the former one go.
func enter(root string) error {
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
