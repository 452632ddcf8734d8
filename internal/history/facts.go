package history

import (
	"encoding/json"
	"time"
)

// Name is the name of a kind of event.
type Name string

// The events.
const (
	NameOpCall         Name = "op.call"
	NameOpReturn       Name = "op.ret"
	NameWebhookCall    Name = "op.hook"
	NameCommit         Name = "commit"
	NameFsync          Name = "fsync"
	NameCompact        Name = "compact"
	NameStoreError     Name = "store.err"
	NameStoreOpen      Name = "store.open"
	NameWatchOpen      Name = "w.open"
	NameWatchEvent     Name = "w.ev"
	NameWatchEnd       Name = "w.end"
	NameKubeletBoot    Name = "k.boot"
	NameKubeletStop    Name = "k.stop"
	NameKubeletSee     Name = "k.see"
	NameKubeletTerm    Name = "k.term"
	NameKubeletStuck   Name = "k.stuck"
	NameKubeletStatus  Name = "k.status"
	NameKubeletFinal   Name = "k.final"
	NameKubeletForget  Name = "k.forget"
	NameCreate         Name = "rt.create"
	NameStart          Name = "rt.start"
	NameRecover        Name = "rt.takeup"
	NameProcess        Name = "rt.pid"
	NamePostStartBegin Name = "rt.poststart.begin"
	NamePostStartEnd   Name = "rt.poststart.end"
	NamePreStopBegin   Name = "rt.prestop.begin"
	NamePreStopEnd     Name = "rt.prestop.end"
	NameSignaling      Name = "rt.sig.begin"
	NameSignal         Name = "rt.sig"
	NameExit           Name = "rt.exit"
	NameRemove         Name = "rt.rm"
	NameSandboxStop    Name = "rt.sb.stop"
	NameSandboxRemove  Name = "rt.sb.rm"
	NameMount          Name = "rt.mount"
	NameUnmount        Name = "rt.umount"
	NameDecide         Name = "c.decide"
	NameLease          Name = "n.lease"
	NameReady          Name = "n.ready"
	NameFaultBegin     Name = "f.begin"
	NameFaultEnd       Name = "f.end"
	NameFaultTrigger   Name = "f.hit"
	NameFaultWatch     Name = "f.watch"
	NameWindow         Name = "ui.window"
	NameBlocker        Name = "ui.blocker"
	NameLostEvents     Name = "h.lost"
	NameStall          Name = "p.stall"
)

// Controllers and nodes.
type (
	// Decide is a decision of a controller. The event's cause is the operation that carries it out.
	Decide struct {
		Controller string `json:"ctl"`
		// ReadRevision is the resource version of the object that the controller decided on.
		ReadRevision string `json:"read_rv,omitempty"`
		// Action is the verb.
		Action   string `json:"action"`
		Resource string `json:"resource"`
		Key      string `json:"key"`
	}

	// Lease is a renewal of a node's lease.
	Lease struct {
		Node string `json:"node"`
	}

	// Ready is a change of a node's Ready condition, as the writer requested it.
	Ready struct {
		Node string `json:"node"`
		// Value is True, False or Unknown.
		Value string `json:"val"`
	}
)

// What users were shown.
type (
	// Window is a split-brain window: two incarnations of one namespace and name had running
	// containers.
	Window struct {
		// Identity is namespace/name.
		Identity string `json:"identity"`
		// UIDs are the uids of the incarnations.
		UIDs  []string  `json:"uids"`
		Begin time.Time `json:"begin"`
		// End is nil while the window is open.
		End *time.Time `json:"end,omitempty"`
	}

	// Blocker is the reason that a user was given for a pod's delay.
	Blocker struct {
		UID string `json:"uid"`
		// Reason is one of the reasons of package why.
		Reason string `json:"reason"`
	}
)

// The history itself.
type (
	// LostEvents records events that could not be written. They have no sequence numbers.
	LostEvents struct {
		Count uint64 `json:"count"`
		// Err is the error of the last failed write.
		Err string `json:"err"`
	}
)

// Other is an event with a name that this release does not know.
type Other struct {
	EventName Name
	Fact      json.RawMessage
}

// Name implements Fact.
func (o Other) Name() Name { return o.EventName }

// MarshalJSON returns the fact as it was read.
func (o Other) MarshalJSON() ([]byte, error) {
	if len(o.Fact) == 0 {
		return []byte("null"), nil
	}
	return o.Fact, nil
}

// Name implements Fact.
func (Decide) Name() Name { return NameDecide }

// Name implements Fact.
func (Lease) Name() Name { return NameLease }

// Name implements Fact.
func (Ready) Name() Name { return NameReady }

// Name implements Fact.
func (Window) Name() Name { return NameWindow }

// Name implements Fact.
func (Blocker) Name() Name { return NameBlocker }

// Name implements Fact.
func (LostEvents) Name() Name { return NameLostEvents }
