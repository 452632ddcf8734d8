package podworker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// FuzzExpand: a command line's words are what upstream's kubelet makes of them, and a subPath
// whose variable is not known is refused by its name.
func FuzzExpand(f *testing.F) {
	f.Fuzz(func(t *testing.T, text, name, value string) {
		known := map[string]string{name: value, "HOME": "/root", "EMPTY": ""}
		want, unknown := expandSlowly(text, known)
		if got, err := expand("it", text, lookupIn(known)); err != nil || got != want {
			t.Errorf("%q with %q=%q: %q (%v), want %q", text, name, value, got, err, want)
		}
		spec := &corev1.Container{VolumeMounts: []corev1.VolumeMount{{SubPath: "a", SubPathExpr: text}}}
		paths, err := expandSubPaths(spec, known)
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

// expandSlowly is upstream's expansion.Expand, letter by letter, and an error when it names what
// is not known. It copies a byte behind a dollar as it is, where upstream takes it for a
// rune, which makes two bytes of one that is not ASCII.
func expandSlowly(text string, known map[string]string) (string, error) {
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
			if value == "" {
				unknown = errors.Join(unknown, errors.New(name))
			}
			if !is {
				value = "$(" + name + ")"
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

// TestExpansionIsLimited: a few lines that would stand for 10 * 2^39 bytes are refused, by the name of
// the first that is too long, and nothing of that size is built.
func TestExpansionIsLimited(t *testing.T) {
	w := newWorker(Config{Host: Host{Objects: noObjects{}}}, &sync.WaitGroup{})
	spec := &corev1.Container{Env: []corev1.EnvVar{{Name: "A0", Value: "xxxxxxxxxx"}}}
	for i := range 39 {
		spec.Env = append(spec.Env, corev1.EnvVar{Name: fmt.Sprint("A", i+1), Value: fmt.Sprintf("$(A%d)$(A%d)", i, i)})
	}
	left := budget(maxEnvironment)
	_, err := w.makeEnvironment(t.Context(), podWithGraces(30, -1), spec, "", &left)
	if want := `environment variable "A14" has more than 131072 bytes once the variables in it are expanded`; err == nil || err.Error() != want {
		t.Errorf("refused with %v, want %s", err, want)
	}
	known := map[string]string{"B": strings.Repeat("x", 100_000)}
	words := make([]string, 30)
	for i := range words {
		words[i] = "$(B)"
	}
	left = budget(maxEnvironment)
	if _, err := expandAll("args", words, known, &left); err == nil || err.Error() != "args[20]: the environment and the command line have more than 2097152 bytes together" {
		t.Errorf("many long arguments: %v", err)
	}
	if _, err := expandAll("command", []string{"$(B)$(B)"}, known, &left); err == nil || !strings.HasPrefix(err.Error(), "command[0] has more than 131072 bytes") {
		t.Errorf("a long argument: %v", err)
	}
	mounts := &corev1.Container{VolumeMounts: []corev1.VolumeMount{{Name: "v", SubPathExpr: "$(B)$(B)"}}}
	if _, err := expandSubPaths(mounts, known); err == nil || !strings.HasPrefix(err.Error(), `subPathExpr of volume mount "v" has more than`) {
		t.Errorf("a long path: %v", err)
	}
}

// noObjects are none.
type noObjects struct{ Objects }

func (noObjects) Services(context.Context, string) ([]*corev1.Service, error) { return nil, nil }

func TestVerifyRunAsNonRoot(t *testing.T) {
	yes, no, root, user := new(true), new(false), new(int64(0)), new(int64(1000))
	for _, row := range []struct {
		name        string
		pod         *corev1.PodSecurityContext
		own         *corev1.SecurityContext
		image, want string
	}{
		{"nothing is asked for", nil, nil, "x", ""},
		{"the image runs as root", &corev1.PodSecurityContext{RunAsNonRoot: yes}, nil, "x", `container has runAsNonRoot and image will run as root (pod: "p_default(u)", container: main)`},
		{"the container may", &corev1.PodSecurityContext{RunAsNonRoot: yes}, &corev1.SecurityContext{RunAsNonRoot: no}, "x", ""},
		{"the pod has a user", &corev1.PodSecurityContext{RunAsNonRoot: yes, RunAsUser: user}, nil, "x", ""},
		{
			"the container's is root", &corev1.PodSecurityContext{RunAsNonRoot: yes, RunAsUser: user}, &corev1.SecurityContext{RunAsUser: root}, "x",
			`container's runAsUser breaks non-root policy (pod: "p_default(u)", container: main)`,
		},
		{"the image has a user", nil, &corev1.SecurityContext{RunAsNonRoot: yes}, "gcr.io/distroless/static:nonroot", ""},
	} {
		pod := podWithGraces(30, -1)
		pod.Namespace, pod.Spec.SecurityContext = "default", row.pod
		err := verifyRunAsNonRoot(pod, &corev1.Container{Name: "main", Image: row.image, SecurityContext: row.own})
		if got := fmt.Sprint(err); got != row.want && (err != nil || row.want != "") {
			t.Errorf("%s: %s", row.name, got)
		}
	}
}
