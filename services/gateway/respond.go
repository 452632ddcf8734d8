package gateway

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/podfall/podfall/proto"
)

// minGzipSize is the size in bytes from which answers are compressed.
const minGzipSize = 128 << 10

// respond writes an answer. An object that cannot be encoded is an error. If part of the answer has
// been sent, the connection breaks instead.
func respond(w http.ResponseWriter, r *http.Request, code int, obj runtime.Object, f form) error {
	w.Header().Set("Content-Type", f.media)
	out := &bufferedResponse{w: w, code: code, gzip: acceptsGzip(r)}
	if err := encode(out, obj, f); err != nil {
		if out.started {
			panic(http.ErrAbortHandler)
		}
		return err
	}
	out.finish()
	return nil
}

// acceptsGzip reports whether the client accepts compressed answers.
func acceptsGzip(r *http.Request) bool {
	for _, header := range r.Header.Values("Accept-Encoding") {
		for coding := range strings.SplitSeq(header, ",") {
			name, weight, _ := strings.Cut(coding, ";")
			_, q, _ := strings.Cut(weight, "=")
			if n, err := strconv.ParseFloat(strings.TrimSpace(q), 64); strings.TrimSpace(name) == "gzip" && (err != nil || n > 0) {
				return true
			}
		}
	}
	return false
}

// bufferedResponse sends the header once the body is large enough to be compressed, or at the
// body's end.
type bufferedResponse struct {
	w        http.ResponseWriter
	code     int
	gzip     bool
	buffered []byte
	started  bool
	body     io.Writer
	close    func() error
}

// Write implements io.Writer. It reports no error if the client has left, because encoding has not
// failed.
func (d *bufferedResponse) Write(data []byte) (int, error) {
	if d.started {
		_, err := d.body.Write(data)
		return len(data), ignoreDisconnect(err)
	}
	d.buffered = append(d.buffered, data...)
	if d.gzip && len(d.buffered) > minGzipSize {
		d.w.Header().Set("Content-Encoding", "gzip")
		d.w.Header().Add("Vary", "Accept-Encoding")
		packed, err := gzip.NewWriterLevel(d.w, gzip.BestSpeed)
		if err != nil {
			return 0, err
		}
		d.begin(packed, packed.Close)
	} else if len(d.buffered) > minGzipSize {
		d.begin(d.w, func() error { return nil })
	}
	return len(data), nil
}

// ignoreDisconnect drops the error of a disconnected client.
func ignoreDisconnect(error) error { return nil }

func (d *bufferedResponse) begin(out io.Writer, end func() error) {
	d.started, d.body, d.close = true, out, end
	d.w.WriteHeader(d.code)
	_, _ = d.body.Write(d.buffered) // as in Write
	d.buffered = nil
}

func (d *bufferedResponse) finish() {
	if !d.started {
		d.w.Header().Set("Content-Length", strconv.Itoa(len(d.buffered)))
		d.begin(d.w, func() error { return nil })
	}
	_ = d.close() // as in Write
}

// respondError answers with an error in a form that the client accepts.
func (g *gateway) respondError(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		return // the client has left
	}
	status := statusOf(err)
	if status.Code >= http.StatusInternalServerError {
		g.cfg.Log.InfoContext(r.Context(), "a request failed", "method", r.Method, "path", r.URL.Path, "code", status.Code, "cause", err)
	}
	if details := status.Details; details != nil && details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(details.RetryAfterSeconds)))
	}
	wanted, notAcceptable := negotiate(r, offers{media: []string{mediaJSON, mediaYAML, mediaProtobuf}})
	if notAcceptable != nil {
		wanted = defaultForm()
	}
	if err := respond(w, r, int(status.Code), status, wanted); err != nil {
		g.cfg.Log.ErrorContext(r.Context(), "a refusal was lost", "path", r.URL.Path, "cause", err)
		w.WriteHeader(int(status.Code))
	}
}

// statusOf converts an error to a Status; a deadline that has passed is a 504.
func statusOf(err error) *metav1.Status {
	var refused apierrors.APIStatus
	if !errors.As(err, &refused) && errors.Is(err, context.DeadlineExceeded) {
		err = apierrors.NewTimeoutError("request did not complete within the allotted timeout", 0)
	}
	status := proto.StatusFrom(err)
	// The apiserver says what exactly it does not serve; upstream leaves it at this.
	if prefix, _, ok := strings.Cut(status.Message, resourceNotFound+": "); ok && prefix == "" {
		status.Message = resourceNotFound
	}
	return status
}

const resourceNotFound = "the server could not find the requested resource"

// notServed is upstream's 404 for a resource that a group does not have.
func notServed() error {
	return apierrors.NewGenericServerResponse(http.StatusNotFound, "", noResource(), "", "", 0, false)
}

// notAllowed is upstream's 405 for a method that a path does not have.
func notAllowed() error {
	return apierrors.NewGenericServerResponse(http.StatusMethodNotAllowed, "", noResource(), "", "", 0, false)
}

// pageNotFound is upstream's answer on an unknown path.
func pageNotFound(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(http.StatusNotFound)
	fmt.Fprintln(w, "404 page not found")
}
