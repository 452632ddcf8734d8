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

// Create stores obj under t, whose Name is empty except for a subresource, and returns
// it as stored. The answer to a Binding is no object: then it returns nil and no error.
func (c *Client) Create(ctx context.Context, t Target, obj kinds.Object, opts metav1.CreateOptions) (kinds.Object, error) {
	body, err := kinds.Encode(obj)
	if err != nil {
		return nil, fmt.Errorf("create %s: %w", t, err)
	}
	return c.CreateRaw(ctx, t, kinds.ContentTypeOf(body), body, opts)
}

// CreateRaw is Create for a body that is encoded already, such as a manifest's JSON,
// so that the apiserver can judge its fields.
func (c *Client) CreateRaw(ctx context.Context, t Target, contentType string, body []byte, opts metav1.CreateOptions) (kinds.Object, error) {
	return c.object(ctx, call{verb: proto.VerbCreate, target: t, options: &opts, contentType: contentType, body: body})
}

// Get reads one object.
func (c *Client) Get(ctx context.Context, t Target, opts metav1.GetOptions) (kinds.Object, error) {
	return c.object(ctx, call{verb: proto.VerbGet, target: t, options: &opts})
}

// Update replaces one object. A resourceVersion in obj makes it conditional.
func (c *Client) Update(ctx context.Context, t Target, obj kinds.Object, opts metav1.UpdateOptions) (kinds.Object, error) {
	body, err := kinds.Encode(obj)
	if err != nil {
		return nil, fmt.Errorf("update %s: %w", t, err)
	}
	return c.UpdateRaw(ctx, t, kinds.ContentTypeOf(body), body, opts)
}

// UpdateRaw is Update for a body that is encoded already.
func (c *Client) UpdateRaw(ctx context.Context, t Target, contentType string, body []byte, opts metav1.UpdateOptions) (kinds.Object, error) {
	return c.object(ctx, call{verb: proto.VerbUpdate, target: t, options: &opts, contentType: contentType, body: body})
}

// Patch changes one object by a JSON, merge or strategic-merge patch.
func (c *Client) Patch(ctx context.Context, t Target, pt types.PatchType, patch []byte, opts metav1.PatchOptions) (kinds.Object, error) {
	return c.object(ctx, call{verb: proto.VerbPatch, target: t, options: &opts, contentType: string(pt), body: patch})
}

// Delete asks for one object to be deleted. The answer is the object as it now is, or
// a *metav1.Status of success for kinds that do not return it (API-05).
func (c *Client) Delete(ctx context.Context, t Target, opts metav1.DeleteOptions) (runtime.Object, error) {
	answer, err := c.one(ctx, call{verb: proto.VerbDelete, target: t, options: &opts})
	if err != nil {
		return nil, err
	}
	obj, err := decodeItem(answer.GetItem())
	if err != nil {
		return nil, fmt.Errorf("delete %s: %w", t, err)
	}
	return obj, nil
}

// DeleteCollection asks for every object that list selects to be deleted, and returns
// them.
func (c *Client) DeleteCollection(ctx context.Context, t Target, opts metav1.DeleteOptions, list metav1.ListOptions) (*List, error) {
	return c.list(ctx, call{verb: proto.VerbDeleteCollection, target: t, options: &opts, list: &list})
}

// object carries out a call that is answered with one object. A subresource such as a
// Binding may be answered with a Status of success instead: then the object is nil.
func (c *Client) object(ctx context.Context, what call) (kinds.Object, error) {
	answer, err := c.one(ctx, what)
	if err != nil {
		return nil, err
	}
	decoded, err := decodeItem(answer.GetItem())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	if status, done := decoded.(*metav1.Status); done && what.target.Subresource != "" && status.Status == metav1.StatusSuccess {
		return nil, nil
	}
	obj, ok := decoded.(kinds.Object)
	if !ok {
		return nil, fmt.Errorf("%s: answered with %T, which has no metadata", what, decoded)
	}
	return obj, nil
}
