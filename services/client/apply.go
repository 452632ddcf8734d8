package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/podfall/podfall/proto/kinds"
)

func applyCommand(env Env) *cli.Command {
	return &cli.Command{
		Name:      "apply",
		Usage:     "make the cluster's objects what manifests say",
		ArgsUsage: "-f FILE",
		Flags: join(namespaceFlags(), filenameFlags(), []cli.Flag{
			outputFlag("json, yaml, name or jsonpath=…"),
			dryRunFlag(),
			validateFlag(),
			&cli.BoolFlag{Name: "server-side", Usage: "not served"},
		}),
		Action: action(env, runApply),
	}
}

func runApply(ctx context.Context, c *call) error {
	if c.flags.Bool("server-side") {
		return errors.New("podfall does not track who owns which field, so that there is no server-side apply; leave --server-side out")
	}
	writer, err := c.manifestWriter()
	if err != nil {
		return err
	}
	found, errs, err := c.readManifests(ctx, "apply")
	if err != nil {
		return err
	}
	for _, m := range found {
		if err := writer.apply(ctx, m); err != nil {
			errs = append(errs, err)
		}
	}
	return joined(errs)
}

// apply creates the object, or patches it with what the manifest has changed since it
// was last applied.
func (w *manifestWriter) apply(ctx context.Context, m manifest) error {
	if m.object.GetName() == "" {
		if prefix := m.object.GetGenerateName(); prefix != "" {
			return fmt.Errorf("from %s: cannot use generate name with apply", prefix)
		}
	}
	api, err := w.api(ctx)
	if err != nil {
		return err
	}
	current, err := api.Get(ctx, m.target(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		if err := annotate(m); err != nil {
			return whileDoing("creating", m.source, err)
		}
		return w.create(ctx, m)
	}
	if err != nil {
		return whileDoing("retrieving current configuration from server for:", m.source, err)
	}
	if _, ok := current.GetAnnotations()[corev1.LastAppliedConfigAnnotation]; !ok {
		w.warn(fmt.Sprintf("resource %s is missing the %s annotation which is required by podfall apply. podfall apply should only be used on resources created declaratively by either podfall create --save-config or podfall apply. The missing annotation will be patched automatically.",
			resourceName(m.kind, m.object.GetName()), corev1.LastAppliedConfigAnnotation))
	}
	patch, patchType, err := threeWay(m, current)
	if err != nil {
		return whileDoing("applying patch to:", m.source, err)
	}
	unchanged := string(patch) == "{}"
	if w.run != dryRunClient && !unchanged {
		current, err = api.Patch(ctx, m.target(), patchType, patch, metav1.PatchOptions{
			DryRun: w.run.options(), FieldManager: fieldManager, FieldValidation: w.validation,
		})
		if err != nil {
			return whileDoing(fmt.Sprintf("applying patch:\n%s\nto:\n%s\nfor:", patch, m.target()), m.source, err)
		}
	}
	if current.GetDeletionTimestamp() != nil {
		w.warn(fmt.Sprintf("Detected changes to resource %s which is currently being deleted.", current.GetName()))
	}
	if unchanged {
		return w.report(m, current, "unchanged")
	}
	return w.report(m, current, "configured")
}

// threeWay is the patch that makes current what the manifest says, and removes what an
// earlier one said and this one does not. Fields that no manifest has named stay.
// Custom resources have no Go type that says how their lists merge: theirs are replaced.
func threeWay(m manifest, current kinds.Object) ([]byte, types.PatchType, error) {
	if err := annotate(m); err != nil {
		return nil, "", err
	}
	modified, err := m.object.MarshalJSON()
	if err != nil {
		return nil, "", err
	}
	live, err := json.Marshal(current)
	if err != nil {
		return nil, "", err
	}
	original := []byte(current.GetAnnotations()[corev1.LastAppliedConfigAnnotation])
	if m.kind.Custom {
		patch, err := jsonmergepatch.CreateThreeWayJSONMergePatch(original, modified, live)
		return patch, types.MergePatchType, err
	}
	typed, err := kinds.New(m.kind.GroupVersionKind)
	if err != nil {
		return nil, "", err
	}
	schema, err := strategicpatch.NewPatchMetaFromStruct(typed)
	if err != nil {
		return nil, "", err
	}
	patch, err := strategicpatch.CreateThreeWayMergePatch(original, modified, live, schema, true)
	return patch, types.StrategicMergePatchType, err
}

// setAnnotations sets the map itself, which an unstructured object's own setter removes
// when it is empty.
func setAnnotations(object map[string]any, annotations map[string]string) error {
	return unstructured.SetNestedStringMap(object, annotations, "metadata", "annotations")
}
