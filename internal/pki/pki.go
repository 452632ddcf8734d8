// Package pki creates the certificates of a cluster's gateway: a certificate authority of the
// cluster's own, and server certificates for the loopback addresses, signed by it. No other
// software trusts that authority.
//
// Everything is PEM, for files and for any client. Keys are ECDSA on P-256, which take microseconds
// to create and use.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"time"
)

const (
	// authorityValidity is the same as kubeadm's.
	authorityValidity = 10 * 365 * 24 * time.Hour
	// serverValidity is below 825 days, the maximum that clients on some systems accept.
	serverValidity = 365 * 24 * time.Hour
	// backdate tolerates clocks that are a little behind.
	backdate = time.Hour
)

// Pair is a certificate and its private key, both PEM. The key is secret.
type Pair struct {
	Certificate []byte
	Key         []byte
}

// ErrInvalid means that a certificate fails [Pair.Verify].
var ErrInvalid = errors.New("pki: not a good certificate")

// Loopback returns the names and addresses of a server on the local machine.
func Loopback() []string { return []string{"127.0.0.1", "::1", "localhost"} }

// NewAuthority creates a certificate authority. The time now is wall time: clients check
// certificates against it, whatever a cluster's clock reads.
func NewAuthority(name string, now time.Time) (Pair, error) {
	template := newTemplate(name, now, authorityValidity)
	template.IsCA = true
	template.KeyUsage = x509.KeyUsageCertSign
	template.MaxPathLenZero = true // it signs servers, not authorities
	key, err := newKey()
	if err != nil {
		return Pair{}, fmt.Errorf("make an authority: %w", err)
	}
	return sign(template, template, key, key)
}

// IssueServer creates a server certificate for these host names and IP addresses, signed by the
// pair, which must be an authority's.
func (p Pair) IssueServer(name string, hosts []string, now time.Time) (Pair, error) {
	parent, err := p.parseCertificate()
	if err != nil {
		return Pair{}, fmt.Errorf("sign for %s: %w", name, err)
	}
	by, err := p.parseKey()
	if err != nil {
		return Pair{}, fmt.Errorf("sign for %s: %w", name, err)
	}
	template := newTemplate(name, now, serverValidity)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	key, err := newKey()
	if err != nil {
		return Pair{}, fmt.Errorf("sign for %s: %w", name, err)
	}
	return sign(template, parent, key, by)
}

// Verify returns why a server's pair cannot be used at now, or nil. The pair must be signed by this
// authority, cover all hosts, not be expired, and have a matching key.
func (p Pair) Verify(server Pair, hosts []string, now time.Time) error {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(p.Certificate) {
		return fmt.Errorf("%w: the authority is not a certificate", ErrInvalid)
	}
	leaf, err := server.parseCertificate()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	key, err := server.parseKey()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if !key.PublicKey.Equal(leaf.PublicKey) {
		return fmt.Errorf("%w: its key is another's", ErrInvalid)
	}
	for _, host := range hosts {
		if _, err := leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: roots, CurrentTime: now}); err != nil {
			return fmt.Errorf("%w: %w", ErrInvalid, err)
		}
	}
	return nil
}

// CheckAuthority returns why the authority cannot sign or be trusted at now, or nil.
func (p Pair) CheckAuthority(now time.Time) error {
	certificate, err := p.parseCertificate()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	key, err := p.parseKey()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	switch {
	case !certificate.IsCA || !key.PublicKey.Equal(certificate.PublicKey):
		return fmt.Errorf("%w: its key cannot sign for it", ErrInvalid)
	case now.After(certificate.NotAfter):
		return fmt.Errorf("%w: it has expired at %v", ErrInvalid, certificate.NotAfter)
	case now.Before(certificate.NotBefore):
		return fmt.Errorf("%w: it is good from %v on, and now is %v", ErrInvalid, certificate.NotBefore, now)
	}
	server, err := p.IssueServer("trial", Loopback(), now)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return p.Verify(server, Loopback(), now)
}

func newTemplate(name string, now time.Time, life time.Duration) *x509.Certificate {
	return &x509.Certificate{
		Subject:               pkix.Name{CommonName: name, Organization: []string{"podfall"}},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(life),
		BasicConstraintsValid: true,
	}
}

func newKey() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

// sign signs a certificate for a key; x509 draws the serial number.
func sign(template, parent *x509.Certificate, key, by *ecdsa.PrivateKey) (Pair, error) {
	certificate, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, by)
	if err != nil {
		return Pair{}, fmt.Errorf("sign for %s: %w", template.Subject.CommonName, err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Pair{}, fmt.Errorf("sign for %s: %w", template.Subject.CommonName, err)
	}
	return Pair{
		Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}),
		Key:         pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}),
	}, nil
}

var errUnreadable = errors.New("unreadable PEM")

func (p Pair) parseCertificate() (*x509.Certificate, error) {
	block, _ := pem.Decode(p.Certificate)
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, fmt.Errorf("certificate: %w", errUnreadable)
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("certificate: %w", err)
	}
	return certificate, nil
}

func (p Pair) parseKey() (*ecdsa.PrivateKey, error) {
	block, _ := pem.Decode(p.Key)
	if block == nil || block.Type != "PRIVATE KEY" {
		return nil, fmt.Errorf("key: %w", errUnreadable)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	signer, ok := key.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("key: %w: %T, want ECDSA", errUnreadable, key)
	}
	return signer, nil
}
