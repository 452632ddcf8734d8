package client

import (
	"context"
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/podfall/podfall/internal/terminal"
	"github.com/podfall/podfall/proto/kinds"
)

// fieldManager is the name under which this client writes.
const fieldManager = "podfall"

func createCommand(env Env) *cli.Command {
	return &cli.Command{
		Name:      "create",
		Usage:     "create the objects of manifests",
		ArgsUsage: "-f FILE",
		Flags: join(namespaceFlags(), filenameFlags(), []cli.Flag{
			outputFlag("json, yaml, name or jsonpath=…"),
			dryRunFlag(),
			validateFlag(),
			&cli.BoolFlag{Name: "save-config", Usage: "record the manifest for a later apply"},
		}),
		Action: action(env, runCreate),
	}
}

func runCreate(ctx context.Context, c *call) error {
	writer, err := c.manifestWriter()
	if err != nil {
		return err
	}
	found, errs, err := c.readManifests(ctx, "create")
	if err != nil {
		return err
	}
	for _, m := range found {
		if c.flags.Bool("save-config") {
			if err := annotate(m); err != nil {
				errs = append(errs, whileDoing("creating", m.source, err))
				continue
			}
		}
		if err := writer.create(ctx, m); err != nil {
			errs = append(errs, err)
		}
	}
	return joined(errs)
}

// readManifests is the objects that -f names for a command that needs at least one.
func (c *call) readManifests(ctx context.Context, doing string) ([]manifest, []error, error) {
	files, err := c.filenames()
	if err != nil {
		return nil, nil, err
	}
	if len(files) == 0 {
		return nil, nil, fmt.Errorf("must specify one of -f and -k")
	}
	if args := c.flags.Args().Slice(); len(args) > 0 {
		return nil, nil, fmt.Errorf("Unexpected args: %v", args) //nolint:staticcheck // kubectl's text
	}
	namespace, explicit := c.namespace()
	found, errs := c.manifests(files, manifestScope{namespace, explicit, c.kinds(ctx)})
	if len(found) == 0 && len(errs) == 0 {
		return nil, nil, errors.New("no objects passed to " + doing)
	}
	return found, errs, nil
}

// manifestWriter carries manifests to the server for create and apply.
type manifestWriter struct {
	*call
	run        dryRun
	validation string
	// printer is nil when each object gets a line.
	printer printFunc
}

func (c *call) manifestWriter() (*manifestWriter, error) {
	run, err := c.dryRun()
	if err != nil {
		return nil, err
	}
	validation, err := c.fieldValidation()
	if err != nil {
		return nil, err
	}
	printer, err := c.objectPrinter()
	if err != nil {
		return nil, err
	}
	return &manifestWriter{call: c, run: run, validation: validation, printer: printer}, nil
}

// create creates one object.
func (w *manifestWriter) create(ctx context.Context, m manifest) error {
	if w.run == dryRunClient {
		return w.report(m, m.object, "created")
	}
	body, err := m.object.MarshalJSON()
	if err != nil {
		return whileDoing("creating", m.source, err)
	}
	api, err := w.api(ctx)
	if err != nil {
		return err
	}
	where := m.target()
	where.Name = ""
	created, err := api.CreateRaw(ctx, where, kinds.ContentTypeJSON, body, metav1.CreateOptions{
		DryRun: w.run.options(), FieldManager: fieldManager, FieldValidation: w.validation,
	})
	if err != nil {
		return whileDoing("creating", m.source, err)
	}
	m.object.SetName(created.GetName()) // it may have been generated
	return w.report(m, created, "created")
}

// report prints the object as -o asks, or a line that says what was done.
func (w *manifestWriter) report(m manifest, obj runtime.Object, done string) error {
	if w.printer != nil {
		return w.printer(obj)
	}
	terminal.Printf(w.stdout, "%s %s%s\n", m.name(), done, w.run.suffix())
	return nil
}

// annotate records the manifest in the object itself, for a later apply.
func annotate(m manifest) error {
	config, err := lastApplied(m)
	if err != nil {
		return err
	}
	annotations := m.object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[corev1.LastAppliedConfigAnnotation] = config
	m.object.SetAnnotations(annotations)
	return nil
}

// lastApplied is the manifest as the annotation holds it: without the annotation, and
// with a newline at the end.
func lastApplied(m manifest) (string, error) {
	bare := m.object.DeepCopy()
	annotations := bare.GetAnnotations()
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	if annotations == nil {
		annotations = map[string]string{}
	}
	// An empty map, as kubectl leaves it there.
	if err := setAnnotations(bare.Object, annotations); err != nil {
		return "", err
	}
	data, err := bare.MarshalJSON()
	return string(data), err
}
