package client

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podfall/podfall/internal/directory"
	"github.com/podfall/podfall/internal/openapi"
	"github.com/podfall/podfall/internal/terminal"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/client/explain"
)

// The flags of explain.
const (
	flagAPIVersion = "api-version"
	flagMaxDepth   = "max-depth"
)

func explainCommand(env Env) *cli.Command {
	return &cli.Command{
		Name:      "explain",
		Usage:     "say what a kind's fields are for",
		ArgsUsage: "TYPE[.FIELD...]",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: flagRecursive, Aliases: []string{"R"}, Usage: "the fields of fields too"},
			&cli.IntFlag{Name: flagMaxDepth, Usage: "how deep --recursive goes; 0 is all the way"},
			&cli.StringFlag{Name: flagAPIVersion, Usage: "another version of the kind: apps/v1beta1"},
			outputFlag("plaintext"),
		},
		Action: action(env, runExplain),
	}
}

func runExplain(ctx context.Context, c *call) error {
	args, depth, recursive := c.flags.Args().Slice(), c.flags.Int(flagMaxDepth), c.flags.Bool(flagRecursive)
	switch output := c.flags.String(flagOutput); {
	case len(args) == 0:
		return errors.New("You must specify the type of resource to explain. Use \"podfall api-resources\" for a complete list of supported resources.") //nolint:staticcheck,revive // kubectl's words
	case len(args) > 1:
		return errors.New("We accept only this format: explain RESOURCE") //nolint:staticcheck // kubectl's words
	case depth > 0 && !recursive:
		return errors.New("--max-depth requires --recursive")
	case depth < 0:
		return errors.New("--max-depth must be non-negative")
	case output != "" && output != "plaintext":
		return fmt.Errorf("--output %s is not available: want plaintext", output)
	}
	dir := directory.New()
	kind, path, err := c.explained(ctx, dir, args[0])
	if err != nil {
		return err
	}
	gvk := kind.GroupVersionKind
	if asked := c.flags.String(flagAPIVersion); asked != "" {
		gv, err := schema.ParseGroupVersion(asked)
		if err != nil {
			return err
		}
		gvk = gv.WithKind(kind.Kind)
		if kind, err = served(dir, gvk, kind.Resource); err != nil {
			return err
		}
	}
	models, name, err := modelsOf(dir, kind)
	if err != nil {
		return err
	}
	text, err := explain.Text(models, name, explain.Question{Kind: gvk, Path: path, Recursive: recursive, Depth: depth})
	if err != nil {
		return err
	}
	terminal.Printf(c.stdout, "%s", terminal.Text(text))
	return nil
}

// explained reads pods.spec.containers or deployments.apps.spec: a kind, and the way to a
// field. The cluster is asked only for a kind that is not built in.
func (c *call) explained(ctx context.Context, dir *directory.Directory, what string) (kinds.Kind, []string, error) {
	what = strings.TrimSuffix(what, ".")
	name, fields, _ := strings.Cut(what, ".")
	kind, ok := dir.ByAlias(name)
	if !ok {
		api, err := c.api(ctx)
		if err != nil {
			return kind, nil, err
		}
		if err := dir.Load(ctx, api); err != nil {
			return kind, nil, err
		}
		if kind, ok = dir.ByAlias(name); !ok {
			return kind, nil, fmt.Errorf("the server doesn't have a resource type %q", name)
		}
	}
	for _, other := range dir.All() {
		group := schema.GroupResource{Group: other.Group, Resource: other.Resource}.String()
		rest, named := strings.CutPrefix(what, group)
		if other.Resource == kind.Resource && other.Group != "" && named && (rest == "" || rest[0] == '.') {
			kind, fields = other, strings.TrimPrefix(rest, ".")
			break // the version that clients prefer comes first
		}
	}
	if fields == "" {
		return kind, nil, nil
	}
	return kind, strings.Split(fields, "."), nil
}

// served is a kind in a version that somebody has named.
func served(dir *directory.Directory, gvk schema.GroupVersionKind, resource string) (kinds.Kind, error) {
	kind, ok := dir.ByGVK(gvk)
	if !ok {
		return kind, fmt.Errorf("couldn't find resource for %q", gvk.GroupVersion().WithResource(resource))
	}
	return kind, nil
}

// modelsOf is what a kind is defined by.
func modelsOf(dir *directory.Directory, kind kinds.Kind) (models openapi.Models, name string, err error) {
	definitions := openapi.BuiltIn()
	if !kind.Custom {
		name = definitions.Name(kind.GroupVersionKind)
		return definitions.Closure(name), name, nil
	}
	crd := dir.CRD(kind.GroupResource())
	if crd == nil {
		return nil, "", fmt.Errorf("the server doesn't have a resource type %q", kind.Resource)
	}
	custom, err := openapi.FromCRD(crd, kind.Version)
	if err != nil {
		return nil, "", err
	}
	return definitions.Complete(custom), openapi.CustomName(kind.GroupVersionKind), nil
}
