package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podfall/podfall/internal/clock"
)

// Client calls hooks over HTTPS. It is safe for concurrent use. Close it after the last call.
type Client struct {
	// Resolve returns the address, host and port, behind a Service.
	Resolve func(service admissionregistrationv1.ServiceReference) (string, error)

	mu sync.Mutex
	// clients are keyed by the CA bundle that they trust and the server name.
	clients map[string]*http.Client
}

const (
	// maxResponse is how many bytes of a response are read.
	maxResponse = 8 << 20
	// maxErrorText is how many bytes of a failed response's text go into the error (upstream's
	// maxUnstructuredResponseTextBytes).
	maxErrorText = 2048
	// maxClients bounds the clients that are kept with their connections.
	maxClients = 64
	// idleTimeout is how long, in wall-clock time, a connection is kept for the next call.
	idleTimeout = 90 * time.Second
)

// Call sends a review and reads the answer, within the hook's timeout.
func (c *Client) Call(ctx context.Context, h *Hook, review *admissionv1.AdmissionReview) (*admissionv1.AdmissionReview, error) {
	where, serverName, err := c.targetURL(h)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(review)
	if err != nil {
		return nil, err
	}
	ctx, cancel := clock.Clock{}.Timeout(ctx, h.Timeout())
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, where.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", runtime.ContentTypeJSON)
	request.Header.Set("Accept", runtime.ContentTypeJSON)
	if serverName != "" {
		request.Host = serverName
	}
	client, err := c.httpClient(h.ClientConfig.CABundle, serverName)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }() // it was only read
	return readReview(response)
}

func readReview(response *http.Response) (*admissionv1.AdmissionReview, error) {
	data, err := io.ReadAll(io.LimitReader(response.Body, maxResponse))
	if err != nil {
		return nil, err
	}
	if response.StatusCode < http.StatusOK || response.StatusCode >= http.StatusMultipleChoices {
		message := strings.TrimSpace(string(data[:min(len(data), maxErrorText)]))
		return nil, apierrors.NewGenericServerResponse(response.StatusCode, http.MethodPost, schema.GroupResource{}, "", message, 0, true)
	}
	answer := &admissionv1.AdmissionReview{}
	if err := json.Unmarshal(data, answer); err != nil {
		return nil, fmt.Errorf("couldn't read an AdmissionReview: %w", err)
	}
	return answer, nil
}

var (
	errNoTarget = errors.New("webhook configuration must have either service or URL")
	errScheme   = errors.New("the webhook's URL must begin with https://")
)

// targetURL returns the URL of a hook, and the name in its certificate if that differs from the
// URL's host.
func (c *Client) targetURL(h *Hook) (where *url.URL, serverName string, err error) {
	config := h.ClientConfig
	switch {
	case config.URL != nil:
		if where, err = url.Parse(*config.URL); err != nil {
			return nil, "", err
		}
		if where.Scheme != "https" {
			return nil, "", errScheme
		}
	case config.Service != nil:
		host, err := c.Resolve(*config.Service)
		if err != nil {
			return nil, "", err
		}
		where = &url.URL{Scheme: "https", Host: host, Path: "/"}
		if config.Service.Path != nil {
			where.Path = *config.Service.Path
		}
		serverName = config.Service.Name + "." + config.Service.Namespace + ".svc"
	default:
		return nil, "", errNoTarget
	}
	query := where.Query()
	query.Set("timeout", h.Timeout().String())
	where.RawQuery = query.Encode()
	return where, serverName, nil
}

// httpClient returns a client that trusts caBundle, or the certificates that this machine trusts if
// caBundle is empty.
func (c *Client) httpClient(caBundle []byte, serverName string) (*http.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := serverName + "\x00" + string(caBundle)
	if known, ok := c.clients[key]; ok {
		return known, nil
	}
	trust := &tls.Config{ServerName: serverName, MinVersion: tls.VersionTLS12}
	if len(caBundle) > 0 {
		trust.RootCAs = x509.NewCertPool()
		if !trust.RootCAs.AppendCertsFromPEM(caBundle) {
			return nil, errors.New("unable to load root certificates: unable to parse bytes as PEM block")
		}
	}
	if len(c.clients) >= maxClients || c.clients == nil {
		c.closeAll()
		c.clients = map[string]*http.Client{}
	}
	made := &http.Client{
		Transport: &http.Transport{
			DialContext: (&net.Dialer{}).DialContext, TLSClientConfig: trust, IdleConnTimeout: idleTimeout, MaxIdleConnsPerHost: 16,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	c.clients[key] = made
	return made, nil
}

// Close closes idle connections.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closeAll()
}

func (c *Client) closeAll() {
	for _, known := range c.clients {
		known.CloseIdleConnections()
	}
}
