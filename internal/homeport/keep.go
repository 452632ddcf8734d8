package homeport

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
)

// Keep has the ports that file names in its URLs stay with whoever reads them there when he
// comes back: while he is away, [Listen] and [Free] give them to nobody of this user. They do
// so for as long as the file names them. Ports that are no home ports are nobody's to keep.
func Keep(file string) error {
	file, err := filepath.Abs(file)
	if err != nil {
		return fmt.Errorf("keep ports: %w", err)
	}
	if err := noted().keep(file); err != nil {
		return fmt.Errorf("keep ports: %w", err)
	}
	return nil
}

// notes is a directory of symbolic links to the files whose ports are kept: a port that no file
// names any more, or whose file is gone, is free without more ado.
type notes string

// noted is where this user's processes note their files.
func noted() notes {
	return notes(filepath.Join(os.TempDir(), "podfall-ports-"+strconv.Itoa(os.Getuid())))
}

// errOthers is the cause when others could lead those who read the notes astray.
var errOthers = errors.New("not a directory of this user's alone")

// check is an error unless the directory is this user's, and nobody else may use it.
func (n notes) check() error {
	info, err := os.Lstat(string(n))
	if err != nil {
		return err
	}
	stat, is := info.Sys().(*syscall.Stat_t)
	if !is || int(stat.Uid) != os.Getuid() || !info.IsDir() || info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("%s: %w", n, errOthers)
	}
	return nil
}

// keep notes a file that names home ports, and forgets those that are gone.
func (n notes) keep(file string) error {
	text, err := os.ReadFile(file)
	if err != nil || len(homesIn(text)) == 0 {
		return err
	}
	if err := errors.Join(os.MkdirAll(string(n), 0o700), n.check()); err != nil {
		return err
	}
	links, err := n.links()
	if err != nil {
		return err
	}
	for _, link := range links {
		if _, err := os.Stat(link); errors.Is(err, fs.ErrNotExist) {
			_ = os.Remove(link) // whoever was faster has done it
		}
	}
	name := sha256.Sum256([]byte(file))
	if err := os.Symlink(file, filepath.Join(string(n), hex.EncodeToString(name[:8]))); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

func (n notes) links() ([]string, error) {
	entries, err := os.ReadDir(string(n))
	links := make([]string, 0, len(entries))
	for _, entry := range entries {
		links = append(links, filepath.Join(string(n), entry.Name()))
	}
	return links, err
}

// kept are the ports to which somebody may come back; none where that cannot be told.
func (n notes) kept() map[int]bool {
	if n.check() != nil {
		return nil
	}
	kept := map[int]bool{}
	links, _ := n.links()
	for _, link := range links {
		text, _ := os.ReadFile(link)
		for _, port := range homesIn(text) {
			kept[port] = true
		}
	}
	return kept
}

// named is a port in a URL.
var named = regexp.MustCompile(`:(\d+)`)

// homesIn are the home ports that text names.
func homesIn(text []byte) []int {
	var ports []int
	for _, match := range named.FindAllSubmatch(text, -1) {
		if port, err := strconv.Atoi(string(match[1])); err == nil && port >= first && port <= last {
			ports = append(ports, port)
		}
	}
	return ports
}
