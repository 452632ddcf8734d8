package inprocess

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/internal/inspect"
	"github.com/podfall/podfall/internal/trouble"
	"github.com/podfall/podfall/proto"
)

// History returns the directory of the parts' histories.
func (c *Cluster) History() string { return filepath.Join(c.cfg.Dir, "history") }

// openTroubles opens the history of faults.
func (c *Cluster) openTroubles() error {
	var err error
	c.writer, err = history.Open(history.Config{
		Dir: c.History(), Process: "nemesis", Boot: proto.NewBoot(clock.Clock{}.Now(), [4]byte{}), Clock: c.cfg.Clock,
	})
	c.troubles = trouble.NewLog(c.writer)
	return err
}

// recordUp records that a part that was down is ready again. Its start began at began.
func (c *Cluster) recordUp(began history.MonoTime, p *part, name string) {
	c.mu.Lock()
	was := p.down
	p.down = false
	c.mu.Unlock()
	if was {
		c.troubles.End(began, history.TroubleDown, name)
	}
}

// Inspect returns the state of a part: JSON of a type of package inspect. Like the management
// connection, it works through every cut. A part that does not run does not answer.
func (c *Cluster) Inspect(ctx context.Context, part string) ([]byte, error) {
	c.inspectors.mu.Lock()
	ask := c.inspectors.ask[part]
	c.inspectors.mu.Unlock()
	if ask == nil {
		return nil, fmt.Errorf("%s: %w", part, errSilent)
	}
	return json.Marshal(ask(ctx))
}

var errSilent = errors.New("does not answer")

// inspectors are the inspect functions of running parts.
type inspectors struct {
	mu  sync.Mutex
	ask map[string]func(context.Context) any
}

// observe returns the observers for one boot of a part. The caller calls done when the boot ends.
func observe[T any](c *Cluster, part string, boot proto.Boot) (observers inspect.Observers[T], done func(), err error) {
	observers.History, err = history.Open(history.Config{Dir: c.History(), Process: part, Boot: boot, Clock: c.cfg.Clock})
	if err != nil {
		return observers, nil, err
	}
	set := func(ask func(context.Context) any) {
		c.inspectors.mu.Lock()
		defer c.inspectors.mu.Unlock()
		if c.inspectors.ask == nil {
			c.inspectors.ask = map[string]func(context.Context) any{}
		}
		c.inspectors.ask[part] = ask
	}
	observers.Inspect = func(ask func(context.Context) T) {
		set(func(ctx context.Context) any { return ask(ctx) })
	}
	return observers, func() { set(nil); observers.History.Close() }, nil
}
