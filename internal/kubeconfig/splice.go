package kubeconfig

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// errStyle means that a file cannot be edited by lines.
var errStyle = errors.New("not in kubectl's style")

// splice replaces or adds the lines of podfall's entries. It edits lines and does not check their
// meaning; the caller does.
func splice(file []byte, entries []entry, current CurrentContext) ([]byte, error) {
	if len(bytes.TrimSpace(file)) == 0 {
		file = []byte("apiVersion: v1\nkind: Config\n")
	}
	for _, e := range entries {
		var err error
		if file, err = editLines(file, func(lines []string, root *yaml.Node) ([]string, error) { return putEntry(lines, root, e) }); err != nil {
			return nil, err
		}
	}
	if current == Keep {
		return file, nil
	}
	return editLines(file, func(lines []string, root *yaml.Node) ([]string, error) {
		return setCurrentContext(lines, root, entries[0].name)
	})
}

// editLines changes the lines of a file whose top level is a mapping in block style.
func editLines(file []byte, change func([]string, *yaml.Node) ([]string, error)) ([]byte, error) {
	var parsed yaml.Node
	if err := yaml.Unmarshal(file, &parsed); err != nil {
		return nil, err
	}
	if parsed.Kind != yaml.DocumentNode || len(parsed.Content) != 1 {
		return nil, errStyle
	}
	root := parsed.Content[0]
	if root.Kind != yaml.MappingNode || root.Style&yaml.FlowStyle != 0 || root.Column != 1 {
		return nil, errStyle
	}
	text := string(file)
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	lines, err := change(strings.SplitAfter(text, "\n"), root)
	return []byte(strings.Join(lines, "")), err
}

// putEntry adds an entry to its list, or replaces the entry of the same name.
func putEntry(lines []string, root *yaml.Node, e entry) ([]string, error) {
	at := slices.IndexFunc(root.Content, func(key *yaml.Node) bool { return key.Column == 1 && key.Value == e.list })
	if at < 0 || at%2 != 0 {
		end := trimEnd(lines, 0, len(lines))
		return slices.Insert(lines, end, e.list+":\n"+string(e.text)), nil
	}
	list := root.Content[at+1]
	after := len(lines) // the line after the list
	if at+2 < len(root.Content) {
		after = root.Content[at+2].Line - 1
	}
	switch {
	case list.Kind == yaml.SequenceNode && list.Style&yaml.FlowStyle != 0 && len(list.Content) == 0, list.Tag == "!!null":
		key := root.Content[at].Line
		return slices.Replace(lines, key-1, key, e.list+":\n"+string(e.text)), nil
	case list.Kind != yaml.SequenceNode || list.Style&yaml.FlowStyle != 0:
		return nil, errStyle
	}
	text := indent(e.text, list.Column-1)
	for i, item := range list.Content {
		if !hasName(item, e.name) {
			continue
		}
		end := after
		if i+1 < len(list.Content) {
			end = list.Content[i+1].Line - 1
		}
		return slices.Replace(lines, item.Line-1, trimEnd(lines, item.Line-1, end), text), nil
	}
	return slices.Insert(lines, trimEnd(lines, list.Line-1, after), text), nil
}

// setCurrentContext sets the current-context line.
func setCurrentContext(lines []string, root *yaml.Node, name string) ([]string, error) {
	line := fmt.Sprintf("current-context: %s\n", name)
	for i := 0; i < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		if key.Value == "current-context" {
			if value.Line != key.Line {
				return nil, errStyle
			}
			return slices.Replace(lines, key.Line-1, key.Line, line), nil
		}
	}
	return slices.Insert(lines, trimEnd(lines, 0, len(lines)), line), nil
}

func hasName(item *yaml.Node, name string) bool {
	for i := 0; i+1 < len(item.Content); i += 2 {
		if item.Content[i].Value == "name" && item.Content[i+1].Value == name {
			return true
		}
	}
	return false
}

// trimEnd returns the end of a block of lines without trailing blank lines, comments and document
// end.
func trimEnd(lines []string, begin, end int) int {
	for end > begin {
		line := strings.TrimSpace(lines[end-1])
		if line != "" && !strings.HasPrefix(line, "#") && line != "..." {
			break
		}
		end--
	}
	return end
}

func indent(text []byte, columns int) string {
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		b.WriteString(strings.Repeat(" ", columns) + line)
	}
	return b.String()
}
