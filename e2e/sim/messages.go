package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/podfall/podfall/proto"
)

// APIServer is the process that Requests go to.
const APIServer = "apiserver"

// What goes between the apiserver and those who ask it. Use [Client] and [Follower], which
// speak it: they are what internal/podapi is in the product.
type (
	// Request is the body of a Call of [APIServer].
	Request struct {
		// Subject is that of a proto.APISubject.
		Subject  string
		Envelope *proto.Request
	}

	// Response is the body of its Answered: all parts, in order. A refusal is a part with a code of
	// 400 or more. Answered.Err means that there was no answer.
	Response struct {
		Parts []*proto.Response
	}

	// Frame is the body of a Message to the subscribers of a watch's subject.
	Frame struct {
		Subject string
		*proto.Frame
	}
)

// App describes the application in a container. The container's arguments encode it, as Args writes
// them.
type App struct {
	// IgnoresTerm has only SIGKILL end it.
	IgnoresTerm bool
	// Stops is how long it takes to end after SIGTERM; default 0.
	Stops time.Duration
	// Runs is after what time it ends by itself; never when zero.
	Runs time.Duration
	// Code is its exit code when it ends by itself or after SIGTERM.
	Code int32
	// Fails is how many of a hundred containers end with another code than that.
	Fails int32
}

// The arguments of a container.
const (
	argIgnoresTerm = "--ignore-term"
	argStops       = "--stops="
	argRuns        = "--runs="
	argCode        = "--code="
	argFails       = "--fails="
)

// Args are the container arguments that ParseApp reads.
func (a App) Args() []string {
	var args []string
	if a.IgnoresTerm {
		args = append(args, argIgnoresTerm)
	}
	if a.Stops > 0 {
		args = append(args, argStops+a.Stops.String())
	}
	if a.Runs > 0 {
		args = append(args, argRuns+a.Runs.String())
	}
	if a.Code != 0 {
		args = append(args, argCode+strconv.Itoa(int(a.Code)))
	}
	if a.Fails != 0 {
		args = append(args, argFails+strconv.Itoa(int(a.Fails)))
	}
	return args
}

// ParseApp reads a container's arguments; the error names the one that it cannot read.
func ParseApp(args []string) (app App, err error) {
	app.IgnoresTerm = slices.Contains(args, argIgnoresTerm)
	for _, arg := range args {
		name, value, _ := strings.Cut(arg, "=")
		switch name + "=" {
		case argStops:
			app.Stops, err = time.ParseDuration(value)
		case argRuns:
			app.Runs, err = time.ParseDuration(value)
		case argCode:
			app.Code, err = parseNumber(value)
		case argFails:
			app.Fails, err = parseNumber(value)
		}
		if err != nil {
			return App{}, fmt.Errorf("argument %s: %w", arg, err)
		}
	}
	return app, nil
}

func parseNumber(text string) (int32, error) {
	number, err := strconv.ParseInt(text, 10, 32)
	return int32(number), err
}
