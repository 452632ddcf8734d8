// Package podview formats objects as table rows: pods above all, and other kinds that matter for a
// deletion. An API server does the same for a Table request, so that the client and the gateway
// print the same rows. It is pure: [View] carries the time and the release to imitate.
package podview

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
)

// View is what rows depend on besides their objects.
type View struct {
	// Now is the time from which ages count back.
	Now time.Time
	// Compat is the release to imitate.
	Compat proto.Compat
}

// Table returns objs as rows under the columns of gvk. Each row carries its whole object; see
// [Partial] for a server's default. The caller sets resource version and continue token.
func (v View) Table(gvk schema.GroupVersionKind, objs ...kinds.Object) *metav1.Table {
	sheet := printerFor(gvk)
	table := &metav1.Table{
		TypeMeta:          metav1.TypeMeta{Kind: "Table", APIVersion: metav1.SchemeGroupVersion.String()},
		ColumnDefinitions: sheet.columns,
		Rows:              make([]metav1.TableRow, 0, len(objs)),
	}
	for _, obj := range objs {
		table.Rows = append(table.Rows, v.newRow(sheet, obj))
	}
	return table
}

// Columns returns the columns of a kind: its own, or NAME and AGE.
func Columns(gvk schema.GroupVersionKind) []metav1.TableColumnDefinition {
	return printerFor(gvk).columns
}

// Row returns one object as a row under the columns of gvk.
func (v View) Row(gvk schema.GroupVersionKind, obj kinds.Object) metav1.TableRow {
	return v.newRow(printerFor(gvk), obj)
}

func (v View) newRow(sheet printer, obj kinds.Object) metav1.TableRow {
	row := metav1.TableRow{Cells: sheet.cells(v, obj), Object: runtime.RawExtension{Object: obj}}
	if phase, ok := phaseOf(obj); ok {
		row.Conditions = rowConditions(phase)
	}
	return row
}

// Partial returns the metadata of an object, which a Table's row carries by default (PRN-01).
func Partial(obj kinds.Object) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{Kind: "PartialObjectMetadata", APIVersion: metav1.SchemeGroupVersion.String()},
		ObjectMeta: metav1.ObjectMeta{
			Name:                       obj.GetName(),
			GenerateName:               obj.GetGenerateName(),
			Namespace:                  obj.GetNamespace(),
			UID:                        obj.GetUID(),
			ResourceVersion:            obj.GetResourceVersion(),
			Generation:                 obj.GetGeneration(),
			CreationTimestamp:          obj.GetCreationTimestamp(),
			DeletionTimestamp:          obj.GetDeletionTimestamp(),
			DeletionGracePeriodSeconds: obj.GetDeletionGracePeriodSeconds(),
			Labels:                     obj.GetLabels(),
			Annotations:                obj.GetAnnotations(),
			OwnerReferences:            obj.GetOwnerReferences(),
			Finalizers:                 obj.GetFinalizers(),
			ManagedFields:              obj.GetManagedFields(),
		},
	}
}

// printer prints one kind: as many cells as columns.
type printer struct {
	columns []metav1.TableColumnDefinition
	cells   func(View, kinds.Object) []any
}

// newPrinter builds a printer for objects of type T. An object of another type gets its name, and
// blanks.
func newPrinter[T kinds.Object](cells func(View, T) []any, columns ...metav1.TableColumnDefinition) printer {
	return printer{
		columns: columns,
		cells: func(v View, obj kinds.Object) []any {
			if typed, ok := obj.(T); ok {
				return cells(v, typed)
			}
			blank := make([]any, len(columns))
			for i := range blank {
				blank[i] = ""
			}
			blank[0] = obj.GetName()
			return blank
		},
	}
}

// printerFor returns the printer of a kind, or one with name and age.
func printerFor(gvk schema.GroupVersionKind) printer {
	for _, group := range []func(schema.GroupVersionKind) (printer, bool){
		corePrinter, workloadPrinter, networkPrinter, configPrinter, policyPrinter, storagePrinter,
	} {
		if s, ok := group(gvk); ok {
			return s
		}
	}
	return newPrinter(func(v View, obj kinds.Object) []any {
		return []any{obj.GetName(), v.objectAge(obj)}
	}, nameColumn(), ageColumn())
}

// nameColumn is the first column of every kind but Event.
func nameColumn() metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{
		Name: "Name", Type: "string", Format: "name", Description: metav1.ObjectMeta{}.SwaggerDoc()["name"],
	}
}

// ageColumn is the column that nearly every kind has.
func ageColumn() metav1.TableColumnDefinition {
	return textColumn("Age", metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"])
}

// textColumn returns a column with upstream's description.
func textColumn(title, about string) metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: title, Type: "string", Description: about}
}

func numberColumn(title, about string) metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: title, Type: "integer", Description: about}
}

func boolColumn(title, about string) metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: title, Type: "boolean", Description: about}
}

// wideOnly makes a column visible with -o wide only.
func wideOnly(column metav1.TableColumnDefinition) metav1.TableColumnDefinition {
	column.Priority = 1
	return column
}

// none is printed for missing values.
const none = "<none>"

func orNone(value string) string {
	if value == "" {
		return none
	}
	return value
}
