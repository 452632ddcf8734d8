package homeport

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
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

// notes is a directory in which a port that is kept has a symbolic link of its name, to the
// file that names it: what a file no longer names, or that is gone, is free without more ado.
type notes string

// noted is where this user's processes note their ports.
func noted() notes {
	return notes(filepath.Join(os.TempDir(), "podfall-ports-"+strconv.Itoa(os.Getuid())))
}

func (n notes) keep(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	ports := homesIn(string(text))
	if len(ports) == 0 {
		return nil
	}
	if err := os.MkdirAll(string(n), 0o700); err != nil {
		return err
	}
	n.sweep()
	for _, port := range ports {
		if err := n.note(port, file); err != nil {
			return err
		}
	}
	return nil
}

// named is a port in a URL.
var named = regexp.MustCompile(`:(\d+)`)

// homesIn are the home ports that text names.
func homesIn(text string) []int {
	var ports []int
	for _, match := range named.FindAllStringSubmatch(text, -1) {
		if port, err := strconv.Atoi(match[1]); err == nil && port >= first && port <= last {
			ports = append(ports, port)
		}
	}
	return ports
}

// note replaces what was noted of port: who listens there has it.
func (n notes) note(port int, file string) error {
	at := n.of(port)
	if err := os.Remove(at); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Symlink(file, at); err != nil && !errors.Is(err, syscall.EEXIST) {
		return err
	}
	return nil
}

// sweep removes what was noted for files that are gone.
func (n notes) sweep() {
	links, _ := os.ReadDir(string(n)) // one that cannot be read can be noted in all the same
	for _, link := range links {
		at := filepath.Join(string(n), link.Name())
		if _, err := os.Stat(at); errors.Is(err, fs.ErrNotExist) {
			_ = os.Remove(at)
		}
	}
}

// kept is whether somebody may come back to port.
func (n notes) kept(port int) bool {
	text, err := os.ReadFile(n.of(port))
	return err == nil && slices.Contains(homesIn(string(text)), port)
}

func (n notes) of(port int) string { return filepath.Join(string(n), strconv.Itoa(port)) }
