package shim

import (
	"errors"
	"io"
	"os"
	"sync"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/runtime/procengine/logfile"
)

// console is the program's input and output. The log gets all output, and attached clients get it
// from the time of attaching.
type console struct {
	log *logfile.Log
	// input is our end of the program's stdin, terminal our end of its terminal; nil for none.
	input, terminal *os.File

	mu         sync.Mutex
	ended      bool
	watchers   map[*attachedClient]struct{}
	forwarding sync.WaitGroup
}

// attachedClient is a client attached to the program.
type attachedClient struct {
	peer    *peer
	request Stream
	// frames queues the output for the client. It is closed when there is no more.
	frames chan []byte
	// err is sent to the client at the end; set before frames is closed.
	err error
}

// maxPendingFrames is how many frames a client may lag behind the program's output.
const maxPendingFrames = 1024

var errTooSlow = errors.New("this client reads too slowly; what the program writes is in its log")

// attachStdio takes over the program's input and output.
func (c *console) attachStdio(files stdio) {
	c.input, c.terminal, c.watchers = files.input, files.terminal, map[*attachedClient]struct{}{}
}

// copyOutput forwards one channel of the program's output until it ends.
func (c *console) copyOutput(channel proto.Channel, from *os.File) {
	name := "stdout"
	if channel == proto.ChannelStderr {
		name = "stderr"
	}
	c.log.Copy(name, io.TeeReader(from, broadcaster{c, channel}))
	_ = from.Close()
}

// broadcaster sends one channel's output to the attached clients.
type broadcaster struct {
	console *console
	channel proto.Channel
}

// Write implements io.Writer. It never blocks, so attached clients cannot stall the program.
func (l broadcaster) Write(text []byte) (int, error) {
	c := l.console
	c.mu.Lock()
	defer c.mu.Unlock()
	var frame []byte
	for w := range c.watchers {
		if l.channel == proto.ChannelStdout && !w.request.Stdout || l.channel == proto.ChannelStderr && !w.request.Stderr {
			continue
		}
		if frame == nil {
			frame = proto.StreamFrame(l.channel, text)
		}
		select {
		case w.frames <- frame:
		default:
			c.detach(w, errTooSlow)
		}
	}
	return len(text), nil
}

// addClient attaches a client; false if the program has ended.
func (c *console) addClient(w *attachedClient) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return false
	}
	c.watchers[w] = struct{}{}
	c.forwarding.Go(w.forward)
	return true
}

// removeClient detaches a client if it is still attached.
func (c *console) removeClient(w *attachedClient) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.detach(w, nil)
}

// detach ends a client's stream with err. The caller holds the lock.
func (c *console) detach(w *attachedClient, why error) {
	if _, attached := c.watchers[w]; attached {
		delete(c.watchers, w)
		w.err = why
		close(w.frames)
	}
}

// finish ends all clients' streams and waits until the clients have been told.
func (c *console) finish() {
	c.mu.Lock()
	c.ended = true
	for w := range c.watchers {
		c.detach(w, nil)
	}
	c.mu.Unlock()
	c.forwarding.Wait()
	if c.input != nil {
		_ = c.input.Close()
	}
}

// forward sends the output to the client, then the end of the stream. An attachment has no exit
// code: the container's exit is reported elsewhere.
func (w *attachedClient) forward() {
	for frame := range w.frames {
		if w.peer.sendFrame(frame) != nil {
			_ = w.peer.conn.Close()
			for range w.frames { // until it is detached
			}
			return
		}
	}
	if w.err != nil {
		w.peer.send(message{Error: w.err.Error()})
	} else {
		_ = w.peer.sendFrame(proto.StatusFrame(proto.ExitStatus(0))) // it may have disconnected
	}
	_ = w.peer.conn.Close()
}

// attachClient connects a client to the program's output, and to its input if it has one.
func (s *shim) attachClient(t *conversation, asked Stream) error {
	w := &attachedClient{peer: t.peer, request: asked, frames: make(chan []byte, maxPendingFrames)}
	if !s.console.addClient(w) {
		return errEnded
	}
	if t.terminal = s.console.terminal; asked.Stdin {
		t.input = s.console.input
	}
	t.shared = !s.spec.StdinOnce
	t.readClient()
	s.console.removeClient(w)
	t.closeInput()
	return nil
}
