package podapi

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
)

// Create stores obj under t and returns the stored object. The Name of t is empty except for a
// subresource. A Binding is answered without an object: then Create returns nil and no error.
func (c *Client) Create(ctx context.Context, t Target, obj kinds.Object, opts metav1.CreateOptions) (kinds.Object, error) {
	body, err := kinds.Encode(obj)
	if err != nil {
		return nil, fmt.Errorf("create %s: %w", t, err)
	}
	return c.CreateRaw(ctx, t, kinds.ContentTypeOf(body), body, opts)
}

// CreateRaw is Create for an encoded body, for example a manifest's JSON, so that the apiserver can
// validate its fields.
func (c *Client) CreateRaw(ctx context.Context, t Target, contentType string, body []byte, opts metav1.CreateOptions) (kinds.Object, error) {
	return c.requestObject(ctx, call{verb: proto.VerbCreate, target: t, options: &opts, contentType: contentType, body: body})
}

// Get reads one object.
func (c *Client) Get(ctx context.Context, t Target, opts metav1.GetOptions) (kinds.Object, error) {
	return c.requestObject(ctx, call{verb: proto.VerbGet, target: t, options: &opts})
}

// Update replaces one object. A resourceVersion in obj makes it conditional.
func (c *Client) Update(ctx context.Context, t Target, obj kinds.Object, opts metav1.UpdateOptions) (kinds.Object, error) {
	body, err := kinds.Encode(obj)
	if err != nil {
		return nil, fmt.Errorf("update %s: %w", t, err)
	}
	return c.UpdateRaw(ctx, t, kinds.ContentTypeOf(body), body, opts)
}

// UpdateRaw is Update for an encoded body.
func (c *Client) UpdateRaw(ctx context.Context, t Target, contentType string, body []byte, opts metav1.UpdateOptions) (kinds.Object, error) {
	return c.requestObject(ctx, call{verb: proto.VerbUpdate, target: t, options: &opts, contentType: contentType, body: body})
}

// Patch changes one object by a JSON, merge or strategic-merge patch.
func (c *Client) Patch(ctx context.Context, t Target, pt types.PatchType, patch []byte, opts metav1.PatchOptions) (kinds.Object, error) {
	return c.requestObject(ctx, call{verb: proto.VerbPatch, target: t, options: &opts, contentType: string(pt), body: patch})
}

// Delete requests the deletion of one object. It returns the object after the request, or a
// *metav1.Status of success for kinds whose deletion returns none (API-05).
func (c *Client) Delete(ctx context.Context, t Target, opts metav1.DeleteOptions) (runtime.Object, error) {
	answer, err := c.request(ctx, call{verb: proto.VerbDelete, target: t, options: &opts})
	if err != nil {
		return nil, err
	}
	obj, err := decodeItem(answer.GetItem())
	if err != nil {
		return nil, fmt.Errorf("delete %s: %w", t, err)
	}
	return obj, nil
}

// DeleteCollection requests the deletion of every object that list selects, and returns them.
func (c *Client) DeleteCollection(ctx context.Context, t Target, opts metav1.DeleteOptions, list metav1.ListOptions) (*List, error) {
	return c.requestList(ctx, call{verb: proto.VerbDeleteCollection, target: t, options: &opts, list: &list})
}

// requestObject sends a call that is answered with one object. A subresource, for example a
// Binding, may be answered with a Status of success: then the object is nil.
func (c *Client) requestObject(ctx context.Context, req call) (kinds.Object, error) {
	answer, err := c.request(ctx, req)
	if err != nil {
		return nil, err
	}
	decoded, err := decodeItem(answer.GetItem())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", req, err)
	}
	if status, done := decoded.(*metav1.Status); done && req.target.Subresource != "" && status.Status == metav1.StatusSuccess {
		return nil, nil
	}
	obj, ok := decoded.(kinds.Object)
	if !ok {
		return nil, fmt.Errorf("%s: answered with %T, which has no metadata", req, decoded)
	}
	return obj, nil
}
