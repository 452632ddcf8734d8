package gateway

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/internal/podview"
	"github.com/podfall/podfall/proto/kinds"
)

// printer converts objects of one kind to what a form asks for.
type printer struct {
	kind    kinds.Kind
	form    form
	include metav1.IncludeObjectPolicy
	view    podview.View
	// columns are a custom kind's; nil for a built-in kind.
	columns *podview.CustomColumns
}

// convertObject converts an object to the form's shape. A Status stays as it is.
func (p printer) convertObject(obj runtime.Object) runtime.Object {
	object, ok := obj.(kinds.Object)
	if !ok {
		return obj
	}
	switch p.form.as {
	case asTable:
		return p.newTable(object)
	case asPartial, asPartialList:
		return p.partialMetadata(object)
	case asObject:
	}
	return obj
}

// convertPage converts a page to the form's shape.
func (p printer) convertPage(page *podapi.List) (runtime.Object, error) {
	head := metav1.ListMeta{
		ResourceVersion: page.ResourceVersion, Continue: page.Continue, RemainingItemCount: page.Remaining,
	}
	switch p.form.as {
	case asTable:
		table := p.newTable(page.Items...)
		table.ListMeta = head
		return table, nil
	case asPartial, asPartialList:
		list := &metav1.PartialObjectMetadataList{
			TypeMeta: p.typeMeta("PartialObjectMetadataList"), ListMeta: head,
			Items: make([]metav1.PartialObjectMetadata, 0, len(page.Items)),
		}
		for _, item := range page.Items {
			list.Items = append(list.Items, *p.partialMetadata(item))
		}
		return list, nil
	case asObject:
	}
	return newList(p.kind, head, page.Items)
}

func (p printer) typeMeta(kind string) metav1.TypeMeta {
	gv := schema.GroupVersion{Group: metav1.GroupName, Version: p.form.metaVersion}
	return metav1.TypeMeta{Kind: kind, APIVersion: gv.String()}
}

func (p printer) partialMetadata(obj kinds.Object) *metav1.PartialObjectMetadata {
	partial := podview.Partial(obj)
	partial.TypeMeta = p.typeMeta("PartialObjectMetadata")
	return partial
}

// newTable returns objects as rows (PRN-01). Each row includes as much of its object as the client
// wants.
func (p printer) newTable(objs ...kinds.Object) *metav1.Table {
	of := p.kind.GroupVersionKind
	if len(objs) == 1 { // a subresource may have another kind, for example Scale
		of = objs[0].GetObjectKind().GroupVersionKind()
	}
	table := p.view.Table(of, objs...)
	if p.columns != nil && of.Kind == p.kind.Kind {
		table = p.columns.Table(p.view, objs)
	}
	table.TypeMeta = p.typeMeta("Table")
	for i, obj := range objs {
		switch p.include {
		case metav1.IncludeNone:
			table.Rows[i].Object = runtime.RawExtension{}
		case metav1.IncludeObject:
		case metav1.IncludeMetadata, "":
			table.Rows[i].Object = runtime.RawExtension{Object: p.partialMetadata(obj)}
		}
	}
	if len(objs) == 1 {
		table.ResourceVersion = objs[0].GetResourceVersion()
	}
	return table
}

// newList returns the kind's own list. Items of built-in kinds do not repeat their kind.
func newList(kind kinds.Kind, head metav1.ListMeta, items []kinds.Object) (runtime.Object, error) {
	if kind.Custom {
		return newUnstructuredList(kind.GroupVersion().WithKind(kind.ListKind), head, items)
	}
	gvk := kind.GroupVersion().WithKind(kind.Kind + "List")
	list, err := kinds.Scheme().New(gvk)
	if err != nil {
		return nil, fmt.Errorf("list of %s: %w", kind.Kind, err)
	}
	objs := make([]runtime.Object, len(items))
	for i, item := range items {
		item.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
		objs[i] = item
	}
	if err := meta.SetList(list, objs); err != nil {
		return nil, fmt.Errorf("list of %s: %w", kind.Kind, err)
	}
	accessor, err := meta.ListAccessor(list)
	if err != nil {
		return nil, fmt.Errorf("list of %s: %w", kind.Kind, err)
	}
	accessor.SetResourceVersion(head.ResourceVersion)
	accessor.SetContinue(head.Continue)
	accessor.SetRemainingItemCount(head.RemainingItemCount)
	list.GetObjectKind().SetGroupVersionKind(gvk)
	return list, nil
}

func newUnstructuredList(gvk schema.GroupVersionKind, head metav1.ListMeta, items []kinds.Object) (runtime.Object, error) {
	list := &unstructured.UnstructuredList{Items: make([]unstructured.Unstructured, 0, len(items))}
	list.SetGroupVersionKind(gvk)
	list.SetResourceVersion(head.ResourceVersion)
	list.SetContinue(head.Continue)
	list.SetRemainingItemCount(head.RemainingItemCount)
	for _, item := range items {
		custom, ok := item.(*unstructured.Unstructured)
		if !ok {
			return nil, fmt.Errorf("list of %s: it holds a %T", gvk.Kind, item)
		}
		list.Items = append(list.Items, *custom)
	}
	return list, nil
}

func noResource() schema.GroupResource { return schema.GroupResource{Group: corev1.GroupName} }
