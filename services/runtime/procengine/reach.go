package procengine

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"

	"github.com/podfall/podfall/proto"
)

const (
	// maxBody is how many bytes of an answer are read (upstream's maxRespBodyLength).
	maxBody = 10 << 10
	// maxRedirects is how many redirects are followed (upstream's RedirectChecker).
	maxRedirects = 10
)

var errRedirects = errors.New("stopped after 10 redirects")

// Reach implements [engine.Engine]. Programs run on this machine, so only loopback addresses are
// reached, whatever host and port a manifest names.
func (e *Engine) Reach(ctx context.Context, req *proto.ReachRequest) (*proto.ReachResponse, error) {
	address, err := loopbackAddress(req.Host, req.Port)
	if err != nil {
		return nil, err
	}
	if err := e.checkPort(req.ContainerId, req.Port); err != nil {
		return nil, err
	}
	switch req.Scheme {
	case "tcp":
		return reachTCP(ctx, address)
	case "http", "https":
		return reachHTTP(ctx, address, req)
	case "grpc":
		return reachGRPC(ctx, address, req.Service)
	}
	return nil, fmt.Errorf("scheme %q: want http, https, grpc or tcp", req.Scheme)
}

func loopbackAddress(host string, port int32) (string, error) {
	if host == "" || host == "localhost" {
		host = "127.0.0.1"
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return "", fmt.Errorf("host %q: want an address of loopback, or none for the pod's own", host)
	}
	return net.JoinHostPort(host, strconv.Itoa(int(port))), nil
}

func reachTCP(ctx context.Context, address string) (*proto.ReachResponse, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return &proto.ReachResponse{}, conn.Close()
}

// reachHTTP follows no redirect to another host and accepts any certificate, as a kubelet does.
func reachHTTP(ctx context.Context, address string, req *proto.ReachRequest) (*proto.ReachResponse, error) {
	target, err := url.Parse(req.Path)
	if err != nil {
		return nil, fmt.Errorf("path: %w", err)
	}
	target.Scheme, target.Host = req.Scheme, address
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), http.NoBody)
	if err != nil {
		return nil, err
	}
	for _, header := range req.Headers {
		request.Header.Add(header.Name, header.Value)
		if http.CanonicalHeaderKey(header.Name) == "Host" {
			request.Host = header.Value
		}
	}
	client := http.Client{
		Transport: &http.Transport{
			DisableKeepAlives: true,
			TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // upstream's rule for hooks and probes
		},
		CheckRedirect: func(next *http.Request, before []*http.Request) error {
			switch {
			case next.URL.Host != address:
				return http.ErrUseLastResponse
			case len(before) >= maxRedirects:
				return errRedirects
			}
			return nil
		},
	}
	answer, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	body, _ := io.ReadAll(io.LimitReader(answer.Body, maxBody)) // the beginning is enough
	return &proto.ReachResponse{Code: int32(answer.StatusCode), Body: body}, nil
}
