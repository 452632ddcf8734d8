package shim

import (
	"errors"
	"os"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/runtime/procengine/launch"
)

// stdio is a process's input and output: pipes or a terminal.
type stdio struct {
	// theirs are the process's descriptors 0, 1 and 2.
	theirs []*os.File
	// input is our end of its stdin; nil if it has none.
	input *os.File
	// terminal is our end of its terminal, used for both input and output; nil for none.
	terminal *os.File
	// output holds our ends of its output, by channel.
	output map[proto.Channel]*os.File
}

// openStdio opens the input and output of a process of the user.
func openStdio(stdin, tty bool, user *launch.User) (stdio, error) { //nolint:revive // the container's spec says so
	if tty {
		ours, theirs, err := openTerminal(user)
		if err != nil {
			return stdio{}, err
		}
		o := stdio{theirs: []*os.File{theirs, theirs, theirs}, terminal: ours, output: make(map[proto.Channel]*os.File, 1)}
		o.output[proto.ChannelStdout] = ours
		if stdin {
			o.input = ours
		}
		return o, nil
	}
	o := stdio{output: make(map[proto.Channel]*os.File, 2)}
	err := o.openInput(stdin)
	for _, channel := range []proto.Channel{proto.ChannelStdout, proto.ChannelStderr} {
		if err != nil {
			break
		}
		var reader, writer *os.File
		if reader, writer, err = os.Pipe(); err == nil {
			o.output[channel], o.theirs = reader, append(o.theirs, writer)
		}
	}
	if err != nil {
		o.closeTheirs()
		o.closeOurs()
	}
	return o, err
}

// openInput opens the process's stdin: a pipe, or /dev/null.
func (o *stdio) openInput(stdin bool) error { //nolint:revive // the container's spec says so
	var theirs *os.File
	var err error
	if stdin {
		theirs, o.input, err = os.Pipe()
	} else {
		theirs, err = os.Open(os.DevNull)
	}
	if err == nil {
		o.theirs = append(o.theirs, theirs)
	}
	return err
}

// closeTheirs closes the process's ends, once the process has them.
func (o *stdio) closeTheirs() {
	for _, file := range o.theirs {
		_ = file.Close() // a terminal is in it three times
	}
}

// closeOurs closes our ends.
func (o *stdio) closeOurs() {
	var err error
	if o.input != nil {
		err = o.input.Close()
	}
	for _, file := range o.output {
		err = errors.Join(err, file.Close())
	}
	_ = err // a file that cannot be closed is closed already
}
