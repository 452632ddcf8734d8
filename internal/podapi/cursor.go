package podapi

import (
	"errors"

	"github.com/podfall/podfall/proto"
)

// Cursor is where a watch stands in its group's live stream, and in the history. It
// decides what to do with a frame; it is pure.
type Cursor struct {
	boot     proto.Boot
	sequence uint64
	// Revision up to which the consumer has been given everything.
	Revision uint64
}

var (
	errGap  = errors.New("a message of the live stream is missing")
	errBoot = errors.New("the apiserver has restarted")
)

// Join places the cursor in the live stream after catching up.
func (c *Cursor) Join(j *proto.Join) {
	c.boot, c.sequence = proto.Boot(j.GetBoot()), j.GetSequence()
	c.Reached(j.GetRevision())
}

// Reached records that everything up to revision has been delivered.
func (c *Cursor) Reached(revision uint64) { c.Revision = max(c.Revision, revision) }

// Admit decides whether frame is the next one. A frame that was seen before, or comes
// from an incarnation that has ended, is not news, and false without an error.
func (c *Cursor) Admit(frame *proto.Frame) (news bool, err error) {
	boot := proto.Boot(frame.GetBoot())
	switch {
	case boot.OlderThan(c.boot):
		return false, nil
	case boot != c.boot:
		return false, errBoot
	case frame.GetSequence() <= c.sequence:
		return false, nil
	case frame.GetSequence() != c.sequence+1:
		return false, errGap
	}
	c.sequence++
	return true, nil
}
