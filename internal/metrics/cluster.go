package metrics

import (
	"bytes"
	"maps"
	"slices"
	"strings"
)

// Merge merges the texts of several processes, given by process name. Every series gets the label
// process with its process's name. Every family appears once, with its first description. An
// incomplete last line of a text is dropped.
func Merge(texts map[string][]byte) []byte {
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

// families are the families of several processes, by name.
type families map[string]*familyText

// familyText is a family in text form.
type familyText struct {
	help, kind string
	series     []string
}

// add adds the text of a process.
func (f families) add(process, text string) {
	var current *familyText
	for line := range strings.Lines(text) {
		if !strings.HasSuffix(line, "\n") {
			break
		}
		if description, ok := strings.CutPrefix(line, "# HELP "); ok {
			name, _, _ := strings.Cut(description, " ")
			if current = f[name]; current == nil {
				current = &familyText{help: line}
				f[name] = current
			}
		}
		switch {
		case current == nil: // not in our format
		case strings.HasPrefix(line, "# TYPE ") && current.kind == "":
			current.kind = line
		case !strings.HasPrefix(line, "#") && strings.Contains(line, " "):
			current.series = append(current.series, addLabel(line, "process="+quoteLabel(process)))
		}
	}
}

// addLabel inserts a label at the front of a series line.
func addLabel(line, label string) string {
	name, rest, braced := strings.Cut(line, "{")
	if value, _, _ := strings.Cut(line, " "); braced && len(name) < len(value) {
		return name + "{" + label + "," + rest
	}
	name, value, _ := strings.Cut(line, " ")
	return name + "{" + label + "} " + value
}
