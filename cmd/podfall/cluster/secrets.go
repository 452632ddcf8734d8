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

// The files of the gateway's secrets, named as in a TLS Secret.
const (
	authorityCertificate = "ca.crt"
	authorityKey         = "ca.key"
	serverCertificate    = "tls.crt"
	serverKey            = "tls.key"
	tokenFile            = "token"
)

// GatewaySecrets are the gateway's certificate and token.
type GatewaySecrets struct {
	// Server is the gateway's certificate, for loopback only.
	Server pki.Pair
	// Token authenticates clients.
	Token string
}

// ErrExposed means that other users may read or replace a secret.
var ErrExposed = errors.New("open to other users")

// MakeGatewaySecrets creates the gateway's secrets, and replaces those that are not valid at now. A
// new certificate is signed by the same authority as long as that is valid, so that kubeconfigs
// stay valid.
func (l Layout) MakeGatewaySecrets(now time.Time) error {
	dir := l.gatewayDir()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	authority, err := readPair(dir, authorityCertificate, authorityKey)
	if err != nil {
		return err
	}
	if authority.CheckAuthority(now) != nil {
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
	if authority.Verify(server, pki.Loopback(), now) != nil {
		if server, err = authority.IssueServer("podfall gateway", pki.Loopback(), now); err != nil {
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

// ReadGatewaySecrets reads the gateway's secrets. It fails with [ErrExposed] if other users may
// read them.
func ReadGatewaySecrets(dir string) (GatewaySecrets, error) {
	var secrets GatewaySecrets
	var err error
	if secrets.Server, err = readPair(dir, serverCertificate, serverKey); err != nil {
		return secrets, err
	}
	token, err := readSecret(dir, tokenFile)
	if err != nil {
		return secrets, err
	}
	secrets.Token = strings.TrimSpace(string(token))
	if len(secrets.Server.Certificate) == 0 || len(secrets.Server.Key) == 0 || secrets.Token == "" {
		return secrets, fmt.Errorf("%s: want %s, %s and %s in it", dir, serverCertificate, serverKey, tokenFile)
	}
	return secrets, nil
}

// Access returns how clients reach the gateway. It fails if the gateway has not published its
// address yet.
func (l Layout) Access(options Options) (kubeconfig.Access, error) {
	access := kubeconfig.Access{Cluster: options.Name}
	var err error
	if access.URL, err = readURL(l.gatewayAddress()); err != nil {
		return access, err
	}
	if access.Authority, err = readSecret(l.gatewayDir(), authorityCertificate); err != nil {
		return access, err
	}
	token, err := readSecret(l.gatewayDir(), tokenFile)
	access.Token = strings.TrimSpace(string(token))
	return access, err
}

// WriteKubeconfig writes the cluster's own kubeconfig, readable by its owner only.
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

// writePair writes the key first. A certificate without its key is invalid, and then both are made
// again.
func writePair(dir, certificate, key string, pair pki.Pair) error {
	return errors.Join(
		WriteFile(filepath.Join(dir, key), pair.Key),
		WriteFile(filepath.Join(dir, certificate), pair.Certificate),
	)
}

// readSecret reads a file that only its owner may read; nil if it does not exist.
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
