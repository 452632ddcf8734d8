// Package partition is what is wrong with the network between the processes of a cluster.
// A Cut says who is cut off, how, and for how long; Of says what all cuts together do to
// one party's link at an instant. All of it is pure: services/bus carries it out.
//
//	           hub
//	  /    /    |    \    \
//	link link  link link link      a party's link carries all that it says and hears
//	  |    |    |    |    |
//	 n1   n2  apiserver controllers gateway
//
// Everybody speaks to everybody over the hub, and nearly all of it is with the apiserver.
// So a partition into groups is, on a link, whether the party is in the apiserver's group:
// who is not is cut off from the hub, and hears nothing from its own group either.
package partition

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The parties that are no nodes.
const (
	APIServer   = "apiserver"
	Controllers = "controllers"
	Gateway     = "gateway"
)

// Parties are all that have a link in a cluster with these nodes: everyone but the bus and
// the clients.
func Parties(nodes []string) []string {
	return append([]string{APIServer, Controllers, Gateway}, nodes...)
}

// Cut is something wrong with the network.
type Cut struct {
	// Name is the cut's own, as an object is called.
	Name string `json:"name"`
	Spec Spec   `json:"spec"`
	// Since is when it was made, and Until when it is over by itself; zero means never.
	// Both are in the cluster's time.
	Since time.Time `json:"since"`
	Until time.Time `json:"until,omitzero"`
	// Owner is the UID of the object that it stands for; empty without one.
	Owner string `json:"owner,omitempty"`
	// Lease ends the cut when its author is not heard of any more; nil for a cut that
	// outlives its author.
	Lease *Lease `json:"lease,omitempty"`
}

// Lease says that somebody holds a cut.
type Lease struct {
	// Holder says who, for people.
	Holder string `json:"holder"`
	// Expires is when, on the wall, the cut is over unless the holder has renewed it.
	Expires time.Time `json:"expires"`
}

// Spec is who is cut off, how, and for how long. It is the spec of a kind: Partition.
type Spec struct {
	// Parties are cut off from everyone: nodes by name, apiserver, controllers, gateway.
	Parties []string `json:"parties,omitempty"`
	// Groups are cut off from each other; who is not named is a group too.
	Groups [][]string `json:"groups,omitempty"`
	// Direction is one way along the link, or empty for both.
	Direction Direction `json:"direction,omitempty"`
	// Manner is hold, reset or carry. Empty means hold, or carry if the link is slow.
	Manner Manner `json:"manner,omitempty"`
	// Only holds up nothing but these kinds of message; empty means all bytes.
	Only []Message `json:"only,omitempty"`

	// Latency is added to all that is carried, and up to Jitter more, drawn from Seed.
	Latency metav1.Duration `json:"latency,omitzero"`
	Jitter  metav1.Duration `json:"jitter,omitzero"`
	Seed    uint64          `json:"seed,omitempty"`
	// Bandwidth is how many bytes a second a direction carries; 0 means no limit.
	Bandwidth int64 `json:"bandwidth,omitempty"`
	// Flap cuts and heals in turns.
	Flap Flap `json:"flap,omitzero"`
	// Duration is how long the cut lasts, in the cluster's time; 0 means until it is
	// healed.
	Duration metav1.Duration `json:"duration,omitzero"`
}

// Flap is a link that is cut for Down, whole for Up, and so on; none when zero.
type Flap struct {
	Down metav1.Duration `json:"down"`
	Up   metav1.Duration `json:"up"`
}

// Direction is a way along a link.
type Direction string

// The directions. The node is the party whose link it is, whatever that is.
const (
	FromNode Direction = "from-node"
	ToNode   Direction = "to-node"
	Both     Direction = "both"
)

// Manner is what a link does with what is under way in one direction.
type Manner string

// The manners. Bytes are never dropped out of a connection that lives on: a network does
// not do that either.
const (
	// Carry is what a whole link does.
	Carry Manner = "carry"
	// Hold lets bytes wait, the beginnings and the ends of connections among them, as a
	// network does that drops packets: nobody is told. What waits arrives after the heal,
	// unless a side has given the connection up by then.
	Hold Manner = "hold"
	// Reset breaks connections and refuses new ones, as a router does that rejects packets:
	// both sides are told at once. A connection is one thing, so that it has no direction.
	Reset Manner = "reset"
)

// New is a cut that begins now, or an error that names the fields that are wrong. Parties
// are all that there are.
func New(name string, spec Spec, parties []string, now time.Time) (Cut, error) {
	if err := Check(name, spec, parties); err != nil {
		return Cut{}, err
	}
	c := Cut{Name: name, Spec: spec, Since: now}
	if spec.Duration.Duration > 0 {
		c.Until = now.Add(spec.Duration.Duration)
	}
	return c, nil
}

// Over reports whether the cut has ended, by its duration or by its lease.
func (c Cut) Over(wall, cluster time.Time) bool {
	return !c.Until.IsZero() && !cluster.Before(c.Until) || c.Lease != nil && !wall.Before(c.Lease.Expires)
}

// Off are those of the parties that the cut is about: who is named, or is not in the
// apiserver's group.
func (s Spec) Off(parties []string) []string {
	if len(s.Groups) == 0 {
		return slices.DeleteFunc(slices.Clone(parties), func(p string) bool { return !slices.Contains(s.Parties, p) })
	}
	home := s.group(APIServer)
	return slices.DeleteFunc(slices.Clone(parties), func(p string) bool { return s.group(p) == home })
}

// group is the number of the party's group; -1 for all those who are not named.
func (s Spec) group(party string) int {
	return slices.IndexFunc(s.Groups, func(group []string) bool { return slices.Contains(group, party) })
}
