package podapi

import (
	"errors"

	"github.com/podfall/podfall/proto"
)

// Cursor is a watch's position in the live stream of its group, and in the history. It decides
// whether a frame is the next one. It is pure.
type Cursor struct {
	boot     proto.Boot
	sequence uint64
	// Revision is the revision up to which the consumer has received everything.
	Revision uint64
}

var (
	errGap  = errors.New("a message of the live stream is missing")
	errBoot = errors.New("the apiserver has restarted")
)

// Join moves the cursor to the live stream after catching up.
func (c *Cursor) Join(j *proto.Join) {
	c.boot, c.sequence = proto.Boot(j.GetBoot()), j.GetSequence()
	c.Advance(j.GetRevision())
}

// Advance records that everything up to revision was delivered.
func (c *Cursor) Advance(revision uint64) { c.Revision = max(c.Revision, revision) }

// Accept decides whether frame is the next one. A frame that was seen before, or that an ended
// incarnation sent, is not news: false without an error.
func (c *Cursor) Accept(frame *proto.Frame) (news bool, err error) {
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
