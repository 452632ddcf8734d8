// Package explain prints what a kind's fields are for, as kubectl explain does. It is pure:
// definitions go in, text comes out.
package explain

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mitchellh/go-wordwrap"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podfall/podfall/internal/openapi"
)

// Question is what somebody wants to know.
type Question struct {
	Kind schema.GroupVersionKind
	// Path leads to a field; empty means the kind itself.
	Path []string
	// Recursive lists the fields of fields too, without what they are for, down to Depth;
	// 0 is all the way.
	Recursive bool
	Depth     int
}

// Text answers a question. name is the name of the kind's definition among models, which has
// whatever that refers to.
func Text(models openapi.Models, name string, q Question) (string, error) {
	p := &printer{models: models, parsed: map[string]node{}, question: q}
	root := p.named(name)
	if root == nil {
		return "", fmt.Errorf("GVK %v not found in OpenAPI schema", q.Kind)
	}
	if q.Kind.Group != "" {
		p.say("GROUP:      %s\n", q.Kind.Group)
	}
	p.say("KIND:       %s\nVERSION:    %s\n\n", q.Kind.Kind, q.Kind.Version)
	if !p.follow(root, q.Path, map[string]bool{}) {
		return "", fmt.Errorf("field %q does not exist", q.Path[len(q.Path)-1])
	}
	p.say("\n")
	return p.out.String(), nil
}

// printer writes one answer.
type printer struct {
	models   openapi.Models
	parsed   map[string]node
	question Question
	out      strings.Builder
}

// node is a part of a definition.
type node map[string]any

func (p *printer) say(format string, args ...any) { fmt.Fprintf(&p.out, format, args...) }

// named is a definition; nil when there is none.
func (p *printer) named(name string) node {
	if known, ok := p.parsed[name]; ok {
		return known
	}
	var n node
	if model, ok := p.models[name]; !ok || json.Unmarshal(model, &n) != nil {
		return nil
	}
	p.parsed[name] = n
	return n
}

// The members of a definition.
func (n node) text(key string) string { text, _ := n[key].(string); return text }
func (n node) child(key string) node  { below, _ := n[key].(map[string]any); return below }
func (n node) list(key string) []any  { below, _ := n[key].([]any); return below }
func (n node) parts() []node {
	var all []node
	for _, below := range n.list("allOf") {
		if child, ok := below.(map[string]any); ok {
			all = append(all, child)
		}
	}
	return all
}

const prefix = "#/components/schemas/"

// resolve is what n refers to, or n.
func (p *printer) resolve(n node) (resolved node, ref string) {
	ref = n.text("$ref")
	if target := p.named(strings.TrimPrefix(ref, prefix)); ref != "" && target != nil {
		return target, ref
	}
	return n, ref
}

// follow goes down the path and describes what it finds there. It reports whether it found
// anything; seen are the references since the last field.
func (p *printer) follow(n node, path []string, seen map[string]bool) bool {
	resolved, ref := p.resolve(n)
	if len(path) == 0 {
		p.describe(resolved)
		return true
	}
	if ref != "" && seen[ref] {
		return false
	}
	seen = with(seen, ref)
	if field := resolved.child("properties").child(path[0]); field != nil {
		if len(path) == 1 {
			p.say("FIELD: %s <%s>\n%s\n\n", path[0], p.typeOf(field), enum(field, "ENUM:", "\n    ", 0))
		}
		return p.follow(field, path[1:], map[string]bool{})
	}
	for _, key := range []string{"items", "additionalProperties"} {
		if below := resolved.child(key); below != nil {
			return p.follow(below, path, seen)
		}
	}
	for _, alternative := range resolved.parts() {
		if p.follow(alternative, path, seen) {
			return true
		}
	}
	return false
}

func with(seen map[string]bool, ref string) map[string]bool {
	more := maps.Clone(seen)
	more[ref] = true
	return more
}

// describe writes what something is for, and its fields.
func (p *printer) describe(n node) {
	about := p.about(n)
	if about == "" {
		about = "<empty>"
	}
	p.say("DESCRIPTION:\n%s\n", indent(4, wordwrap.WrapString(about, 76)))
	if docs := n.child("externalDocs"); docs != nil {
		p.say("\nEXTERNAL DOCS:\n%s", external(docs, 4))
	}
	before := p.out.Len()
	p.fields(n, 1, map[string]bool{})
	if p.out.Len() > before {
		text := p.out.String()
		p.out.Reset()
		p.out.WriteString(text[:before] + "FIELDS:\n" + text[before:])
	}
}

// about is the description of something, and of what it is made of.
func (p *printer) about(n node) string {
	resolved, _ := p.resolve(n)
	var text strings.Builder
	if own := resolved.text("description"); own != "" {
		text.WriteString(own + "\n")
	}
	for _, below := range resolved.parts() {
		text.WriteString(p.about(below))
	}
	for _, key := range []string{"items", "additionalProperties"} {
		if below := resolved.child(key); below != nil {
			text.WriteString(p.about(below))
		}
	}
	return text.String()
}

// fields lists the fields of something; seen are the references above it.
func (p *printer) fields(n node, level int, seen map[string]bool) {
	resolved, ref := p.resolve(n)
	if ref != "" && seen[ref] {
		return
	}
	seen = with(seen, ref)
	properties := resolved.child("properties")
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		field := properties.child(name)
		p.field(resolved, name, level)
		if p.question.Recursive && (p.question.Depth == 0 || level < p.question.Depth) {
			p.fields(field, level+1, seen)
		}
	}
	for _, below := range resolved.parts() {
		p.fields(below, level, seen)
	}
	for _, key := range []string{"items", "additionalProperties"} {
		if below := resolved.child(key); below != nil {
			p.fields(below, level, seen)
		}
	}
}

// field is one line of a list of the fields of something, or one entry with what the field is
// for.
func (p *printer) field(of node, name string, level int) {
	const most = 4 // values of an enumeration
	n := of.child("properties").child(name)
	in := 2 * level
	p.say("%s\t<%s>", indent(in, name), p.typeOf(n))
	if slices.Contains(of.list("required"), any(name)) {
		p.say(" -required-")
	}
	p.say("%s\n", enum(n, "\n"+indent(in, "")+"enum: ", ", ", most))
	if p.question.Recursive {
		return
	}
	about := n.text("description")
	if about == "" {
		about = "<no description>"
	}
	p.say("%s\n", indent(in+2, wordwrap.WrapString(about, uint(78-in))))
	if docs := n.child("externalDocs"); docs != nil {
		p.say("\n%s\n%s", indent(in+2, "EXTERNAL DOCS:"), external(docs, in+4))
	}
	p.say("\n")
}

func external(docs node, in int) string {
	var text string
	if about := docs.text("description"); about != "" {
		text += indent(in, wordwrap.WrapString(about, uint(80-in))) + "\n"
	}
	if url := docs.text("url"); url != "" {
		text += indent(in, "URL: "+url) + "\n"
	}
	return text
}

// enum is the values that a field may have, most of them at most; 0 is all.
func enum(n node, head, between string, most int) string {
	values := n.list("enum")
	if len(values) == 0 {
		return ""
	}
	var text strings.Builder
	text.WriteString(head)
	for i, value := range values {
		if most > 0 && i == most {
			text.WriteString(", ....")
			break
		}
		if i > 0 || most == 0 {
			text.WriteString(between)
		}
		if value == "" {
			value = `""`
		}
		fmt.Fprint(&text, value)
	}
	return text.String()
}

// typeOf is a short word for the type of a field.
func (p *printer) typeOf(n node) string {
	if items := n.child("items"); items != nil {
		return "[]" + p.typeOf(items)
	}
	if values := n.child("additionalProperties"); values != nil {
		return "map[string]" + p.typeOf(values)
	}
	if all := n.parts(); len(all) == 1 && n["properties"] == nil {
		return p.typeOf(all[0])
	}
	own := n.text("type")
	if ref := n.text("$ref"); ref != "" {
		if target := p.named(strings.TrimPrefix(ref, prefix)); target != nil {
			own = target.text("type")
		}
		if own == "" || own == "object" {
			return ref[strings.LastIndexAny(ref, "./")+1:]
		}
		return own
	}
	if own == "" || own == "object" {
		return "Object"
	}
	return own
}

// indent puts spaces in front of every line.
func indent(amount int, text string) string {
	pad := strings.Repeat(" ", amount)
	return pad + strings.ReplaceAll(text, "\n", "\n"+pad)
}
