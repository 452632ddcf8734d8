package pki_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/podfall/podfall/internal/pki"
)

const year = 365 * 24 * time.Hour

func made(t *testing.T, now time.Time) (authority, server pki.Pair) {
	t.Helper()
	authority, err := pki.NewAuthority("podfall", now)
	if err != nil {
		t.Fatal(err)
	}
	if server, err = authority.IssueServer("gateway", pki.Loopback(), now); err != nil {
		t.Fatal(err)
	}
	return authority, server
}

// TestAClientTrustsIt shakes hands as a client that knows the authority and as one that
// does not.
func TestAClientTrustsIt(t *testing.T) {
	authority, server := made(t, time.Now())
	certificate, err := tls.X509KeyPair(server.Certificate, server.Key)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate}})
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, conn) // shakes hands, and ends with the client
			_ = conn.Close()
		}
	})
	defer serving.Wait()
	defer listener.Close()
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(authority.Certificate)
	for _, row := range []struct {
		host  string
		roots *x509.CertPool
		good  bool
	}{
		{"127.0.0.1", trusted, true},
		{"::1", trusted, true},
		{"localhost", trusted, true},
		{"podfall.example", trusted, false},
		{"10.0.0.1", trusted, false},
		{"localhost", x509.NewCertPool(), false},
	} {
		dialer := tls.Dialer{Config: &tls.Config{RootCAs: row.roots, ServerName: row.host}}
		conn, err := dialer.DialContext(t.Context(), "tcp", listener.Addr().String())
		if (err == nil) != row.good {
			t.Errorf("handshake for %s: %v", row.host, err)
		}
		if err == nil {
			_ = conn.Close()
		}
	}
}

func TestCheck(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	authority, server := made(t, now)
	strange, stranger := made(t, now)
	for name, row := range map[string]struct {
		authority, server pki.Pair
		hosts             []string
		at                time.Time
		good              bool
	}{
		"good":                 {authority, server, pki.Loopback(), now, true},
		"almost expired":       {authority, server, pki.Loopback(), now.Add(year - time.Hour), true},
		"expired":              {authority, server, pki.Loopback(), now.Add(year + time.Hour), false},
		"not yet":              {authority, server, pki.Loopback(), now.Add(-2 * time.Hour), false},
		"another authority":    {strange, server, pki.Loopback(), now, false},
		"another host":         {authority, server, []string{"localhost", "10.0.0.1"}, now, false},
		"another's key":        {authority, pki.Pair{Certificate: server.Certificate, Key: stranger.Key}, pki.Loopback(), now, false},
		"a key that is none":   {authority, pki.Pair{Certificate: server.Certificate, Key: []byte("secret")}, pki.Loopback(), now, false},
		"no certificate":       {authority, pki.Pair{Key: server.Key}, pki.Loopback(), now, false},
		"no authority":         {pki.Pair{}, server, pki.Loopback(), now, false},
		"swapped":              {authority, pki.Pair{Certificate: server.Key, Key: server.Certificate}, pki.Loopback(), now, false},
		"the authority itself": {authority, authority, pki.Loopback(), now, false},
	} {
		err := row.authority.Verify(row.server, row.hosts, row.at)
		if (err == nil) != row.good || err != nil && !errors.Is(err, pki.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestGood(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	authority, server := made(t, now)
	for name, row := range map[string]struct {
		pair pki.Pair
		at   time.Time
		good bool
	}{
		"good":          {authority, now.Add(9 * year), true},
		"expired":       {authority, now.Add(11 * year), false},
		"not yet":       {authority, now.Add(-2 * time.Hour), false},
		"a server":      {server, now, false},
		"nothing":       {pki.Pair{}, now, false},
		"another's key": {pki.Pair{Certificate: authority.Certificate, Key: server.Key}, now, false},
	} {
		if err := row.pair.CheckAuthority(row.at); (err == nil) != row.good {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := (pki.Pair{}).IssueServer("gateway", pki.Loopback(), now); err == nil {
		t.Error("nothing has signed a certificate")
	}
}
