package podworker

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// FuzzExpand: a command line's words are what upstream's kubelet makes of them, and a subPath
// whose variable is not known is refused by its name.
func FuzzExpand(f *testing.F) {
	f.Fuzz(func(t *testing.T, text, name, value string) {
		known := map[string]string{name: value, "HOME": "/root", "EMPTY": ""}
		want, unknown := reference(text, known)
		if got := expand(text, lookupIn(known)); got != want {
			t.Errorf("%q with %q=%q: %q, want %q", text, name, value, got, want)
		}
		spec := &corev1.Container{VolumeMounts: []corev1.VolumeMount{{SubPath: "a", SubPathExpr: text}}}
		paths, err := subPathsOf(spec, known)
		switch {
		case text == "" && (err != nil || paths[0] != "a"):
			t.Errorf("no expression: %q (%v)", paths, err)
		case text != "" && unknown == nil && (err != nil || paths[0] != want):
			t.Errorf("%q: %q (%v), want %q", text, paths, err, want)
		case unknown != nil && err == nil:
			t.Errorf("%q: %q, want %v", text, paths, unknown)
		}
	})
}

// reference is upstream's expansion.Expand, letter by letter, and an error when it names what
// is not known. It copies a byte behind a dollar as it is, where upstream takes it for a
// rune, which makes two bytes of one that is not ASCII.
func reference(text string, known map[string]string) (string, error) {
	var out strings.Builder
	var unknown error
	for i := 0; i < len(text); i++ {
		if text[i] != '$' || i+1 == len(text) {
			out.WriteByte(text[i])
			continue
		}
		i++
		end := strings.IndexByte(text[i:], ')')
		switch {
		case text[i] == '$':
			out.WriteByte('$')
		case text[i] == '(' && end > 0:
			name := text[i+1 : i+end]
			value, is := known[name]
			if !is {
				value = "$(" + name + ")"
				unknown = errors.Join(unknown, errors.New(name))
			}
			out.WriteString(value)
			i += end
		default:
			out.WriteByte('$')
			out.WriteByte(text[i])
		}
	}
	return out.String(), unknown
}
