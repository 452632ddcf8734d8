package client

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"

	"github.com/urfave/cli/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/podfall/podfall/internal/aliases"
	"github.com/podfall/podfall/internal/terminal"
)

func patchCommand(env Env) *cli.Command {
	return &cli.Command{
		Name:      "patch",
		Usage:     "change fields of an object",
		ArgsUsage: "(-f FILE | TYPE NAME) [-p PATCH | --patch-file FILE]",
		Flags: join(namespaceFlags(), filenameFlags(), []cli.Flag{
			&cli.StringFlag{Name: "patch", Aliases: []string{"p"}, Usage: "the patch, in JSON or YAML"},
			&cli.StringFlag{Name: "patch-file", Usage: "a file that holds the patch"},
			&cli.StringFlag{Name: "type", Value: "strategic", Usage: "json, merge or strategic"},
			&cli.StringFlag{Name: flagSubresource, Usage: "status, or another subresource"},
			outputFlag("json, yaml, name or jsonpath=…"),
			dryRunFlag(),
		}),
		Action: action(env, runPatch),
	}
}

func runPatch(ctx context.Context, c *call) error {
	kind, patch, err := c.patch()
	if err != nil {
		return err
	}
	run, err := c.dryRun()
	if err != nil {
		return err
	}
	if run == dryRunClient {
		return errors.New("podfall patches on the server only: use --dry-run=server")
	}
	printer, err := c.objectPrinter()
	if err != nil {
		return err
	}
	targets, errs, err := c.namedTargets(ctx)
	if err != nil {
		return err
	}
	api, err := c.api(ctx)
	if err != nil {
		return err
	}
	for _, v := range targets {
		before, err := api.Get(ctx, v.target, metav1.GetOptions{})
		if err != nil {
			errs = append(errs, err)
			continue
		}
		where := v.target
		where.Subresource = c.flags.String(flagSubresource)
		after, err := api.Patch(ctx, where, kind, patch, metav1.PatchOptions{DryRun: run.options(), FieldManager: fieldManager})
		switch {
		case err != nil:
			errs = append(errs, err)
		case printer != nil:
			errs = appendErr(errs, printer(after))
		case reflect.DeepEqual(before, after):
			terminal.Printf(c.stdout, "%s patched (no change)%s\n", qualified(v.target.Kind, v.target.Name), run.suffix())
		default:
			terminal.Printf(c.stdout, "%s patched%s\n", qualified(v.target.Kind, v.target.Name), run.suffix())
		}
	}
	return joined(errs)
}

func appendErr(errs []error, err error) []error {
	if err == nil {
		return errs
	}
	return append(errs, err)
}

// patch reads the flags that hold the patch; it is JSON when this returns.
func (c *call) patch() (types.PatchType, []byte, error) {
	text, file := c.flags.String("patch"), c.flags.String("patch-file")
	switch {
	case text != "" && file != "":
		return "", nil, errors.New("cannot specify --patch and --patch-file together")
	case text == "" && file == "":
		return "", nil, errors.New("must specify --patch or --patch-file containing the contents of the patch")
	}
	kind, err := patchType(c.flags.String("type"))
	if err != nil {
		return "", nil, err
	}
	patch := []byte(text)
	if file != "" {
		if patch, err = os.ReadFile(file); err != nil {
			return "", nil, fmt.Errorf("unable to read patch file: %w", err)
		}
	}
	if err := aliases.Check(patch, maxDocument); err != nil {
		return "", nil, fmt.Errorf("unable to parse %q: %w", text, err)
	}
	converted, err := yaml.YAMLToJSON(patch)
	if err != nil {
		return "", nil, fmt.Errorf("unable to parse %q: %w", text, err)
	}
	return kind, converted, nil
}

func patchType(name string) (types.PatchType, error) {
	switch strings.ToLower(name) {
	case "json":
		return types.JSONPatchType, nil
	case "merge":
		return types.MergePatchType, nil
	case "strategic":
		return types.StrategicMergePatchType, nil
	default:
		return "", fmt.Errorf("--type must be one of [json merge strategic], not %q", name)
	}
}

// namedTargets are the objects that arguments or manifests name; neither selectors nor
// whole kinds will do.
func (c *call) namedTargets(ctx context.Context) ([]victim, []error, error) {
	files, err := c.filenames()
	if err != nil {
		return nil, nil, err
	}
	args := c.flags.Args().Slice()
	namespace, explicit := c.namespace()
	var found []victim
	if len(files) > 0 {
		if len(args) > 0 {
			return nil, nil, errArgsAndFiles
		}
		all, errs := c.manifests(files, manifestScope{namespace, explicit, c.kinds(ctx)})
		for _, m := range all {
			found = append(found, victim{target: m.target(), source: m.source})
		}
		return found, errs, nil
	}
	selection, err := parseResources(args, c.kinds(ctx))
	if err == nil {
		err = aim{selection: selection, namespace: namespace}.check()
	}
	if err != nil {
		return nil, nil, err
	}
	for _, object := range selection.objects {
		found = append(found, victim{target: target(object.kind, namespace, object.name)})
	}
	return found, nil, nil
}
