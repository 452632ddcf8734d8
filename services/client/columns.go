package client

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"text/tabwriter"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/jsonpath"

	"github.com/podfall/podfall/internal/terminal"
)

// columnPrinter is -o custom-columns=TITLE:PATH,….
type columnPrinter struct {
	titles []string
	paths  []*jsonpath.JSONPath
	header bool
}

func newColumnPrinter(spec string, noHeader bool) (*columnPrinter, error) {
	if spec == "" {
		return nil, errors.New("custom-columns format specified but no custom columns given")
	}
	p := &columnPrinter{header: !noHeader}
	for column := range strings.SplitSeq(spec, ",") {
		title, path, ok := strings.Cut(column, ":")
		if !ok {
			return nil, fmt.Errorf("unexpected custom-columns spec: %s, expected <header>:<json-path-expr>", column)
		}
		parsed, err := parsePathExpression(title, path)
		if err != nil {
			return nil, err
		}
		p.titles, p.paths = append(p.titles, title), append(p.paths, parsed)
	}
	return p, nil
}

// parsePathExpression reads a JSONPath whose braces and leading dot may be missing.
func parsePathExpression(name, expression string) (*jsonpath.JSONPath, error) {
	relaxed, err := relax(expression)
	if err != nil {
		return nil, err
	}
	path := jsonpath.New(name).AllowMissingKeys(true)
	if err := path.Parse(relaxed); err != nil {
		return nil, err
	}
	return path, nil
}

// relax is a JSONPath with the braces and the dot that people leave out.
func relax(expression string) (string, error) {
	if expression == "" {
		return "", nil
	}
	form := regexp.MustCompile(`^\{\.?([^{}]+)\}$|^\.?([^{}]+)$`)
	parts := form.FindStringSubmatch(expression)
	if parts == nil {
		return "", fmt.Errorf("unexpected path string, expected a 'name1.name2' or '.name1.name2' or '{name1.name2}' or '{.name1.name2}'")
	}
	return "{." + parts[1] + parts[2] + "}", nil
}

// PrintObj prints a row for an object, or one for each item of a list.
func (p *columnPrinter) PrintObj(obj runtime.Object, out io.Writer) error {
	w := tabwriter.NewWriter(out, 6, 4, 3, ' ', 0)
	if p.header {
		terminal.Row(w, p.titles...)
		p.header = false
	}
	rows := []map[string]any{}
	switch typed := obj.(type) {
	case *unstructured.UnstructuredList:
		for _, item := range typed.Items {
			rows = append(rows, item.Object)
		}
	case *unstructured.Unstructured:
		rows = append(rows, typed.Object)
	}
	for _, row := range rows {
		cells := make([]string, len(p.paths))
		for i, path := range p.paths {
			values, err := lookUpPath(path, row)
			if err != nil {
				return err
			}
			cells[i] = "<none>"
			if len(values) > 0 {
				texts := make([]string, len(values))
				for j, value := range values {
					texts[j] = fmt.Sprint(value)
				}
				cells[i] = strings.Join(texts, ",")
			}
		}
		terminal.Row(w, cells...)
	}
	return w.Flush()
}

// lookUpPath is the values at a path, nils left out.
func lookUpPath(path *jsonpath.JSONPath, object map[string]any) ([]any, error) {
	found, err := path.FindResults(object)
	if err != nil {
		return nil, err
	}
	var values []any
	for _, list := range found {
		for _, value := range list {
			if value.IsValid() && value.CanInterface() && value.Interface() != nil {
				values = append(values, value.Interface())
			}
		}
	}
	return values, nil
}
