// Package guard keeps out of the gateway whoever has no business there, before anything
// of a request is looked at but its head (threats T1 and T2 of the security model):
//
//	Host     exactly an address that the listener is reached by, or 403
//	Origin   none: a browser's page has no business here, or 403
//	token    the cluster's, as a bearer, or 401
//
// There are no cookies, client certificates or other credentials that a request would
// carry without its sender's knowledge.
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

// Guard decides who may come in. Make one with [New].
type Guard struct {
	hosts   []string
	token   [sha256.Size]byte
	origins *http.CrossOriginProtection
	open    func(path string) bool
}

// New is a guard of a listener on addr ("127.0.0.1:6443"). Besides addr itself it lets in
// requests for the loopback's names on that port. Open are the paths for which no token
// is needed.
func New(addr, token string, open ...string) *Guard {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		port = ""
	}
	g := &Guard{
		hosts:   []string{strings.ToLower(addr)},
		token:   sha256.Sum256([]byte(token)),
		origins: http.NewCrossOriginProtection(),
		open:    func(path string) bool { return slices.Contains(open, path) },
	}
	for _, host := range []string{"127.0.0.1", "::1", "localhost"} {
		g.hosts = append(g.hosts, net.JoinHostPort(host, port))
	}
	return g
}

// Check is nil for a request that may go on. Its errors are a 403 or a 401.
func (g *Guard) Check(r *http.Request) error {
	if !g.reached(r) {
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
	if g.open(r.URL.Path) || g.knows(r.Header.Get("Authorization")) {
		return nil
	}
	return apierrors.NewUnauthorized("Unauthorized")
}

// reached reports whether a request names an address of ours: the listener's, the
// loopback's, or the one that its connection was made to, where the listener has all. A
// name that somebody else's DNS has pointed here is none of them.
func (g *Guard) reached(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return ok && r.Host == local.String() || slices.Contains(g.hosts, strings.ToLower(r.Host))
}

// Knows reports whether token is the cluster's, in a time that does not depend on how
// much of it is right.
func (g *Guard) Knows(token string) bool {
	sum := sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(sum[:], g.token[:]) == 1
}

func (g *Guard) knows(authorization string) bool {
	scheme, token, _ := strings.Cut(authorization, " ")
	return strings.EqualFold(scheme, "bearer") && g.Knows(strings.TrimSpace(token))
}

func forbidden(message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden,
		Message: message, Details: &metav1.StatusDetails{},
	}}
}
