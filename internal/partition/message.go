package partition

import (
	"github.com/podfall/podfall/internal/fault"
)

// Message is a kind of message that a cut can hold selectively.
type Message string

// The kinds of message. A link only sees bytes. So messages are held in the member's own client
// of the apiserver, and are still sent when the cut heals.
const (
	// Leases are renewals of Leases, the heartbeats of nodes and leaders.
	Leases Message = "lease"
	// Statuses are status writes of all resources.
	Statuses Message = "status"
	// Deletes are DELETE requests, including a kubelet's final delete of a pod.
	Deletes Message = "delete"
	// Events are writes of Events.
	Events Message = "events"
	// Writes are all requests that change objects.
	Writes Message = "write"
	// Reads are gets and lists.
	Reads Message = "read"
	// Watches are watch events on their way to the member.
	Watches Message = "watch"
)

// Messages returns all kinds, in the order of documentation.
func Messages() []Message {
	return []Message{Leases, Statuses, Deletes, Events, Writes, Reads, Watches}
}

const writeVerbs = "create,update,patch,delete,deletecollection"

// selector returns the fault point and selector of the kind.
func (m Message) selector() (fault.Point, fault.Attributes) {
	switch m {
	case Leases:
		return fault.APIRequest, fault.Attributes{Verb: writeVerbs, Resource: "leases.coordination.k8s.io"}
	case Statuses:
		return fault.APIRequest, fault.Attributes{Verb: writeVerbs, Subresource: "status"}
	case Deletes:
		return fault.APIRequest, fault.Attributes{Verb: "delete,deletecollection"}
	case Events:
		return fault.APIRequest, fault.Attributes{Verb: writeVerbs, Resource: "events,events.events.k8s.io"}
	case Writes:
		return fault.APIRequest, fault.Attributes{Verb: writeVerbs}
	case Reads:
		return fault.APIRequest, fault.Attributes{Verb: "get,list"}
	case Watches:
		return fault.WatchDeliver, fault.Attributes{}
	}
	return "", fault.Attributes{}
}

// Faults returns the faults that hold single kinds of message; none for a cut of all bytes.
func (c Cut) Faults(members []string) []fault.Fault {
	var faults []fault.Fault
	for _, member := range c.Spec.CutOff(members) {
		for _, message := range c.Spec.Only {
			point, where := message.selector()
			where.Process = processName(member)
			faults = append(faults, fault.Fault{
				Name: c.Name + "." + member + "." + string(message), Since: c.Since, Until: c.Until,
				Spec: fault.Spec{Point: point, Where: where, Effect: fault.Effect{Kind: fault.Hang}},
			})
		}
	}
	return faults
}

// processName returns the process of a member that calls the apiserver.
func processName(member string) string {
	switch member {
	case APIServer, Controllers, Gateway:
		return member
	}
	return "kubelet/" + member
}
