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
	type family struct {
		help, kind string
		series     []string
	}
	families := map[string]*family{}
	for _, process := range slices.Sorted(maps.Keys(texts)) {
		var current *family
		for line := range strings.Lines(string(texts[process])) {
			if !strings.HasSuffix(line, "\n") {
				break
			}
			if about, ok := strings.CutPrefix(line, "# HELP "); ok {
				name, _, _ := strings.Cut(about, " ")
				if current = families[name]; current == nil {
					current = &family{help: line}
					families[name] = current
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
	var out bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(families)) {
		out.WriteString(families[name].help + families[name].kind)
		for _, line := range families[name].series {
			out.WriteString(line)
		}
	}
	return out.Bytes()
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
