package cluster

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/podfall/podfall/internal/kubeconfig"
	"github.com/podfall/podfall/internal/pki"
)

// The files of the gateway's secrets, named as Kubernetes names them in a TLS Secret.
const (
	authorityCertificate = "ca.crt"
	authorityKey         = "ca.key"
	serverCertificate    = "tls.crt"
	serverKey            = "tls.key"
	tokenFile            = "token"
)

// Door is what the gateway shows its clients, and what it wants to be shown.
type Door struct {
	// Server is the gateway's certificate, for loopback only.
	Server pki.Pair
	// Token is what clients authenticate themselves with.
	Token string
}

// ErrExposed means that other users may read or replace a secret.
var ErrExposed = errors.New("open to other users")

// MakeDoor makes the gateway's secrets, and what of them cannot be used at the time now
// again: a certificate that has expired is replaced, and signed by the same authority
// while that is good, so that a kubeconfig stays good too.
func (l Layout) MakeDoor(now time.Time) error {
	dir := l.door()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	authority, err := readPair(dir, authorityCertificate, authorityKey)
	if err != nil {
		return err
	}
	if authority.Good(now) != nil {
		if authority, err = pki.NewAuthority("podfall", now); err != nil {
			return err
		}
		if err := writePair(dir, authorityCertificate, authorityKey, authority); err != nil {
			return err
		}
	}
	server, err := readPair(dir, serverCertificate, serverKey)
	if err != nil {
		return err
	}
	if authority.Check(server, pki.Loopback(), now) != nil {
		if server, err = authority.Server("podfall gateway", pki.Loopback(), now); err != nil {
			return err
		}
		if err := writePair(dir, serverCertificate, serverKey, server); err != nil {
			return err
		}
	}
	switch token, err := readSecret(dir, tokenFile); {
	case err != nil:
		return err
	case len(bytes.TrimSpace(token)) == 0:
		return WriteFile(filepath.Join(dir, tokenFile), []byte(rand.Text()+rand.Text()+"\n"))
	}
	return nil
}

// ReadDoor reads the gateway's secrets, and refuses them with [ErrExposed] when others
// than their owner may read them.
func ReadDoor(dir string) (Door, error) {
	var door Door
	var err error
	if door.Server, err = readPair(dir, serverCertificate, serverKey); err != nil {
		return door, err
	}
	token, err := readSecret(dir, tokenFile)
	if err != nil {
		return door, err
	}
	door.Token = strings.TrimSpace(string(token))
	if len(door.Server.Certificate) == 0 || len(door.Server.Key) == 0 || door.Token == "" {
		return door, fmt.Errorf("%s: want %s, %s and %s in it", dir, serverCertificate, serverKey, tokenFile)
	}
	return door, nil
}

// Access is how clients reach the gateway; an error when it has not said where yet.
func (l Layout) Access(options Options) (kubeconfig.Access, error) {
	access := kubeconfig.Access{Cluster: options.Name}
	var err error
	if access.URL, err = readURL(l.gatewayAddress()); err != nil {
		return access, err
	}
	if access.Authority, err = readSecret(l.door(), authorityCertificate); err != nil {
		return access, err
	}
	token, err := readSecret(l.door(), tokenFile)
	access.Token = strings.TrimSpace(string(token))
	return access, err
}

// WriteKubeconfig writes the cluster's own kubeconfig, for its owner alone.
func (l Layout) WriteKubeconfig(options Options) error {
	access, err := l.Access(options)
	if err != nil {
		return err
	}
	data, err := access.File()
	if err != nil {
		return err
	}
	return WriteFile(l.Kubeconfig(), data)
}

func readPair(dir, certificate, key string) (pki.Pair, error) {
	var pair pki.Pair
	var err error
	if pair.Certificate, err = readSecret(dir, certificate); err != nil {
		return pair, err
	}
	pair.Key, err = readSecret(dir, key)
	return pair, err
}

// writePair writes the key first: a certificate without its key is not good, and both
// are made again.
func writePair(dir, certificate, key string, pair pki.Pair) error {
	return errors.Join(
		WriteFile(filepath.Join(dir, key), pair.Key),
		WriteFile(filepath.Join(dir, certificate), pair.Certificate),
	)
}

// readSecret is a file that only its owner can read; nothing when it is not there.
func readSecret(dir, name string) ([]byte, error) {
	path := filepath.Join(dir, name)
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("%s is %w: it has mode %v, want a file with 0600", path, ErrExposed, info.Mode())
	}
	return os.ReadFile(path)
}
