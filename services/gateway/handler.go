package gateway

import (
	"bufio"
	"crypto/rand"
	"fmt"
	"net"
	"net/http"
	"runtime/debug"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/podfall/podfall/internal/podapi"
)

// handler is all of the gateway: who may come in, and what a path is.
func (g *gateway) handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent := &response{ResponseWriter: w}
		defer g.recovered(sent, r)
		g.head(sent, r)
		if !g.load.enter() {
			w.Header().Set("Connection", "close")
			g.refuse(sent, r, apierrors.NewServiceUnavailable("the gateway is ending"))
			return
		}
		defer g.load.leave()
		err := g.guard.Check(r)
		if err == nil {
			err = g.dispatch(sent, r)
		}
		if err != nil && sent.code == 0 {
			g.refuse(sent, r, err)
		}
	})
}

// head sets what every answer has.
func (g *gateway) head(w http.ResponseWriter, r *http.Request) {
	audit := r.Header.Get("Audit-Id")
	if audit == "" || len(audit) > 64 {
		audit = newAuditID()
	}
	w.Header().Set("Audit-Id", audit)
	w.Header().Set("Cache-Control", "no-cache, private")
	w.Header().Set("X-Content-Type-Options", "nosniff")
}

func newAuditID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails: crypto/rand ends the program instead
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}

// speaker is who a request is from, as faults select clients: gateway/kubectl.
func speaker(r *http.Request) string { return "gateway/" + manager("", r.UserAgent()) }

// dispatch finds out what a path is.
func (g *gateway) dispatch(w *response, r *http.Request) error {
	if health(r.URL.Path) {
		return g.health(w, r)
	}
	if to, ok := routeOf(r.URL.Path); ok {
		return g.resource(w, r.WithContext(podapi.WithClientName(r.Context(), speaker(r))), to)
	}
	return g.load.seated(w, r, func() error {
		if r.URL.Path == metricsPath || strings.HasPrefix(r.URL.Path, metricsPath+"/") {
			return g.metrics(w, r)
		}
		if r.URL.Path == AskPath || strings.HasPrefix(r.URL.Path, AskPath+"/") {
			return g.ask(w, r)
		}
		g.discovery.ServeHTTP(w, r)
		return nil
	})
}

// response is a ResponseWriter that knows what has been sent.
type response struct {
	http.ResponseWriter
	code     int
	warnings warnings
}

// WriteHeader implements http.ResponseWriter.
func (w *response) WriteHeader(code int) {
	if w.code == 0 && code >= http.StatusOK {
		w.code = code
	}
	w.ResponseWriter.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (w *response) Write(data []byte) (int, error) {
	if w.code == 0 {
		w.code = http.StatusOK
	}
	return w.ResponseWriter.Write(data)
}

// Hijack implements http.Hijacker: whoever takes the connection over sends the answer.
func (w *response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err == nil {
		w.code = http.StatusSwitchingProtocols
	}
	return conn, buffered, err
}

// Unwrap is for http.ResponseController.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// recovered ends a request that has panicked, and no other.
func (g *gateway) recovered(w *response, r *http.Request) {
	cause := recover()
	if cause == nil {
		return
	}
	if cause != http.ErrAbortHandler { //nolint:errorlint // a value to panic with, never wrapped
		g.cfg.Log.ErrorContext(r.Context(), "a request made the gateway panic",
			"method", r.Method, "path", r.URL.Path, "cause", fmt.Sprint(cause), "stack", string(debug.Stack()))
	}
	if w.code != 0 {
		panic(http.ErrAbortHandler) // the answer has begun: break it off
	}
	http.Error(w, "This request caused the gateway to panic. Look in the logs for details.", http.StatusInternalServerError)
}
