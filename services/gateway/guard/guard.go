// Package guard rejects unauthorized requests by their headers, before anything else is read
// (threats T1 and T2 of the security model):
//
//	Host     must be an address of the listener, or 403
//	Origin   must be absent: web pages have no access, or 403
//	token    must be the cluster's bearer token, or 401
//
// There are no cookies, client certificates or other credentials that a request could carry without
// its sender's knowledge.
package guard

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Guard authorizes requests. Make one with [New].
type Guard struct {
	hosts   []string
	token   [sha256.Size]byte
	origins *http.CrossOriginProtection
	isOpen  func(path string) bool
}

// New returns a guard for a listener on addr ("127.0.0.1:6443"). It accepts addr and the loopback's
// names on that port as Host. Paths in open need no token.
func New(addr, token string, open ...string) *Guard {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		port = ""
	}
	g := &Guard{
		hosts:   []string{strings.ToLower(addr)},
		token:   sha256.Sum256([]byte(token)),
		origins: http.NewCrossOriginProtection(),
		isOpen:  func(path string) bool { return slices.Contains(open, path) },
	}
	for _, host := range []string{"127.0.0.1", "::1", "localhost"} {
		g.hosts = append(g.hosts, net.JoinHostPort(host, port))
	}
	return g
}

// Check returns nil for an authorized request, and else a 403 or a 401.
func (g *Guard) Check(r *http.Request) error {
	if !g.isOwnHost(r) {
		return forbidden(fmt.Sprintf("Host %q is not this cluster's: use the address in its kubeconfig, such as %s", r.Host, g.hosts[0]))
	}
	if err := g.origins.Check(r); err != nil {
		return forbidden("a page of another origin may not use this cluster: " + err.Error())
	}
	if origin := r.Header.Get("Origin"); origin != "" {
		return forbidden(fmt.Sprintf("a browser's page (Origin %q) may not use this cluster", origin))
	}
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "none" {
		return forbidden(fmt.Sprintf("a browser's page (Sec-Fetch-Site %q) may not use this cluster", site))
	}
	if g.isOpen(r.URL.Path) || g.hasToken(r.Header.Get("Authorization")) {
		return nil
	}
	return apierrors.NewUnauthorized("Unauthorized")
}

// isOwnHost reports whether the Host is the listener's address, the loopback, or the address that
// the connection was made to. The last matters if the listener has all addresses. A name that
// foreign DNS points here is none of them (DNS rebinding).
func (g *Guard) isOwnHost(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return ok && r.Host == local.String() || slices.Contains(g.hosts, strings.ToLower(r.Host))
}

// IsToken reports whether token is the cluster's, in constant time.
func (g *Guard) IsToken(token string) bool {
	sum := sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(sum[:], g.token[:]) == 1
}

func (g *Guard) hasToken(authorization string) bool {
	scheme, token, _ := strings.Cut(authorization, " ")
	return strings.EqualFold(scheme, "bearer") && g.IsToken(strings.TrimSpace(token))
}

func forbidden(message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden,
		Message: message, Details: &metav1.StatusDetails{},
	}}
}
