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

// patience is how long the plane may take to answer, on the wall.
const patience = 5 * time.Second

// ErrRefused is the cause of every change that the board's keeper has refused; the text
// names the fields that are wrong.
var ErrRefused = errors.New("refused")

// Client asks and changes the board, and asks the processes. What it may is its
// connection's identity's.
type Client struct{ bus *bus.Conn }

// NewClient is a client on a connection, which stays the caller's.
func NewClient(conn *bus.Conn) *Client { return &Client{conn} }

// Inspection is a process's answer to who inspects it.
type Inspection struct {
	Answer []byte `json:"answer,omitempty"`
	Error  string `json:"error,omitempty"`
}

// Get is the board as it is.
func (c *Client) Get(ctx context.Context) (Board, error) {
	return c.ask(ctx, proto.MgmtBoardGet, nil)
}

// Set changes the board, and returns it as it is then. [ErrNotFound] says that what was to
// be changed is not there, [ErrRefused] that the change is wrong.
func (c *Client) Set(ctx context.Context, change Change) (Board, error) {
	data, err := json.Marshal(change)
	if err != nil {
		return Board{}, fmt.Errorf("change the board: %w", err)
	}
	return c.ask(ctx, proto.MgmtBoardSet, data)
}

func (c *Client) ask(ctx context.Context, subject string, data []byte) (Board, error) {
	ctx, cancel := clock.Clock{}.Timeout(ctx, patience)
	defer cancel()
	raw, err := c.bus.Request(ctx, Keeper, subject, data)
	if err != nil {
		return Board{}, fmt.Errorf("the bus process does not answer: %w", err)
	}
	var answer Answer
	if err := json.Unmarshal(raw, &answer); err != nil {
		return Board{}, fmt.Errorf("unreadable answer of the board: %w", err)
	}
	switch {
	case answer.NotFound:
		return Board{}, &refusal{answer.Error, ErrNotFound}
	case answer.Error != "":
		return Board{}, &refusal{answer.Error, ErrRefused}
	case answer.Board == nil:
		return Board{}, errors.New("the answer holds no board")
	}
	return *answer.Board, nil
}

// refusal is the keeper's own words.
type refusal struct {
	text  string
	cause error
}

// Error implements error.
func (r *refusal) Error() string { return r.text }

// Unwrap is why.
func (r *refusal) Unwrap() error { return r.cause }

// Inspect asks a process what it knows. A process that does not run is
// bus.ErrNoResponder, at once; one that is paused answers until ctx ends with its error.
func (c *Client) Inspect(ctx context.Context, process string, question []byte) ([]byte, error) {
	raw, err := c.bus.Request(ctx, proto.Mgmt(process), proto.MgmtInspect(process), question)
	if err != nil {
		return nil, fmt.Errorf("inspect %s: %w", process, err)
	}
	var answer Inspection
	if err := json.Unmarshal(raw, &answer); err != nil {
		return nil, fmt.Errorf("inspect %s: unreadable answer: %w", process, err)
	}
	if answer.Error != "" {
		return nil, fmt.Errorf("inspect %s: %s", process, answer.Error)
	}
	return answer.Answer, nil
}

// History is a page of what a process has written down, from a place on. Its errors are
// those of Inspect.
func (c *Client) History(ctx context.Context, process string, from history.Position) (history.Page, error) {
	place, err := json.Marshal(from)
	if err != nil {
		return history.Page{}, err
	}
	raw, err := c.Inspect(ctx, process, []byte(AskHistory+" "+string(place)))
	if err != nil {
		return history.Page{}, err
	}
	var page history.Page
	if err := json.Unmarshal(raw, &page); err != nil {
		return history.Page{}, fmt.Errorf("history of %s: unreadable answer: %w", process, err)
	}
	return page, nil
}

// Follow tells apply of the board as it is, and of each new one, until ctx ends. It fails
// when the board is not to be had at first.
func (c *Client) Follow(ctx context.Context, apply func(Board)) error {
	const queue = 64
	sub, err := c.bus.Subscribe(proto.MgmtBoard, queue)
	if err != nil {
		return fmt.Errorf("follow the board: %w", err)
	}
	defer sub.Close()
	board, err := c.Get(ctx)
	if err != nil {
		return err
	}
	for apply(board); ; {
		data, err := sub.Next(ctx)
		if errors.Is(err, bus.ErrMissedMessages) {
			continue // it is published now and then
		}
		if err != nil {
			return err
		}
		var next Board
		if json.Unmarshal(data, &next) == nil && next.Newer(board) {
			board = next
			apply(board)
		}
	}
}
