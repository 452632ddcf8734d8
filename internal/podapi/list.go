package podapi

import (
	"context"
	"fmt"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
)

// List is a page of objects at one revision.
type List struct {
	// ResourceVersion is the revision of this page and of all pages after it.
	ResourceVersion string
	// Continue is the token for the next page; empty on the last page.
	Continue string
	// Remaining counts the objects after this page; nil if unknown.
	Remaining *int64
	// Items are in key order: namespace, then name.
	Items []kinds.Object
}

// List reads one page, all parts of it at one revision. A Name in t becomes the field selector
// metadata.name.
func (c *Client) List(ctx context.Context, t Target, opts metav1.ListOptions) (*List, error) {
	t, opts = selectByName(t, opts)
	return c.requestList(ctx, call{verb: proto.VerbList, target: t, options: &opts})
}

func (c *Client) requestList(ctx context.Context, req call) (*List, error) {
	parts, err := c.stream(ctx, req)
	if err != nil {
		return nil, err
	}
	page := &List{}
	for i, part := range parts {
		if i == 0 {
			page.setMeta(part.GetList())
		}
		for _, item := range part.GetList().GetItems() {
			decoded, err := decodeItem(item)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", req, err)
			}
			obj, ok := decoded.(kinds.Object)
			if !ok {
				return nil, fmt.Errorf("%s: the list holds %T, which has no metadata", req, decoded)
			}
			page.Items = append(page.Items, obj)
		}
	}
	return page, nil
}

// setMeta sets the fields that only the first part of a page carries.
func (l *List) setMeta(first *proto.List) {
	l.ResourceVersion = strconv.FormatUint(first.GetRevision(), 10)
	l.Continue = first.GetContinue()
	if remaining := first.GetRemaining(); l.Continue != "" && remaining >= 0 {
		l.Remaining = &remaining
	}
}
