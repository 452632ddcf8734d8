package describe

import (
	"io"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/podfall/podfall/internal/podview"
)

// Namespace describes a namespace.
func Namespace(w io.Writer, view podview.View, namespace *corev1.Namespace) error {
	return write(w, view, func(p *page) {
		p.field(0, "Name", namespace.Name)
		p.pairs("Labels", namespace.Labels)
		p.annotations(namespace.Annotations)
		p.field(0, "Status", namespace.Status.Phase)
		if len(namespace.Status.Conditions) > 0 {
			p.line(0, "Conditions:")
			p.line(1, "Type\tStatus\tLastTransitionTime\tReason\tMessage")
			p.line(1, "----\t------\t------------------\t------\t-------")
			for _, c := range namespace.Status.Conditions {
				p.line(1, "%s\t%s\t%s\t%s\t%s", c.Type, c.Status, c.LastTransitionTime.Format(time.RFC1123Z), c.Reason, c.Message)
			}
		}
		p.line(0, "")
		p.line(0, "No resource quota.")
		p.line(0, "")
		p.line(0, "No LimitRange resource.")
	})
}

// Object describes an object of any other kind, field by field.
func Object(w io.Writer, view podview.View, object *unstructured.Unstructured, events []*corev1.Event) error {
	return write(w, view, func(p *page) {
		p.field(0, "Name", object.GetName())
		p.field(0, "Namespace", object.GetNamespace())
		p.pairs("Labels", object.GetLabels())
		p.annotations(object.GetAnnotations())
		p.fields(0, "", object.Object)
		p.events(events)
	})
}

// shown are the fields that Object has written before.
func shown(path string) bool {
	switch path {
	case ".metadata.managedFields", ".metadata.name", ".metadata.namespace", ".metadata.labels", ".metadata.annotations":
		return true
	}
	return false
}

func (p *page) fields(depth int, path string, fields map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if shown(path + "." + name) {
			continue
		}
		switch value := fields[name].(type) {
		case map[string]any:
			p.line(depth, "%s:", label(name))
			p.fields(depth+1, path+"."+name, value)
		case []any:
			p.line(depth, "%s:", label(name))
			for _, item := range value {
				if inner, ok := item.(map[string]any); ok {
					p.fields(depth+1, path+"."+name, inner)
				} else {
					p.line(depth+1, "%v", item)
				}
			}
		case string:
			p.text(depth, label(name), value)
		default:
			p.field(depth, label(name), value)
		}
	}
}

// text writes a field; text of several lines is a block below its name.
func (p *page) text(depth int, name, value string) {
	value = strings.TrimSuffix(value, "\n")
	if !strings.Contains(value, "\n") {
		p.field(depth, name, value)
		return
	}
	p.block(depth, name, []string{value})
}

// label is a field's name in words: "creationTimestamp" is "Creation Timestamp".
func label(name string) string {
	if strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsLetter(r) && r != '-' }) {
		return name
	}
	var words []string
	for _, word := range splitWords(name) {
		switch upper := strings.ToUpper(word); upper {
		case "API", "URL", "UID", "GUID":
			word = upper
		default:
			if strings.ToLower(word) == word {
				word = strings.ToUpper(word[:1]) + word[1:]
			}
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

// splitWords splits before each capital that follows a small letter, and before the
// last of a run of capitals that begins a word.
func splitWords(name string) []string {
	letters := []rune(name)
	var words []string
	start := 0
	for i := 1; i < len(letters); i++ {
		rises := unicode.IsUpper(letters[i]) && !unicode.IsUpper(letters[i-1])
		falls := unicode.IsUpper(letters[i]) && unicode.IsUpper(letters[i-1]) && i+1 < len(letters) && unicode.IsLower(letters[i+1])
		if rises || falls {
			words = append(words, string(letters[start:i]))
			start = i
		}
	}
	return append(words, string(letters[start:]))
}
