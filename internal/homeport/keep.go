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

// Reserve reserves the home ports in the URLs of file for the process that uses them. While that
// process is not running, [Listen] and [Free] give the ports to no other process of this user, as
// long as the file names them. Other ports cannot be reserved.
func Reserve(file string) error {
	file, err := filepath.Abs(file)
	if err != nil {
		return fmt.Errorf("keep ports: %w", err)
	}
	if err := userReservations().add(file); err != nil {
		return fmt.Errorf("keep ports: %w", err)
	}
	return nil
}

// reservations is a directory of symbolic links to the files whose ports are reserved. A port is
// free once its file is gone or no longer names the port.
type reservations string

// userReservations returns the reservations of this user.
func userReservations() reservations {
	return reservations(filepath.Join(os.TempDir(), "podfall-ports-"+strconv.Itoa(os.Getuid())))
}

// errNotPrivate means that other users could manipulate the reservations.
var errNotPrivate = errors.New("not a directory of this user's alone")

// check returns an error unless the directory is accessible to this user only.
func (n reservations) check() error {
	info, err := os.Lstat(string(n))
	if err != nil {
		return err
	}
	stat, is := info.Sys().(*syscall.Stat_t)
	if !is || int(stat.Uid) != os.Getuid() || !info.IsDir() || info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("%s: %w", n, errNotPrivate)
	}
	return nil
}

// add reserves the home ports of a file, and removes reservations of deleted files.
func (n reservations) add(file string) error {
	text, err := os.ReadFile(file)
	if err != nil || len(findHomePorts(text)) == 0 {
		return err
	}
	if err := errors.Join(os.MkdirAll(string(n), 0o700), n.check()); err != nil {
		return err
	}
	links, err := n.list()
	if err != nil {
		return err
	}
	for _, link := range links {
		if _, err := os.Stat(link); errors.Is(err, fs.ErrNotExist) {
			_ = os.Remove(link) // another process may have removed it already
		}
	}
	name := sha256.Sum256([]byte(file))
	if err := os.Symlink(file, filepath.Join(string(n), hex.EncodeToString(name[:8]))); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

func (n reservations) list() ([]string, error) {
	entries, err := os.ReadDir(string(n))
	links := make([]string, 0, len(entries))
	for _, entry := range entries {
		links = append(links, filepath.Join(string(n), entry.Name()))
	}
	return links, err
}

// ports returns the reserved ports; none if they cannot be read.
func (n reservations) ports() map[int]bool {
	if n.check() != nil {
		return nil
	}
	kept := map[int]bool{}
	links, _ := n.list()
	for _, link := range links {
		text, _ := os.ReadFile(link)
		for _, port := range findHomePorts(text) {
			kept[port] = true
		}
	}
	return kept
}

// urlPort matches a port in a URL.
var urlPort = regexp.MustCompile(`:(\d+)`)

// findHomePorts returns the home ports in text.
func findHomePorts(text []byte) []int {
	var ports []int
	for _, match := range urlPort.FindAllSubmatch(text, -1) {
		if port, err := strconv.Atoi(string(match[1])); err == nil && port >= firstPort && port <= lastPort {
			ports = append(ports, port)
		}
	}
	return ports
}
