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

// Past tells what the processes of a cluster have written down, past every cut.
type Past interface {
	// Processes are those that can be asked.
	Processes(ctx context.Context) ([]string, error)
	// History is a page of what a process has written, from a place on.
	History(ctx context.Context, process string, from history.Position) (history.Page, error)
}

// past reads what the processes have written down: their files where these are on this
// machine, and what the others say when they are asked.
type past struct {
	*call

	files history.Reader
	// told is how far each process that has no file here has told its history.
	told map[string]*telling
	// unasked is why nobody can be asked; empty when somebody can.
	unasked string
	events  []history.Event
}

// telling is how one process tells its history.
type telling struct {
	next history.Position
	// heard is when it last answered, on the cluster's clock; zero when it never has.
	heard time.Time
	err   string
}

// past connects to the cluster, which need not be up where there are files.
func (c *call) past(ctx context.Context) (*past, error) {
	p := &past{call: c, files: history.Reader{Dir: c.env.History}, told: map[string]*telling{}}
	names, err := p.processes(ctx)
	if err != nil {
		log, readErr := history.Read(c.env.History)
		if c.env.History == "" || readErr != nil || len(log.Events) == 0 {
			return nil, err
		}
		p.unasked = err.Error()
	}
	for _, name := range names {
		if writes(name) && (c.env.History == "" || !history.Exists(c.env.History, name)) {
			p.told[name] = &telling{}
		}
	}
	return p, nil
}

func (p *past) processes(ctx context.Context) ([]string, error) {
	if _, err := p.api(ctx); err != nil {
		return nil, err
	}
	if p.session.Past == nil {
		return nil, errNoHistory
	}
	return p.session.Past.Processes(ctx)
}

// writes reports whether a process writes a history that a deletion is told from.
func writes(process string) bool {
	kind, _, _ := strings.Cut(process, "/")
	return slices.Contains([]string{"apiserver", "controllers", "kubelet", "runtime"}, kind)
}

// read takes what is new into the events.
func (p *past) read(ctx context.Context) error {
	var all []history.Event
	if p.env.History != "" {
		log, err := p.files.Next()
		if err != nil {
			return err
		}
		all = log.Events
	}
	all = append(all, p.ask(ctx)...)
	if len(all) > 0 {
		p.events = history.Merge(slices.Concat(p.events, all), 0).Events
	}
	return nil
}

// ask asks all processes at once for what they have not told yet.
func (p *past) ask(ctx context.Context) []history.Event {
	ctx, cancel := clock.Clock{}.Timeout(ctx, gather.Patience)
	defer cancel()
	var mu sync.Mutex
	var all []history.Event
	var asking sync.WaitGroup
	for name, t := range p.told {
		asking.Go(func() {
			for more := true; more; {
				page, err := p.session.Past.History(ctx, name, t.next)
				if err != nil {
					t.err = err.Error()
					return
				}
				events, _ := page.Events()
				mu.Lock()
				all = append(all, events...)
				mu.Unlock()
				t.next, t.heard, t.err, more = page.Next, p.env.Clock.Now(), "", page.More
			}
		})
	}
	asking.Wait()
	return all
}

// sources are whose words the events are, and how old each word is: a file on this machine
// has all that its process has done.
func (p *past) sources() []why.Source {
	now := p.env.Clock.Now()
	var sources []why.Source
	for _, e := range p.events {
		if p.told[e.Process] == nil && writes(e.Process) && !slices.ContainsFunc(sources, func(s why.Source) bool { return s.Name == e.Process }) {
			sources = append(sources, why.Source{Name: e.Process})
		}
	}
	for name, t := range p.told {
		s := why.Source{Name: name, Err: t.err}
		if !t.heard.IsZero() {
			s.AgeSeconds = now.Sub(t.heard).Seconds()
		}
		sources = append(sources, s)
	}
	slices.SortFunc(sources, func(a, b why.Source) int { return cmp.Compare(a.Name, b.Name) })
	return sources
}

// evidence says whose words an answer goes by.
func evidence(sources []why.Source) string {
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
