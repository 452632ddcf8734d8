package client

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// objectOf is what a server may answer; false for what is no object.
func objectOf(text []byte) (*unstructured.Unstructured, bool) {
	object := &unstructured.Unstructured{}
	return object, json.Unmarshal(text, &object.Object) == nil && object.Object != nil
}

// FuzzColumns: columns that are taken print any object, with their titles above it; what is
// refused is told.
func FuzzColumns(f *testing.F) {
	f.Fuzz(func(t *testing.T, spec string, text []byte) {
		p, err := newColumnPrinter(spec, false)
		if err != nil {
			if err.Error() == "" {
				t.Errorf("%q was refused without a word", spec)
			}
			return
		}
		if columns := strings.Count(spec, ",") + 1; len(p.titles) != columns || len(p.paths) != columns {
			t.Errorf("%q has %d titles and %d paths, want %d", spec, len(p.titles), len(p.paths), columns)
		}
		object, ok := objectOf(text)
		if !ok {
			return
		}
		var out bytes.Buffer
		if err := p.PrintObj(object, &out); err != nil {
			return
		}
		for _, title := range p.titles {
			if !strings.ContainsFunc(title, unicode.IsControl) && !strings.Contains(out.String(), title) {
				t.Errorf("%q printed %q, which has no %q", spec, out.String(), title)
			}
		}
		before := out.Len()
		if err := p.PrintObj(object, &out); err != nil || out.Len() == before {
			t.Errorf("%q printed %q, and then %q (%v)", spec, out.String()[:before], out.String()[before:], err)
		}
	})
}

// FuzzWaitAim: what is waited for is what was asked, and any object is as it is wanted, or is
// not, or the reason is told.
func FuzzWaitAim(f *testing.F) {
	f.Fuzz(func(t *testing.T, text, kind, status string, answer []byte) {
		a, err := parseWaitAim(text)
		if err == nil && a.kind == waitCondition && text != "condition="+a.name && text != "condition="+a.name+"="+a.value {
			t.Errorf("%q: %+v", text, a)
		}
		if object, ok := objectOf(answer); ok && err == nil && (a.kind == waitCondition || a.kind == waitPath) {
			if met, err := a.met(object); met && err != nil {
				t.Errorf("%q of %s: met, and %v", text, answer, err)
			}
		}
		if strings.Contains(kind, "=") {
			return
		}
		object := &unstructured.Unstructured{Object: map[string]any{
			"status": map[string]any{"conditions": []any{map[string]any{"type": kind, "status": status}}},
		}}
		for wanted, want := range map[string]bool{kind + "=" + status: true, kind + "=" + status + "x": false, kind + "x=" + status: false} {
			a, err := parseWaitAim("condition=" + wanted)
			if err != nil {
				t.Fatal(err)
			}
			if met, err := a.met(object); err != nil || met != want {
				t.Errorf("condition=%s of %q=%q: %v (%v), want %v", wanted, kind, status, met, err, want)
			}
		}
	})
}

// FuzzCompareValues: of two values one comes first, or they are the same; three texts have one
// order, and so have three quantities.
func FuzzCompareValues(f *testing.F) {
	f.Fuzz(func(t *testing.T, a, b, c string) {
		quantities := 0
		for _, one := range []string{a, b, c} {
			if _, err := resource.ParseQuantity(one); err == nil {
				quantities++
			}
			if compareValues(one, one) != 0 || compareValues(nil, one) >= 0 || compareValues(one, nil) <= 0 {
				t.Errorf("%q is not itself, or not behind nothing", one)
			}
		}
		if compareValues(a, b) != -compareValues(b, a) {
			t.Errorf("%q and %q: %d, %d", a, b, compareValues(a, b), compareValues(b, a))
		}
		if quantities != 0 && quantities != 3 {
			return
		}
		sorted := []string{a, b, c}
		slices.SortFunc(sorted, func(x, y string) int { return compareValues(x, y) })
		if compareValues(sorted[0], sorted[1]) > 0 || compareValues(sorted[1], sorted[2]) > 0 || compareValues(sorted[0], sorted[2]) > 0 {
			t.Errorf("%q is not in order", sorted)
		}
		if quantities == 0 && compareValues(a, b) == 0 && a != b {
			t.Errorf("%q and %q are the same", a, b)
		}
	})
}

// FuzzArrange: a command line that is taken is taken as it is then, has all its words, and its
// arguments behind two dashes; one that is not is told how to get help.
func FuzzArrange(f *testing.F) {
	commands := Commands(Env{})
	f.Fuzz(func(t *testing.T, line string) {
		words := strings.Split(line, " ")
		arranged, err := Arrange(nil, commands, words)
		if err != nil {
			if !strings.Contains(err.Error(), "--help' for usage.") {
				t.Errorf("%q: %v", words, err)
			}
			return
		}
		if len(arranged) > 2*len(words)+2 {
			t.Errorf("%q is %q", words, arranged)
		}
		if slices.ContainsFunc(arranged, func(word string) bool { return strings.HasPrefix(word, "--"+flagDash+"=") }) {
			return // it says where the dashes were that are then elsewhere
		}
		again, err := Arrange(nil, commands, arranged)
		if err != nil || !slices.Equal(again, arranged) {
			if !(err == nil && slices.ContainsFunc(again, func(word string) bool { return strings.HasPrefix(word, "--"+flagDash+"=") })) {
				t.Errorf("%q is %q, and that is %q (%v)", words, arranged, again, err)
			}
		}
	})
}
