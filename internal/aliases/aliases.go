// Package aliases measures the size of a YAML document with expanded aliases. Two bytes of an alias
// stand for everything that its anchor names, so that a document of some kilobytes can expand to
// gigabytes of JSON (T11). Parsers stop nested aliases, but not many aliases of one long text.
package aliases

import (
	"bytes"
	"errors"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// ErrTooLarge means that the expanded document is too large.
var ErrTooLarge = errors.New("YAML with its aliases written out is too large")

var errCircle = errors.New("an anchor contains itself")

// Check returns nil if the document has at most most bytes with expanded aliases, and ErrTooLarge
// if it has more. Documents that may contain aliases must be YAML; Check accepts any other text.
func Check(document []byte, most int) error {
	if bytes.IndexByte(document, '*') < 0 || bytes.IndexByte(document, '&') < 0 {
		return nil
	}
	var root yaml.Node
	if err := yaml.Unmarshal(document, &root); err != nil {
		return err
	}
	m := measure{limit: most, known: map[*yaml.Node]int{}}
	size, err := m.size(&root)
	switch {
	case err != nil:
		return err
	case size > most:
		return fmt.Errorf("%w: want at most %d bytes", ErrTooLarge, most)
	}
	return nil
}

// measure adds up the sizes of nodes, each anchor once.
type measure struct {
	limit int
	known map[*yaml.Node]int
}

const inProgress = -1

// size returns the size of a node, or any value above the limit.
func (m measure) size(node *yaml.Node) (int, error) {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	if known, ok := m.known[node]; ok && node.Anchor != "" {
		if known == inProgress {
			return 0, errCircle
		}
		return known, nil
	}
	if node.Anchor != "" {
		m.known[node] = inProgress
	}
	const punctuation = 2
	total := len(node.Value) + punctuation
	for _, child := range node.Content {
		size, err := m.size(child)
		if err != nil {
			return 0, err
		}
		if total += size; total > m.limit {
			break
		}
	}
	if node.Anchor != "" {
		m.known[node] = total
	}
	return total, nil
}
