package podview

import (
	"bytes"
	"reflect"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/jsonpath"

	"github.com/podfall/podfall/proto/kinds"
)

// CustomColumns are the printer columns of a CustomResourceDefinition (upstream's tableconvertor,
// which would pull in an API server's libraries).
type CustomColumns struct {
	definitions []apiextensionsv1.CustomResourceColumnDefinition
	paths       []*jsonpath.JSONPath
}

// CustomColumnsOf returns the columns of one version of a definition; nil for nil.
func CustomColumnsOf(crd *apiextensionsv1.CustomResourceDefinition, version string) *CustomColumns {
	if crd == nil {
		return nil
	}
	c := &CustomColumns{}
	for _, served := range crd.Spec.Versions {
		if served.Name == version {
			c.definitions = served.AdditionalPrinterColumns
		}
	}
	if len(c.definitions) == 0 {
		c.definitions = []apiextensionsv1.CustomResourceColumnDefinition{{
			Name: "Age", Type: "date", JSONPath: ".metadata.creationTimestamp",
			Description: metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"],
		}}
	}
	for _, column := range c.definitions {
		path := jsonpath.New(column.Name).AllowMissingKeys(true)
		if err := path.Parse("{" + column.JSONPath + "}"); err != nil {
			path = nil // the apiserver has accepted the definition; the column stays empty
		}
		c.paths = append(c.paths, path)
	}
	return c
}

// header returns the column definitions of the Table.
func (c *CustomColumns) header() []metav1.TableColumnDefinition {
	header := Columns(metav1.SchemeGroupVersion.WithKind(""))[:1] // the name column of every kind
	for _, column := range c.definitions {
		description := column.Description
		if description == "" {
			description = "Custom resource definition column (in JSONPath format): " + column.JSONPath
		}
		header = append(header, metav1.TableColumnDefinition{
			Name: column.Name, Type: column.Type, Format: column.Format, Description: description, Priority: column.Priority,
		})
	}
	return header
}

// cells returns the values of one object; nil for missing values.
func (c *CustomColumns) cells(view View, obj kinds.Object) []any {
	cells := []any{obj.GetName()}
	custom, ok := obj.(*unstructured.Unstructured)
	for i, column := range c.definitions {
		if !ok || c.paths[i] == nil {
			cells = append(cells, nil)
			continue
		}
		cells = append(cells, customCell(view, column.Type, c.paths[i], custom.Object))
	}
	return cells
}

func customCell(view View, as string, path *jsonpath.JSONPath, obj map[string]any) any {
	results, err := path.FindResults(obj)
	if err != nil || len(results) == 0 || len(results[0]) == 0 {
		return nil
	}
	value := results[0][0].Interface()
	if as == "string" {
		var text bytes.Buffer
		if path.PrintResults(&text, []reflect.Value{reflect.ValueOf(value)}) != nil {
			return nil
		}
		return text.String()
	}
	return convertValue(view, as, value)
}

// convertValue converts a value to its column's type; nil if it has another type.
func convertValue(view View, as string, value any) any {
	switch v := value.(type) {
	case int64:
		if as == "number" {
			return float64(v)
		}
		if as == "integer" {
			return v
		}
	case float64:
		if as == "integer" {
			return int64(v)
		}
		if as == "number" {
			return v
		}
	case bool:
		if as == "boolean" {
			return v
		}
	case string:
		if as == "date" {
			return formatAge(view, v)
		}
	}
	return nil
}

func formatAge(view View, stamp string) string {
	at, err := time.Parse(time.RFC3339, stamp)
	if err != nil {
		return "<invalid>"
	}
	return view.Since(at)
}

// Table returns objects as rows under the columns, as [View.Table] does for a built-in kind.
func (c *CustomColumns) Table(view View, objs []kinds.Object) *metav1.Table {
	table := &metav1.Table{
		TypeMeta:          metav1.TypeMeta{Kind: "Table", APIVersion: metav1.SchemeGroupVersion.String()},
		ColumnDefinitions: c.header(),
		Rows:              make([]metav1.TableRow, 0, len(objs)),
	}
	for _, obj := range objs {
		row := metav1.TableRow{Cells: c.cells(view, obj)}
		row.Object.Object = obj
		table.Rows = append(table.Rows, row)
	}
	return table
}
