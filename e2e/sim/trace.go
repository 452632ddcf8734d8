package sim

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/podfall/podfall/internal/history"
)

// trace writes all events of a run, bit for bit, to compare runs; nil writes nothing.
type trace struct{ into *bufio.Writer }

func newTrace(into io.Writer) *trace {
	if into == nil {
		return nil
	}
	const room = 16 << 10
	return &trace{bufio.NewWriterSize(into, room)}
}

// step is that a process was given something.
func (t *trace) step(now time.Duration, name, about string, in Input) {
	if t == nil {
		return
	}
	traceNumber(t.into, uint64(now))
	t.text(name, about)
	switch in := in.(type) {
	case Boot:
		t.text(string(in.Boot))
	case Alarm:
		t.text(in.Key)
	case Message:
		traceBody(t.into, in.Body)
	case Called:
		traceBody(t.into, in.Body)
	case Answered:
		traceBody(t.into, in.Body)
	}
}

// note is that a process has noted a fact.
func (t *trace) note(name, cause string, fact history.Fact) {
	if t == nil {
		return
	}
	t.text(name, cause)
	traceFact(t.into, fact)
}

func (t *trace) text(parts ...string) {
	for _, part := range parts {
		_, _ = t.into.WriteString(part) // the end tells
	}
}

// end hands on what is left. The error is the first that writing has had.
func (t *trace) end() error {
	if t == nil {
		return nil
	}
	return t.into.Flush()
}

// Traced is a body of a message that says more to the trace than its type.
type Traced interface{ Trace(trace io.Writer) }

func traceBody(w io.Writer, body any) {
	if b, ok := body.(Traced); ok {
		b.Trace(w)
		return
	}
	_, _ = fmt.Fprintf(w, "%T", body)
}

// traceNumber puts a number into the trace.
func traceNumber(w io.Writer, number uint64) {
	var room []byte
	if buffered, is := w.(interface{ AvailableBuffer() []byte }); is {
		room = buffered.AvailableBuffer()
	}
	_, _ = w.Write(binary.BigEndian.AppendUint64(room, number))
}

// traceFact puts a fact into the trace.
func traceFact(w io.Writer, fact history.Fact) {
	_, _ = io.WriteString(w, string(fact.Name()))
	if err := json.NewEncoder(w).Encode(fact); err != nil {
		panic("sim: a fact without JSON: " + err.Error()) // a mistake in package history
	}
}
