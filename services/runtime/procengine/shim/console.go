package shim

import (
	"errors"
	"io"
	"os"
	"sync"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/runtime/procengine/logfile"
)

// console is what the program reads and writes: its log has all of it, and those who are
// attached hear it from then on.
type console struct {
	log *logfile.Log
	// input is what the program reads, terminal its terminal; nil for none.
	input, terminal *os.File

	mu       sync.Mutex
	ended    bool
	watchers map[*watcher]struct{}
	telling  sync.WaitGroup
}

// watcher is a client that is attached.
type watcher struct {
	peer  *peer
	asked Stream
	// frames are still to be told; it is closed when there will be no more.
	frames chan []byte
	// why is the end that the client is told; set before frames is closed.
	why error
}

// backlog is how many frames a client may be behind what the program writes.
const backlog = 1024

var errBehind = errors.New("this client reads too slowly; what the program writes is in its log")

// begin takes over what the program reads and writes.
func (c *console) begin(files stdio) {
	c.input, c.terminal, c.watchers = files.input, files.terminal, map[*watcher]struct{}{}
}

// copy passes on what the program writes on one channel, until it ends.
func (c *console) copy(channel proto.Channel, from *os.File) {
	name := "stdout"
	if channel == proto.ChannelStderr {
		name = "stderr"
	}
	c.log.Copy(name, io.TeeReader(from, loudspeaker{c, channel}))
	_ = from.Close()
}

// loudspeaker tells those who are attached what is written on one channel.
type loudspeaker struct {
	console *console
	channel proto.Channel
}

// Write implements io.Writer. It waits for nobody: the program does not stop for those who
// look at it.
func (l loudspeaker) Write(text []byte) (int, error) {
	c := l.console
	c.mu.Lock()
	defer c.mu.Unlock()
	var frame []byte
	for w := range c.watchers {
		if l.channel == proto.ChannelStdout && !w.asked.Stdout || l.channel == proto.ChannelStderr && !w.asked.Stderr {
			continue
		}
		if frame == nil {
			frame = proto.StreamFrame(l.channel, text)
		}
		select {
		case w.frames <- frame:
		default:
			c.dismiss(w, errBehind)
		}
	}
	return len(text), nil
}

// join attaches a client; false when the program has ended.
func (c *console) join(w *watcher) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return false
	}
	c.watchers[w] = struct{}{}
	c.telling.Go(w.tell)
	return true
}

// leave detaches a client, if it still is attached.
func (c *console) leave(w *watcher) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dismiss(w, nil)
}

// dismiss is called under the lock.
func (c *console) dismiss(w *watcher, why error) {
	if _, attached := c.watchers[w]; attached {
		delete(c.watchers, w)
		w.why = why
		close(w.frames)
	}
}

// end tells everyone that the program has ended, and waits until they have been told.
func (c *console) end() {
	c.mu.Lock()
	c.ended = true
	for w := range c.watchers {
		c.dismiss(w, nil)
	}
	c.mu.Unlock()
	c.telling.Wait()
	if c.input != nil {
		_ = c.input.Close()
	}
}

// tell passes on what the program writes, and then that it is over. An attachment has no
// exit code: that is the container's to tell.
func (w *watcher) tell() {
	for frame := range w.frames {
		if w.peer.frame(frame) != nil {
			_ = w.peer.conn.Close()
			for range w.frames { // until it is dismissed
			}
			return
		}
	}
	if w.why != nil {
		w.peer.send(message{Error: w.why.Error()})
	} else {
		_ = w.peer.frame(proto.StatusFrame(proto.ExitStatus(0))) // it may have left
	}
	_ = w.peer.conn.Close()
}

// attach lets a client hear the program, and speak to it if anybody can.
func (s *shim) attach(t *talk, asked Stream) error {
	w := &watcher{peer: t.peer, asked: asked, frames: make(chan []byte, backlog)}
	if !s.console.join(w) {
		return errEnded
	}
	if t.terminal = s.console.terminal; asked.Stdin {
		t.input = s.console.input
	}
	t.shared = !s.spec.StdinOnce
	t.listen()
	s.console.leave(w)
	t.endInput()
	return nil
}
