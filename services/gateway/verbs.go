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

// call is a request of the API that is being carried out.
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

// resource carries out a request on a resource.
func (g *gateway) resource(w *response, r *http.Request, to route) error {
	kind, ok := g.kinds.ByResource(to.GroupVersionResource)
	if !ok && !known(to.Group) {
		if !g.informed(r.Context()) {
			return errUnfilled()
		}
		kind, ok = g.kinds.ByResource(to.GroupVersionResource)
	}
	if !ok || !kind.IsServedByDefault() {
		return g.load.seated(w, r, func() error { return g.otherResource(w, r, to) })
	}
	c := &call{gateway: g, w: w, r: r, query: r.URL.Query(), route: to, kind: kind}
	if !kind.Namespaced && to.namespace != "" {
		return notServed()
	}
	if err := c.refuseOthers(); err != nil {
		return err
	}
	c.api = g.api.WithWarn(c.warn)
	if text := deprecation(kind, g.kinds.CRD(kind.GroupResource()), g.cfg.Compat.Release); text != "" {
		c.warn(text)
	}
	if serve, ok := c.streaming(); ok {
		return c.counted(serve)
	}
	if c.verb, ok = to.verb(r.Method, kind, c.query); !ok {
		return notAllowed()
	}
	if c.verb == proto.VerbWatch {
		return c.counted(c.watch)
	}
	return c.counted(c.carryOut)
}

// warn passes a warning on as a header.
func (c *call) warn(text string) { c.w.warn(text) }

// requestTimeout is how long, on the wall, a request may take that asks for no other.
const requestTimeout = time.Minute

// limited is the request's context under the timeout that its client asks for, or ours.
func (c *call) limited() (context.Context, context.CancelFunc, error) {
	limit := requestTimeout
	if asked := c.query.Get("timeout"); asked != "" {
		parsed, err := time.ParseDuration(asked)
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

// carryOut asks the apiserver and answers.
func (c *call) carryOut() error {
	ctx, cancel, err := c.limited()
	if err != nil {
		return err
	}
	defer cancel()
	as, err := c.form()
	if err != nil {
		return err
	}
	raw, err := c.raw()
	if err != nil {
		return err
	}
	answer, err := c.api.Do(ctx, raw)
	if err != nil {
		return err
	}
	shaper, err := c.printer(as)
	if err != nil {
		return err
	}
	if answer.Page == nil {
		return respond(c.w, c.r, answer.Code, shaper.one(answer.Object), as)
	}
	list, err := shaper.many(answer.Page)
	if err != nil {
		return err
	}
	return respond(c.w, c.r, answer.Code, list, as)
}

// form is how the client wants objects of the kind.
func (c *call) form() (form, error) {
	offer := offers{media: []string{mediaJSON, mediaYAML, mediaProtobuf}, shapes: []shape{asTable, asPartial}}
	if c.verb == proto.VerbList || c.verb == proto.VerbDeleteCollection {
		offer.shapes = []shape{asTable, asPartialList}
	}
	if c.kind.Custom { // which has no protobuf form
		offer.media = offer.media[:2]
	}
	return negotiate(c.r, offer)
}

func (c *call) printer(as form) (printer, error) {
	p := printer{kind: c.kind, form: as, view: podview.View{Now: c.cfg.Clock.Now(), Compat: c.cfg.Compat}}
	if as.as != asTable {
		return p, nil
	}
	opts, err := optionsIn(c.query, metav1.Convert_url_Values_To_v1_TableOptions)
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

// raw is the request as the apiserver gets it.
func (c *call) raw() (podapi.RawRequest, error) {
	raw := podapi.RawRequest{Verb: c.verb, Target: c.target()}
	var err error
	switch c.verb {
	case proto.VerbGet:
		raw.Options, err = pointer(getOptions(c.query))
	case proto.VerbList:
		raw.Options, err = pointer(listOptions(c.query))
	case proto.VerbCreate:
		raw.Options, err = pointer(createOptions(c.r))
	case proto.VerbUpdate:
		raw.Options, err = pointer(updateOptions(c.r))
	case proto.VerbPatch:
		return c.patch(raw)
	case proto.VerbDelete, proto.VerbDeleteCollection:
		return c.deletion(raw)
	case proto.VerbWatch:
		err = notAllowed()
	}
	if err == nil && (c.verb == proto.VerbCreate || c.verb == proto.VerbUpdate) {
		raw.ContentType, raw.Body, err = objectBody(c.r)
	}
	return raw, err
}

// pointer is options as messages are marshalled from.
func pointer[T any](opts T, err error) (*T, error) { return &opts, err }

func (c *call) patch(raw podapi.RawRequest) (podapi.RawRequest, error) {
	media, err := mediaOf(c.r)
	if err != nil {
		return raw, err
	}
	apply := media == string(types.ApplyYAMLPatchType) || media == string(types.ApplyCBORPatchType)
	if raw.Options, err = pointer(patchOptions(c.r, applies(apply))); err != nil {
		return raw, err
	}
	raw.ContentType = media
	raw.Body, err = readBody(c.r)
	return raw, err
}

func (c *call) deletion(raw podapi.RawRequest) (podapi.RawRequest, error) {
	var err error
	if c.verb == proto.VerbDeleteCollection {
		if raw.List, err = pointer(listOptions(c.query)); err != nil {
			return raw, err
		}
	}
	raw.Options, err = pointer(deleteBody(c.r))
	return raw, err
}
