package partition

import (
	"github.com/podfall/podfall/internal/fault"
)

// Message is a kind of message that a cut can hold up by itself.
type Message string

// The kinds of message. A link sees bytes; these are held where the party speaks to the
// apiserver, so that what waits is still there when the cut heals.
const (
	// Leases are renewals of Leases, by which a node or a leader is known to live.
	Leases Message = "lease"
	// Statuses are writes of status: of pods, nodes, everything.
	Statuses Message = "status"
	// Deletes are DELETEs, a kubelet's last word about a pod among them.
	Deletes Message = "delete"
	// Events are writes of Events.
	Events Message = "events"
	// Writes are all that changes objects.
	Writes Message = "write"
	// Reads are gets and lists.
	Reads Message = "read"
	// Watches are the events of watches, on their way to the party.
	Watches Message = "watch"
)

// Messages are the kinds, in the order in which they are told to people.
func Messages() []Message {
	return []Message{Leases, Statuses, Deletes, Events, Writes, Reads, Watches}
}

const writes = "create,update,patch,delete,deletecollection"

// where selects the messages of the kind.
func (m Message) where() (fault.Point, fault.About) {
	switch m {
	case Leases:
		return fault.APIRequest, fault.About{Verb: writes, Resource: "leases.coordination.k8s.io"}
	case Statuses:
		return fault.APIRequest, fault.About{Verb: writes, Subresource: "status"}
	case Deletes:
		return fault.APIRequest, fault.About{Verb: "delete,deletecollection"}
	case Events:
		return fault.APIRequest, fault.About{Verb: writes, Resource: "events,events.events.k8s.io"}
	case Writes:
		return fault.APIRequest, fault.About{Verb: writes}
	case Reads:
		return fault.APIRequest, fault.About{Verb: "get,list"}
	case Watches:
		return fault.WatchDeliver, fault.About{}
	}
	return "", fault.About{}
}

// Faults are what the cut does to single kinds of message; none for a cut of all bytes.
func (c Cut) Faults(parties []string) []fault.Fault {
	var faults []fault.Fault
	for _, party := range c.Spec.Off(parties) {
		for _, message := range c.Spec.Only {
			point, where := message.where()
			where.Process = process(party)
			faults = append(faults, fault.Fault{
				Name: c.Name + "." + party + "." + string(message), Since: c.Since, Until: c.Until,
				Spec: fault.Spec{Point: point, Where: where, Effect: fault.Effect{Kind: fault.Hang}},
			})
		}
	}
	return faults
}

// process is that of a party which speaks to the apiserver.
func process(party string) string {
	switch party {
	case APIServer, Controllers, Gateway:
		return party
	}
	return "kubelet/" + party
}
