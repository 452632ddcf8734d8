package gateway

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/internal/podview"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
)

// call is an API request in progress.
type call struct {
	*gateway
	w     *response
	r     *http.Request
	query url.Values
	route route
	kind  kinds.Kind
	verb  proto.Verb
	api   *podapi.Client
}

// serveResource serves a request for a resource.
func (g *gateway) serveResource(w *response, r *http.Request, to route) error {
	kind, ok := g.kinds.ByResource(to.GroupVersionResource)
	if !ok && !isBuiltInGroup(to.Group) {
		if !g.waitForKinds(r.Context()) {
			return errKindsUnknown()
		}
		kind, ok = g.kinds.ByResource(to.GroupVersionResource)
	}
	if !ok || !kind.IsServedByDefault() {
		return g.limiter.runShort(w, r, func() error { return g.serveUnstored(w, r, to) })
	}
	c := &call{gateway: g, w: w, r: r, query: r.URL.Query(), route: to, kind: kind}
	if !kind.Namespaced && to.namespace != "" {
		return notServed()
	}
	if err := c.rejectImpersonation(); err != nil {
		return err
	}
	c.api = g.api.WithWarn(c.warn)
	if text := deprecationWarning(kind, g.kinds.CRD(kind.GroupResource()), g.cfg.Compat.Release); text != "" {
		c.warn(text)
	}
	if serve, ok := c.subresourceHandler(); ok {
		return c.measure(serve)
	}
	if c.verb, ok = to.verb(r.Method, kind, c.query); !ok {
		return notAllowed()
	}
	if c.verb == proto.VerbWatch {
		return c.measure(c.serveWatch)
	}
	return c.measure(c.forward)
}

// warn adds a warning header.
func (c *call) warn(text string) { c.w.warn(text) }

// requestTimeout is the wall-clock limit of a request without a shorter timeout.
const requestTimeout = time.Minute

// withTimeout returns the request's context with the client's timeout, or ours if that is shorter.
func (c *call) withTimeout() (context.Context, context.CancelFunc, error) {
	limit := requestTimeout
	if timeout := c.query.Get("timeout"); timeout != "" {
		parsed, err := time.ParseDuration(timeout)
		if err != nil {
			return nil, nil, apierrors.NewBadRequest(fmt.Sprintf("invalid timeout specified in the request URL - %v", err))
		}
		if parsed > 0 {
			limit = min(limit, parsed)
		}
	}
	ctx, cancel := clock.Clock{}.Timeout(c.r.Context(), limit)
	return ctx, cancel, nil
}

// forward passes the request to the apiserver and sends the answer.
func (c *call) forward() error {
	ctx, cancel, err := c.withTimeout()
	if err != nil {
		return err
	}
	defer cancel()
	format, err := c.negotiateForm()
	if err != nil {
		return err
	}
	raw, err := c.buildRequest()
	if err != nil {
		return err
	}
	answer, err := c.api.Do(ctx, raw)
	if err != nil {
		return err
	}
	printer, err := c.newPrinter(format)
	if err != nil {
		return err
	}
	if answer.Page == nil {
		return respond(c.w, c.r, answer.Code, printer.convertObject(answer.Object), format)
	}
	list, err := printer.convertPage(answer.Page)
	if err != nil {
		return err
	}
	return respond(c.w, c.r, answer.Code, list, format)
}

// negotiateForm negotiates the form of objects of the kind.
func (c *call) negotiateForm() (form, error) {
	offer := offers{media: []string{mediaJSON, mediaYAML, mediaProtobuf}, shapes: []shape{asTable, asPartial}}
	if c.verb == proto.VerbList || c.verb == proto.VerbDeleteCollection {
		offer.shapes = []shape{asTable, asPartialList}
	}
	if c.kind.Custom { // which has no protobuf form
		offer.media = offer.media[:2]
	}
	return negotiate(c.r, offer)
}

func (c *call) newPrinter(format form) (printer, error) {
	p := printer{kind: c.kind, form: format, view: podview.View{Now: c.cfg.Clock.Now(), Compat: c.cfg.Compat}}
	if format.as != asTable {
		return p, nil
	}
	opts, err := parseOptions(c.query, metav1.Convert_url_Values_To_v1_TableOptions)
	if err != nil {
		return p, err
	}
	p.columns = podview.CustomColumnsOf(c.kinds.CRD(c.kind.GroupResource()), c.kind.Version)
	p.include = opts.IncludeObject
	switch p.include {
	case metav1.IncludeNone, metav1.IncludeMetadata, metav1.IncludeObject, "":
		return p, nil
	}
	return p, apierrors.NewBadRequest(fmt.Sprintf("unrecognized includeObject value: %q", p.include))
}

func (c *call) target() podapi.Target {
	return podapi.Target{
		Kind: c.kind, Namespace: c.route.namespace, Name: c.route.name, Subresource: c.route.subresource,
	}
}

// buildRequest builds the request to the apiserver.
func (c *call) buildRequest() (podapi.RawRequest, error) {
	raw := podapi.RawRequest{Verb: c.verb, Target: c.target()}
	var err error
	switch c.verb {
	case proto.VerbGet:
		raw.Options, err = pointerTo(getOptions(c.query))
	case proto.VerbList:
		raw.Options, err = pointerTo(listOptions(c.query))
	case proto.VerbCreate:
		raw.Options, err = pointerTo(createOptions(c.r))
	case proto.VerbUpdate:
		raw.Options, err = pointerTo(updateOptions(c.r))
	case proto.VerbPatch:
		return c.buildPatch(raw)
	case proto.VerbDelete, proto.VerbDeleteCollection:
		return c.buildDelete(raw)
	case proto.VerbWatch:
		err = notAllowed()
	}
	if err == nil && (c.verb == proto.VerbCreate || c.verb == proto.VerbUpdate) {
		raw.ContentType, raw.Body, err = readObjectBody(c.r)
	}
	return raw, err
}

// pointerTo is options as messages are marshalled from.
func pointerTo[T any](opts T, err error) (*T, error) { return &opts, err }

func (c *call) buildPatch(raw podapi.RawRequest) (podapi.RawRequest, error) {
	media, err := mediaType(c.r)
	if err != nil {
		return raw, err
	}
	apply := media == string(types.ApplyYAMLPatchType) || media == string(types.ApplyCBORPatchType)
	if raw.Options, err = pointerTo(patchOptions(c.r, isApply(apply))); err != nil {
		return raw, err
	}
	raw.ContentType = media
	raw.Body, err = readBody(c.r)
	return raw, err
}

func (c *call) buildDelete(raw podapi.RawRequest) (podapi.RawRequest, error) {
	var err error
	if c.verb == proto.VerbDeleteCollection {
		if raw.List, err = pointerTo(listOptions(c.query)); err != nil {
			return raw, err
		}
	}
	raw.Options, err = pointerTo(readDeleteOptions(c.r))
	return raw, err
}
