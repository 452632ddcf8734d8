package client

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/podfall/podfall/proto/kinds"
)

// printFunc prints one object, or a list, for a program.
type printFunc func(obj runtime.Object) error

// getOutput is how a get prints: for people with table, for programs with machine.
type getOutput struct {
	table   printers.PrintOptions
	machine printFunc
}

// getOutput reads -o and the flags that change a table.
func (c *call) getOutput() (getOutput, error) {
	format := c.flags.String(flagOutput)
	var out getOutput
	if format != "" && format != "wide" {
		if c.flags.Bool("show-labels") {
			return getOutput{}, fmt.Errorf("--show-labels option cannot be used with %s printer", format)
		}
		machine, err := c.machinePrinter(format)
		out.machine = machine
		return out, err
	}
	out.table = printers.PrintOptions{
		NoHeaders:     c.flags.Bool(flagNoHeaders),
		WithNamespace: c.flags.Bool(flagAllNamespaces),
		WithKind:      c.flags.Bool("show-kind"),
		Wide:          format == "wide",
		ShowLabels:    c.flags.Bool("show-labels"),
		ColumnLabels:  c.flags.StringSlice("label-columns"),
	}
	return out, nil
}

// objectPrinter is the printer that -o asks for; nil when it asks for none.
func (c *call) objectPrinter() (printFunc, error) {
	format := c.flags.String(flagOutput)
	if format == "" {
		return nil, nil
	}
	return c.machinePrinter(format)
}

// machinePrinter is the printer of a format for programs.
func (c *call) machinePrinter(format string) (printFunc, error) {
	name, template, hasTemplate := strings.Cut(format, "=")
	var printer printers.ResourcePrinter
	var err error
	switch {
	case name == "json" && !hasTemplate:
		printer = &printers.JSONPrinter{}
	case name == "yaml" && !hasTemplate:
		printer = &printers.YAMLPrinter{}
	case name == "name" && !hasTemplate:
		printer = &printers.NamePrinter{}
	case name == "jsonpath" || name == "jsonpath-as-json":
		printer, err = jsonPathPrinter(name, template)
	case name == "go-template":
		printer, err = goTemplatePrinter(template)
	case name == "custom-columns":
		printer, err = newColumnPrinter(template, c.flags.Bool(flagNoHeaders))
	default:
		err = fmt.Errorf("unable to match a printer suitable for the output format %q, allowed formats are: custom-columns,go-template,json,jsonpath,jsonpath-as-json,name,wide,yaml", format)
	}
	if err != nil {
		return nil, err
	}
	return func(obj runtime.Object) error {
		plain, err := asUnstructured(obj)
		if err != nil {
			return err
		}
		if !c.flags.Bool("show-managed-fields") {
			dropManaged(plain)
		}
		return printer.PrintObj(plain, c.env.Stdout)
	}, nil
}

func jsonPathPrinter(name, template string) (printers.ResourcePrinter, error) {
	if template == "" {
		return nil, errors.New("template format specified but no template given")
	}
	printer, err := printers.NewJSONPathPrinter(template)
	if err != nil {
		return nil, fmt.Errorf("error parsing jsonpath %s, %w", template, err)
	}
	printer.AllowMissingKeys(true)
	printer.EnableJSONOutput(name == "jsonpath-as-json")
	return printer, nil
}

func goTemplatePrinter(template string) (printers.ResourcePrinter, error) {
	if template == "" {
		return nil, errors.New("template format specified but no template given")
	}
	printer, err := printers.NewGoTemplatePrinter([]byte(template))
	if err != nil {
		return nil, fmt.Errorf("error parsing template %s, %w", template, err)
	}
	printer.AllowMissingKeys(true)
	return printer, nil
}

// dropManaged takes the managed fields out of what is printed.
func dropManaged(obj runtime.Object) {
	switch typed := obj.(type) {
	case *unstructured.Unstructured:
		unstructured.RemoveNestedField(typed.Object, "metadata", "managedFields")
	case *unstructured.UnstructuredList:
		for i := range typed.Items {
			dropManaged(&typed.Items[i])
		}
	case *metav1.WatchEvent:
		dropManaged(typed.Object.Object)
	}
}

// asUnstructured is obj as a map, whose keys print in order as kubectl's do.
func asUnstructured(obj runtime.Object) (runtime.Object, error) {
	switch typed := obj.(type) {
	case *unstructured.Unstructured, *unstructured.UnstructuredList:
		return obj, nil
	case *metav1.WatchEvent:
		inner, err := asUnstructured(typed.Object.Object)
		if err != nil {
			return nil, err
		}
		return &metav1.WatchEvent{Type: typed.Type, Object: runtime.RawExtension{Object: inner}}, nil
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, fmt.Errorf("print %T: %w", obj, err)
	}
	if meta.IsListType(obj) {
		list := &unstructured.UnstructuredList{}
		list.SetUnstructuredContent(fields)
		return list, nil
	}
	plain := &unstructured.Unstructured{Object: fields}
	if plain.GetKind() == "" {
		if gvk, err := kinds.GVK(obj); err == nil {
			plain.SetGroupVersionKind(gvk)
		}
	}
	return plain, nil
}

// asList is all objects as one List.
func asList(groups []group) (runtime.Object, error) {
	list := &unstructured.UnstructuredList{Object: map[string]any{
		"kind": "List", "apiVersion": "v1", "metadata": map[string]any{"resourceVersion": ""},
	}}
	for _, g := range groups {
		for _, obj := range g.objects {
			plain, err := asUnstructured(obj)
			if err != nil {
				return nil, err
			}
			list.Items = append(list.Items, *plain.(*unstructured.Unstructured)) //nolint:errcheck,forcetypeassert // an object with metadata is never a list
		}
	}
	return list, nil
}

// tableWriter prints tables one after the other under one header.
type tableWriter struct{ printer printers.ResourcePrinter }

// tablePrinter prints objects of the kind; withKind puts the type in front of names.
func (c *call) tablePrinter(kind kinds.Kind, options printers.PrintOptions, withKind bool) tableWriter {
	options.WithKind = options.WithKind || withKind
	options.WithNamespace = options.WithNamespace && kind.Namespaced
	options.Kind = kind.GroupKind()
	return tableWriter{printers.NewTablePrinter(options)}
}

// print prints a table's rows, with their event if there is one.
func (t tableWriter) print(event string, table *metav1.Table, out io.Writer) error {
	if event == "" {
		return t.printer.PrintObj(table, out)
	}
	return t.printer.PrintObj(&metav1.WatchEvent{Type: event, Object: runtime.RawExtension{Object: table}}, out)
}

// countingWriter counts what passes.
type countingWriter struct {
	out   io.Writer
	count int
}

// Write implements io.Writer.
func (w *countingWriter) Write(text []byte) (int, error) {
	w.count += len(text)
	return w.out.Write(text)
}
