package metrics

import (
	"bytes"
	"maps"
	"slices"
	"strings"
)

// Cluster is what several processes have written, by their names, as one text: every
// series has the label process with its process' name, and every family is there once, as
// the first has described it. What is cut off, at the end of a text, is left out.
func Cluster(texts map[string][]byte) []byte {
	all := families{}
	for _, process := range slices.Sorted(maps.Keys(texts)) {
		all.add(process, string(texts[process]))
	}
	var out bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out.WriteString(all[name].help + all[name].kind)
		for _, line := range all[name].series {
			out.WriteString(line)
		}
	}
	return out.Bytes()
}

// families are those of several processes, by name.
type families map[string]*described

// described is a family as it is written.
type described struct {
	help, kind string
	series     []string
}

// add adds what a process has written.
func (f families) add(process, text string) {
	var current *described
	for line := range strings.Lines(text) {
		if !strings.HasSuffix(line, "\n") {
			break
		}
		if about, ok := strings.CutPrefix(line, "# HELP "); ok {
			name, _, _ := strings.Cut(about, " ")
			if current = f[name]; current == nil {
				current = &described{help: line}
				f[name] = current
			}
		}
		switch {
		case current == nil: // not ours
		case strings.HasPrefix(line, "# TYPE ") && current.kind == "":
			current.kind = line
		case !strings.HasPrefix(line, "#") && strings.Contains(line, " "):
			current.series = append(current.series, labelled(line, "process="+quoted(process)))
		}
	}
}

// labelled is a line of a series with one more label, the first.
func labelled(line, label string) string {
	name, rest, braced := strings.Cut(line, "{")
	if value, _, _ := strings.Cut(line, " "); braced && len(name) < len(value) {
		return name + "{" + label + "," + rest
	}
	name, value, _ := strings.Cut(line, " ")
	return name + "{" + label + "} " + value
}
