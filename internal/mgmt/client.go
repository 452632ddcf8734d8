package mgmt

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/podfall/podfall/internal/bus"
	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/proto"
)

// requestTimeout is how long the other side may take to answer, in wall time.
const requestTimeout = 5 * time.Second

// ErrRefused is the cause of every change that the keeper has refused. The text names the invalid
// fields.
var ErrRefused = errors.New("refused")

// Client reads and changes the fault state, and inspects processes. Its permissions are those of
// the connection's identity.
type Client struct{ bus *bus.Conn }

// NewClient returns a client on a connection. The caller keeps ownership of the connection.
func NewClient(conn *bus.Conn) *Client { return &Client{conn} }

// InspectResponse is a process's answer to an inspection.
type InspectResponse struct {
	Answer []byte `json:"answer,omitempty"`
	Error  string `json:"error,omitempty"`
}

// Get returns the current fault state.
func (c *Client) Get(ctx context.Context) (FaultState, error) {
	return c.request(ctx, proto.MgmtFaultStateGet, nil)
}

// Set changes the fault state and returns the new one. It returns [ErrNotFound] if what is to be
// changed does not exist, and [ErrRefused] if the change is invalid.
func (c *Client) Set(ctx context.Context, change Change) (FaultState, error) {
	data, err := json.Marshal(change)
	if err != nil {
		return FaultState{}, fmt.Errorf("change the fault state: %w", err)
	}
	return c.request(ctx, proto.MgmtFaultStateSet, data)
}

func (c *Client) request(ctx context.Context, subject string, data []byte) (FaultState, error) {
	ctx, cancel := clock.Clock{}.Timeout(ctx, requestTimeout)
	defer cancel()
	raw, err := c.bus.Request(ctx, Keeper, subject, data)
	if err != nil {
		return FaultState{}, fmt.Errorf("the bus process does not answer: %w", err)
	}
	var answer Response
	if err := json.Unmarshal(raw, &answer); err != nil {
		return FaultState{}, fmt.Errorf("unreadable answer with the fault state: %w", err)
	}
	switch {
	case answer.NotFound:
		return FaultState{}, &refusal{answer.Error, ErrNotFound}
	case answer.Error != "":
		return FaultState{}, &refusal{answer.Error, ErrRefused}
	case answer.Board == nil:
		return FaultState{}, errors.New("the answer holds no fault state")
	}
	return *answer.Board, nil
}

// refusal is an error with the keeper's own text.
type refusal struct {
	text  string
	cause error
}

// Error implements error.
func (r *refusal) Error() string { return r.text }

// Unwrap returns ErrNotFound or ErrRefused.
func (r *refusal) Unwrap() error { return r.cause }

// Inspect sends a query to a process. If the process does not run, the error is bus.ErrNoResponder,
// at once. If the process is paused, Inspect returns the error of ctx when ctx ends.
func (c *Client) Inspect(ctx context.Context, process string, question []byte) ([]byte, error) {
	raw, err := c.bus.Request(ctx, proto.Mgmt(process), proto.MgmtInspect(process), question)
	if err != nil {
		return nil, fmt.Errorf("inspect %s: %w", process, err)
	}
	var answer InspectResponse
	if err := json.Unmarshal(raw, &answer); err != nil {
		return nil, fmt.Errorf("inspect %s: unreadable answer: %w", process, err)
	}
	if answer.Error != "" {
		return nil, fmt.Errorf("inspect %s: %s", process, answer.Error)
	}
	return answer.Answer, nil
}

// History returns a page of a process's history from a position on. Its errors are those of
// Inspect.
func (c *Client) History(ctx context.Context, process string, from history.Position) (history.Page, error) {
	place, err := json.Marshal(from)
	if err != nil {
		return history.Page{}, err
	}
	raw, err := c.Inspect(ctx, process, []byte(QueryHistory+" "+string(place)))
	if err != nil {
		return history.Page{}, err
	}
	var page history.Page
	if err := json.Unmarshal(raw, &page); err != nil {
		return history.Page{}, fmt.Errorf("history of %s: unreadable answer: %w", process, err)
	}
	return page, nil
}

// Follow calls apply with the current fault state and with each new one, until ctx ends. It fails
// if the first state cannot be read.
func (c *Client) Follow(ctx context.Context, apply func(FaultState)) error {
	const queue = 64
	sub, err := c.bus.Subscribe(proto.MgmtFaultState, queue)
	if err != nil {
		return fmt.Errorf("follow the fault state: %w", err)
	}
	defer sub.Close()
	state, err := c.Get(ctx)
	if err != nil {
		return err
	}
	for apply(state); ; {
		data, err := sub.Next(ctx)
		if errors.Is(err, bus.ErrMissedMessages) {
			continue // the state is published regularly
		}
		if err != nil {
			return err
		}
		var next FaultState
		if json.Unmarshal(data, &next) == nil && next.IsNewerThan(state) {
			state = next
			apply(state)
		}
	}
}
