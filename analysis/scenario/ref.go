package scenario

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto/kinds"
)

// Ref names an object: pod/web, or other/pod/web in the namespace other. A label instead of the
// name, pod/app=web, means the one object with that label when the Ref is first used.
type Ref string

// resolve returns the object of a reference.
func (p *Runner) resolve(ctx context.Context, ref Ref) (podapi.Target, error) {
	target, err := ref.parse(p.kindFinder(ctx))
	if err != nil || !strings.Contains(target.Name, "=") {
		return target, err
	}
	if p.names[ref] == "" {
		label := target.Name
		target.Name = ""
		list, err := p.cfg.Cluster.List(ctx, target, metav1.ListOptions{LabelSelector: label})
		if err != nil {
			return target, err
		}
		if len(list.Items) != 1 {
			return target, fmt.Errorf("object %q: %d have that label, want one", ref, len(list.Items))
		}
		p.names[ref] = list.Items[0].GetName()
	}
	target.Name = p.names[ref]
	return target, nil
}

// parse returns the object of a reference, looking its kind up with find.
func (r Ref) parse(find func(alias string) (kinds.Kind, bool)) (podapi.Target, error) {
	namespace, rest := metav1.NamespaceDefault, string(r)
	parts := strings.Split(rest, "/")
	if len(parts) == 3 {
		namespace, parts = parts[0], parts[1:]
	}
	if len(parts) != 2 || parts[0] == "" || parts[1] == "" || namespace == "" {
		return podapi.Target{}, fmt.Errorf("object %q: want kind/name, or namespace/kind/name", r)
	}
	kind, ok := find(parts[0])
	if !ok {
		return podapi.Target{}, fmt.Errorf("object %q: there is no kind %q", r, parts[0])
	}
	if !kind.Namespaced {
		namespace = ""
	}
	return podapi.Target{Kind: kind, Namespace: namespace, Name: parts[1]}, nil
}
