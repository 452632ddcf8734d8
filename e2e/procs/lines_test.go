package procs

import (
	"strings"
	"sync"
)

// lines collects the output of a running command.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements io.Writer.
func (l *lines) Write(data []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(data)
}

func (l *lines) contains(word string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), word)
}

func (l *lines) all() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// rows returns the first four columns of each line: event, name, ready and status.
func (l *lines) rows() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var rows []string
	for line := range strings.SplitSeq(strings.TrimSpace(l.text.String()), "\n") {
		fields := strings.Fields(line)
		rows = append(rows, strings.Join(fields[:min(4, len(fields))], " "))
	}
	return rows
}
