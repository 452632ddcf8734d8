package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/internal/mgmt"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/client"
	"github.com/podfall/podfall/services/gateway"
)

// remote is a client of a cluster without its data directory, through the gateway of a kubeconfig.
type remote struct {
	http *http.Client
	base string
}

// dialRemote connects to the current cluster of the kubeconfig, and sets this process's clock to
// the cluster's. It returns missing if there is no kubeconfig.
func dialRemote(ctx context.Context, driver *clock.Driver, missing error) (*client.Session, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	switch {
	case clientcmd.IsEmptyConfig(err):
		return nil, missing
	case err != nil:
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	f := &remote{base: strings.TrimSuffix(config.Host, "/")}
	if f.http, err = rest.HTTPClientFor(config); err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	about, err := f.info(ctx)
	switch {
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("%w, and what the kubeconfig leads to, %s, is no podfall cluster", missing, f.base)
	case err != nil:
		return nil, fmt.Errorf("%w, and the gateway that the kubeconfig leads to, %s, does not answer: %w", missing, f.base, err)
	}
	if about.Clock.Check() == nil {
		driver.Set(about.Clock)
	}
	return &client.Session{API: f, Inspect: f.Inspect, Past: f, Close: f.http.CloseIdleConnections}, nil
}

func (f *remote) info(ctx context.Context) (info gateway.ProcessList, err error) {
	data, _, err := f.get(ctx, gateway.AskPath, nil)
	if err == nil {
		err = json.Unmarshal(data, &info)
	}
	return info, err
}

// get requests a path. Errors of the API are returned as such.
func (f *remote) get(ctx context.Context, path string, query url.Values) (data []byte, contentType string, err error) {
	ctx, cancel := clock.Clock{}.Timeout(ctx, dialTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, f.base+path+"?"+query.Encode(), nil)
	if err != nil {
		return nil, "", err
	}
	request.Header.Set("Accept", runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON)
	response, err := f.http.Do(request)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = response.Body.Close() }() // errors of closing a read body do not matter
	if data, err = io.ReadAll(response.Body); err != nil {
		return nil, "", err
	}
	contentType = response.Header.Get("Content-Type")
	if response.StatusCode >= http.StatusBadRequest {
		return nil, "", f.responseError(response.StatusCode, data, contentType)
	}
	return data, contentType, nil
}

// responseError returns the API's own error. If the response has none, or no message, it contains
// the status code.
func (f *remote) responseError(code int, data []byte, contentType string) error {
	status, is := decodeStatus(data, contentType)
	switch {
	case !is || status.Status == metav1.StatusSuccess:
		return fmt.Errorf("the gateway answers with %d: %.200s", code, data)
	case status.Message == "":
		status.Message = fmt.Sprintf("the gateway answers with %d: %s", code, status.Reason)
	}
	return &apierrors.StatusError{ErrStatus: status}
}

// decodeStatus returns the Status object in a response, if there is one.
func decodeStatus(data []byte, contentType string) (status metav1.Status, is bool) {
	if decoded, err := decodeResponse(data, contentType); err == nil {
		known, is := errors.AsType[*apierrors.StatusError](apierrors.FromObject(decoded))
		if is && known.ErrStatus.Reason != metav1.StatusReasonUnknown {
			return known.ErrStatus, true
		}
	}
	err := json.Unmarshal(data, &status)
	return status, err == nil && status.Code != 0
}

func decodeResponse(data []byte, contentType string) (runtime.Object, error) {
	if strings.HasPrefix(contentType, runtime.ContentTypeProtobuf) {
		return kinds.DecodeAny(data)
	}
	decoded, _, err := unstructured.UnstructuredJSONScheme.Decode(data, nil, nil)
	return decoded, err
}

// inspect sends a question to a process.
func (f *remote) inspect(ctx context.Context, process, question string) ([]byte, error) {
	data, _, err := f.get(ctx, gateway.AskPath+"/"+process, url.Values{"question": {question}})
	return data, err
}

// Inspect implements client.Session's Inspect.
func (f *remote) Inspect(ctx context.Context, process string) ([]byte, error) {
	return f.inspect(ctx, process, "")
}

// Processes implements client.Past.
func (f *remote) Processes(ctx context.Context) ([]string, error) {
	about, err := f.info(ctx)
	return about.Processes, err
}

// History implements client.Past.
func (f *remote) History(ctx context.Context, process string, from history.Position) (page history.Page, err error) {
	place, err := json.Marshal(from)
	if err != nil {
		return page, err
	}
	data, err := f.inspect(ctx, process, mgmt.QueryHistory+" "+string(place))
	if err == nil {
		err = json.Unmarshal(data, &page)
	}
	return page, err
}

// apiPath returns the URL path of an object or a collection.
func apiPath(t podapi.Target) string {
	path := "/apis/" + t.Kind.Group + "/" + t.Kind.Version
	if t.Kind.Group == "" {
		path = "/api/" + t.Kind.Version
	}
	if t.Namespace != "" {
		path += "/namespaces/" + url.PathEscape(t.Namespace)
	}
	path += "/" + t.Kind.Resource
	if t.Name != "" {
		path += "/" + url.PathEscape(t.Name)
	}
	return path
}

// Get implements client.API.
func (f *remote) Get(ctx context.Context, t podapi.Target, _ metav1.GetOptions) (kinds.Object, error) {
	data, contentType, err := f.get(ctx, apiPath(t), nil)
	if err != nil {
		return nil, err
	}
	decoded, err := decodeResponse(data, contentType)
	if err != nil {
		return nil, err
	}
	return asObject(decoded, t)
}

func asObject(decoded runtime.Object, t podapi.Target) (kinds.Object, error) {
	obj, ok := decoded.(kinds.Object)
	if !ok {
		return nil, fmt.Errorf("the answer is %T, want a %s", decoded, t.Kind.Kind)
	}
	switch gvk, err := kinds.GVK(obj); {
	case err != nil:
		return nil, fmt.Errorf("the answer is no %s: %w", t.Kind.Kind, err)
	case gvk.GroupKind() != t.Kind.GroupKind():
		return nil, fmt.Errorf("the answer is a %s, want a %s", gvk.Kind, t.Kind.Kind)
	}
	obj.GetObjectKind().SetGroupVersionKind(t.Kind.GroupVersionKind)
	return obj, nil
}

// List implements client.API.
func (f *remote) List(ctx context.Context, t podapi.Target, opts metav1.ListOptions) (*podapi.List, error) {
	query := url.Values{}
	for name, value := range map[string]string{
		"continue": opts.Continue, "fieldSelector": opts.FieldSelector, "labelSelector": opts.LabelSelector, "resourceVersion": opts.ResourceVersion,
	} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if t.Name != "" {
		query.Set("fieldSelector", "metadata.name="+t.Name)
		t.Name = ""
	}
	data, contentType, err := f.get(ctx, apiPath(t), query)
	if err != nil {
		return nil, err
	}
	decoded, err := decodeResponse(data, contentType)
	if err != nil {
		return nil, err
	}
	list, err := meta.ListAccessor(decoded)
	if err != nil {
		return nil, err
	}
	page := &podapi.List{ResourceVersion: list.GetResourceVersion(), Continue: list.GetContinue(), Remaining: list.GetRemainingItemCount()}
	err = meta.EachListItem(decoded, func(item runtime.Object) error {
		obj, err := asObject(item, t)
		page.Items = append(page.Items, obj)
		return err
	})
	return page, err
}
