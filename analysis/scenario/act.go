package scenario

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto/kinds"
)

// fieldManager is the scenario's field manager in managedFields.
const fieldManager = "podfall-scenario"

// apply applies the objects of a manifest one after the other.
func (p *Runner) apply(ctx context.Context, manifest string) error {
	documents := yaml.NewYAMLOrJSONDecoder(strings.NewReader(manifest), len(manifest))
	for {
		var obj unstructured.Unstructured
		err := documents.Decode(&obj.Object)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if len(obj.Object) == 0 {
			continue
		}
		if err := p.applyOne(ctx, &obj); err != nil {
			return err
		}
	}
}

func (p *Runner) applyOne(ctx context.Context, obj *unstructured.Unstructured) error {
	gvk := obj.GroupVersionKind()
	kind, ok := p.kinds.ByGVK(gvk)
	if !ok {
		if err := p.kinds.Load(ctx, p.cfg.Cluster); err != nil {
			return err
		}
		if kind, ok = p.kinds.ByGVK(gvk); !ok {
			return fmt.Errorf("there is no kind %s", gvk)
		}
	}
	target := podapi.Target{Kind: kind, Name: obj.GetName()}
	if kind.Namespaced {
		if target.Namespace = obj.GetNamespace(); target.Namespace == "" {
			target.Namespace = metav1.NamespaceDefault
		}
	}
	body, err := json.Marshal(obj.Object)
	if err != nil {
		return err
	}
	force := true
	_, err = p.cfg.Cluster.Patch(ctx, target, types.ApplyPatchType, body, metav1.PatchOptions{FieldManager: fieldManager, Force: &force})
	return err
}

func (p *Runner) delete(ctx context.Context, d Delete) error {
	target, err := p.resolve(ctx, d.Object)
	if err != nil {
		return err
	}
	opts := metav1.DeleteOptions{GracePeriodSeconds: d.Grace}
	if d.Propagation != "" {
		opts.PropagationPolicy = &d.Propagation
	}
	if d.Background {
		p.background.Go(func() { _, _ = p.cfg.Cluster.Delete(ctx, target, opts) })
		return nil
	}
	_, err = p.cfg.Cluster.Delete(ctx, target, opts)
	return checkRefusal(d.Refused, err)
}

func (p *Runner) evict(ctx context.Context, e Evict) error {
	target, err := p.resolve(ctx, e.Object)
	if err != nil {
		return err
	}
	target.Subresource = "eviction"
	body := fmt.Appendf(nil, `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":%q}}`, target.Name)
	_, err = p.cfg.Cluster.CreateRaw(ctx, target, kinds.ContentTypeJSON, body, metav1.CreateOptions{})
	return checkRefusal(e.Refused, err)
}

func (p *Runner) patch(ctx context.Context, what Patch) error {
	target, err := p.resolve(ctx, what.Object)
	if err != nil {
		return err
	}
	target.Subresource = what.Subresource
	_, err = p.cfg.Cluster.Patch(ctx, target, types.MergePatchType, bytes.TrimSpace(what.Merge), metav1.PatchOptions{FieldManager: fieldManager})
	return checkRefusal(what.Refused, err)
}

// checkRefusal compares a request's error with the wanted refusal. An empty part wants success.
func checkRefusal(part string, err error) error {
	switch {
	case part == "":
		return err
	case err == nil:
		return fmt.Errorf("it was done, want it refused with %q", part)
	case !strings.Contains(err.Error(), part):
		return fmt.Errorf("refused with %w, want %q in it", err, part)
	}
	return nil
}

// rememberUIDs stores the UIDs of objects under names.
func (p *Runner) rememberUIDs(ctx context.Context, names map[Ref]string) error {
	for ref, name := range names {
		target, err := p.resolve(ctx, ref)
		if err != nil {
			return err
		}
		obj, err := p.cfg.Cluster.Get(ctx, target, metav1.GetOptions{})
		if err != nil {
			return err
		}
		p.uids[name] = obj.GetUID()
	}
	return nil
}
