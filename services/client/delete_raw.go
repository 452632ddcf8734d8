package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podfall/podfall/internal/podapi"
)

// runDeleteRaw is delete --raw: the path says what, a file may hold the options, and
// the answer is printed as it came.
func runDeleteRaw(ctx context.Context, c *call, raw string, plan deletePlan) error {
	files := c.flags.StringSlice(flagFilename)
	switch {
	case len(files) > 1:
		return errors.New("--raw can only use a single local file or stdin")
	case len(files) == 1 && isURL(files[0]):
		return errors.New("--raw cannot read from a url")
	case c.flags.Bool(flagRecursive):
		return errors.New("--raw and --recursive are mutually exclusive")
	}
	where, err := parsePath(raw, c.kinds(ctx))
	if err != nil {
		return err
	}
	var opts metav1.DeleteOptions
	if len(files) == 1 {
		body, err := c.readFile(files[0])
		if err != nil {
			return err
		}
		if err := json.Unmarshal(body, &opts); err != nil {
			return fmt.Errorf("%s: not DeleteOptions in JSON: %w", files[0], err)
		}
	}
	if plan.force {
		c.warn("Immediate deletion does not wait for confirmation that the running resource has been terminated. The resource may continue to run on the cluster indefinitely.")
	}
	api, err := c.api(ctx)
	if err != nil {
		return err
	}
	answer, err := api.Delete(ctx, where, opts)
	if err != nil {
		return err
	}
	return json.NewEncoder(c.env.Stdout).Encode(answer)
}

// parsePath reads /api/v1/namespaces/NS/pods/NAME and its like.
func parsePath(raw string, find *finder) (podapi.Target, error) {
	parsed, err := url.ParseRequestURI(raw)
	if err != nil {
		return podapi.Target{}, fmt.Errorf("--raw must be a valid URL path: %w", err)
	}
	parts := strings.Split(strings.Trim(parsed.Path, "/"), "/")
	var group schema.GroupVersion
	switch {
	case len(parts) > 2 && parts[0] == "api":
		group, parts = schema.GroupVersion{Version: parts[1]}, parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		group, parts = schema.GroupVersion{Group: parts[1], Version: parts[2]}, parts[3:]
	default:
		return podapi.Target{}, fmt.Errorf("--raw %s: want /api/v1/… or /apis/GROUP/VERSION/…", raw)
	}
	namespace := ""
	if len(parts) > 3 && parts[0] == "namespaces" {
		namespace, parts = parts[1], parts[2:]
	}
	kind, ok, err := find.path(group.WithResource(parts[0]))
	if err != nil {
		return podapi.Target{}, err
	}
	if !ok || len(parts) != 2 {
		return podapi.Target{}, fmt.Errorf("--raw %s: names no object that can be deleted", raw)
	}
	return target(kind, namespace, parts[1]), nil
}
