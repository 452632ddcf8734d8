package client

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/podfall/podfall/analysis/why"
	"github.com/podfall/podfall/analysis/why/gather"
	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/history"
)

// HistorySource reads the history of a cluster's processes over the management connection, which no
// cut reaches.
type HistorySource interface {
	// Processes are those that can be asked.
	Processes(ctx context.Context) ([]string, error)
	// History returns a page of a process's history from a position on.
	History(ctx context.Context, process string, from history.Position) (history.Page, error)
}

// historyReader reads the processes' history: files on this machine, and the answers of other
// processes.
type historyReader struct {
	*call

	files history.Reader
	// cursors has how far the history of each process without a file here has been read.
	cursors map[string]*historyCursor
	// askError is why processes cannot be asked; empty if they can.
	askError string
	events   []history.Event
}

// historyCursor is how far one process's history has been read.
type historyCursor struct {
	next history.Position
	// answeredAt is the process's last answer, in cluster time; zero if it never answered.
	answeredAt time.Time
	err        string
}

// openHistory connects to the cluster. The cluster need not be up if its history files are here.
func (c *call) openHistory(ctx context.Context) (*historyReader, error) {
	p := &historyReader{call: c, files: history.Reader{Dir: c.env.History}, cursors: map[string]*historyCursor{}}
	names, err := p.processes(ctx)
	if err != nil {
		log, readErr := history.Read(c.env.History)
		if c.env.History == "" || readErr != nil || len(log.Events) == 0 {
			return nil, err
		}
		p.askError = err.Error()
	}
	for _, name := range names {
		if writesHistory(name) && (c.env.History == "" || !history.Exists(c.env.History, name)) {
			p.cursors[name] = &historyCursor{}
		}
	}
	return p, nil
}

func (p *historyReader) processes(ctx context.Context) ([]string, error) {
	if _, err := p.api(ctx); err != nil {
		return nil, err
	}
	if p.session.Past == nil {
		return nil, errNoHistory
	}
	return p.session.Past.Processes(ctx)
}

// writesHistory reports whether a process writes history that a timeline needs.
func writesHistory(process string) bool {
	kind, _, _ := strings.Cut(process, "/")
	return slices.Contains([]string{"apiserver", "controllers", "kubelet", "runtime"}, kind)
}

// readNew adds new events.
func (p *historyReader) readNew(ctx context.Context) error {
	var all []history.Event
	if p.env.History != "" {
		log, err := p.files.Next()
		if err != nil {
			return err
		}
		all = log.Events
	}
	all = append(all, p.fetchNew(ctx)...)
	if len(all) > 0 {
		p.events = history.Merge(slices.Concat(p.events, all), 0).Events
	}
	return nil
}

// fetchNew asks all processes at once for new events.
func (p *historyReader) fetchNew(ctx context.Context) []history.Event {
	ctx, cancel := clock.Clock{}.Timeout(ctx, gather.Patience)
	defer cancel()
	var mu sync.Mutex
	var all []history.Event
	var requests sync.WaitGroup
	for name, cursor := range p.cursors {
		requests.Go(func() {
			for more := true; more; {
				page, err := p.session.Past.History(ctx, name, cursor.next)
				if err != nil {
					cursor.err = err.Error()
					return
				}
				events, _ := page.Events()
				mu.Lock()
				all = append(all, events...)
				mu.Unlock()
				cursor.next, cursor.answeredAt, cursor.err, more = page.Next, p.env.Clock.Now(), "", page.More
			}
		})
	}
	requests.Wait()
	return all
}

// sources are the processes whose history was read, and how old it is. A file on this machine is up
// to date.
func (p *historyReader) sources() []why.Source {
	now := p.env.Clock.Now()
	var sources []why.Source
	for _, e := range p.events {
		if p.cursors[e.Process] == nil && writesHistory(e.Process) && !slices.ContainsFunc(sources, func(s why.Source) bool { return s.Name == e.Process }) {
			sources = append(sources, why.Source{Name: e.Process})
		}
	}
	for name, cursor := range p.cursors {
		s := why.Source{Name: name, Err: cursor.err}
		if !cursor.answeredAt.IsZero() {
			s.AgeSeconds = now.Sub(cursor.answeredAt).Seconds()
		}
		sources = append(sources, s)
	}
	slices.SortFunc(sources, func(a, b why.Source) int { return cmp.Compare(a.Name, b.Name) })
	return sources
}

// formatSources says which processes an answer is based on.
func formatSources(sources []why.Source) string {
	words := make([]string, 0, len(sources))
	for _, s := range sources {
		word := s.Name
		switch {
		case s.Err != "" && s.AgeSeconds > 0:
			word += fmt.Sprintf(" (silent for %.0fs)", s.AgeSeconds)
		case s.Err != "":
			word += " (silent)"
		case s.AgeSeconds >= 1:
			word += fmt.Sprintf(" (%.0fs ago)", s.AgeSeconds)
		}
		words = append(words, word)
	}
	return "Evidence: " + strings.Join(words, ", ") + "."
}
