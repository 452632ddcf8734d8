// Package aliases measures what a YAML document becomes when its aliases are written out:
// two bytes of an alias stand for all that its anchor names, so that a document of some
// kilobytes can be one of gigabytes in JSON (T11). Parsers stop aliases of aliases, and not
// many aliases of one long text.
package aliases

import (
	"bytes"
	"errors"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// ErrTooLarge means that a document would become too large.
var ErrTooLarge = errors.New("YAML with its aliases written out is too large")

var errCircle = errors.New("an anchor contains itself")

// Check returns nil for a document that has at most so many bytes when its aliases are
// written out, and ErrTooLarge for a larger one. Where there may be aliases it has to be
// YAML; any other text is left to whoever reads it.
func Check(document []byte, most int) error {
	if bytes.IndexByte(document, '*') < 0 || bytes.IndexByte(document, '&') < 0 {
		return nil
	}
	var root yaml.Node
	if err := yaml.Unmarshal(document, &root); err != nil {
		return err
	}
	m := measure{most: most, known: map[*yaml.Node]int{}}
	size, err := m.size(&root)
	switch {
	case err != nil:
		return err
	case size > most:
		return fmt.Errorf("%w: want at most %d bytes", ErrTooLarge, most)
	}
	return nil
}

// measure adds up nodes, each anchor once.
type measure struct {
	most  int
	known map[*yaml.Node]int
}

const beingMeasured = -1

// size is the size of a node, or anything above the most there may be.
func (m measure) size(node *yaml.Node) (int, error) {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	if known, ok := m.known[node]; ok && node.Anchor != "" {
		if known == beingMeasured {
			return 0, errCircle
		}
		return known, nil
	}
	if node.Anchor != "" {
		m.known[node] = beingMeasured
	}
	const punctuation = 2
	total := len(node.Value) + punctuation
	for _, child := range node.Content {
		size, err := m.size(child)
		if err != nil {
			return 0, err
		}
		if total += size; total > m.most {
			break
		}
	}
	if node.Anchor != "" {
		m.known[node] = total
	}
	return total, nil
}
