package podapi

import (
	"errors"

	"github.com/podfall/podfall/proto"
)

// cursor is where a watch stands in its group's live stream, and in the history. It
// decides what to do with a frame; it is pure.
type cursor struct {
	boot     proto.Boot
	sequence uint64
	// revision up to which the consumer has been given everything.
	revision uint64
}

var (
	errGap  = errors.New("a message of the live stream is missing")
	errBoot = errors.New("the apiserver has restarted")
)

// join places the cursor in the live stream after catching up.
func (c *cursor) join(j *proto.Join) {
	c.boot, c.sequence = proto.Boot(j.GetBoot()), j.GetSequence()
	c.reached(j.GetRevision())
}

// reached records that everything up to revision has been delivered.
func (c *cursor) reached(revision uint64) { c.revision = max(c.revision, revision) }

// admit decides whether frame is the next one. A frame that was seen before, or comes
// from an incarnation that has ended, is not news, and false without an error.
func (c *cursor) admit(frame *proto.Frame) (news bool, err error) {
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
