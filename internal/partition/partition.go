// Package partition describes faults of the network between the processes of a cluster. A Cut says
// which members are cut off, how, and for how long. ConditionOf combines all cuts into the
// condition of one member's link at an instant. The package is pure; services/bus applies it.
//
//	         hub
//	/    /    |    \    \
//
// link link link link link a member's link carries all its traffic
//
//	|    |    |    |    |
//
// n1 n2 apiserver controllers gateway
//
// Members communicate over the hub, nearly always with the apiserver. So on a link, a partition
// into groups only decides whether the member is in the apiserver's group. All other members are
// cut off from the hub, and receive nothing from their own group either.
package partition

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The members that are not nodes.
const (
	APIServer   = "apiserver"
	Controllers = "controllers"
	Gateway     = "gateway"
)

// Members returns all members of a cluster with these nodes: everything that has a link, so not the
// bus and the clients.
func Members(nodes []string) []string {
	return append([]string{APIServer, Controllers, Gateway}, nodes...)
}

// Cut is one fault of the network.
type Cut struct {
	// Name is the cut's name, a DNS subdomain.
	Name string `json:"name"`
	Spec Spec   `json:"spec"`
	// Since is when the cut was made, and Until when it ends by itself; zero means never. Both are
	// cluster time.
	Since time.Time `json:"since"`
	Until time.Time `json:"until,omitzero"`
	// Owner is the UID of the API object that defines the cut; empty without one.
	Owner string `json:"owner,omitempty"`
	// Lease ends the cut if its author stops renewing; nil for a cut that does not depend on its
	// author.
	Lease *Lease `json:"lease,omitempty"`
}

// Lease is a time-limited hold on a cut.
type Lease struct {
	// Holder names the author for people.
	Holder string `json:"holder"`
	// Expires is the wall time at which the cut ends unless the holder renews the lease.
	Expires time.Time `json:"expires"`
}

// Spec is which members are cut off, how, and for how long. It is the spec of the kind Partition.
type Spec struct {
	// Members are cut off from everything: node names, apiserver, controllers, gateway.
	Members []string `json:"parties,omitempty"`
	// Groups are cut off from each other. Members that are not named form a group of their own.
	Groups [][]string `json:"groups,omitempty"`
	// Direction is one direction of the link; empty for both.
	Direction Direction `json:"direction,omitempty"`
	// Manner is hold, reset or carry. Empty means hold, or carry if the link is slow.
	Manner Manner `json:"manner,omitempty"`
	// Only holds just these kinds of message; empty means all bytes.
	Only []Message `json:"only,omitempty"`

	// Latency is added to all that is carried, and up to Jitter more, drawn from Seed.
	Latency metav1.Duration `json:"latency,omitzero"`
	Jitter  metav1.Duration `json:"jitter,omitzero"`
	Seed    uint64          `json:"seed,omitempty"`
	// Bandwidth is in bytes a second and direction; 0 means no limit.
	Bandwidth int64 `json:"bandwidth,omitempty"`
	// Flap cuts and heals alternately.
	Flap Flap `json:"flap,omitzero"`
	// Duration is how long the cut lasts in cluster time; 0 means until it is healed.
	Duration metav1.Duration `json:"duration,omitzero"`
}

// Flap is a link that is cut for Down, healthy for Up, and so on; the zero value does not flap.
type Flap struct {
	Down metav1.Duration `json:"down"`
	Up   metav1.Duration `json:"up"`
}

// Direction is a direction of a link.
type Direction string

// The directions. The node is the member that owns the link, even if it is not a node.
const (
	FromNode Direction = "from-node"
	ToNode   Direction = "to-node"
	Both     Direction = "both"
)

// Manner is what a link does with traffic in one direction.
type Manner string

// The manners. Bytes are never dropped from a connection that continues, as in a real network.
const (
	// Carry passes traffic on, as a healthy link does.
	Carry Manner = "carry"
	// Hold delays bytes, including the opening and closing of connections, as a network does that
	// drops packets: no side is notified. After the heal the bytes arrive, unless a side has closed
	// the connection.
	Hold Manner = "hold"
	// Reset breaks connections and refuses new ones, as a router does that rejects packets. Both
	// sides are notified at once. It affects the whole connection, so it has no direction.
	Reset Manner = "reset"
)

// New returns a cut that begins now, or an error that names the invalid fields. The members are all
// members of the cluster.
func New(name string, spec Spec, members []string, now time.Time) (Cut, error) {
	if err := Check(name, spec, members); err != nil {
		return Cut{}, err
	}
	c := Cut{Name: name, Spec: spec, Since: now}
	if spec.Duration.Duration > 0 {
		c.Until = now.Add(spec.Duration.Duration)
	}
	return c, nil
}

// Expired reports whether the cut has ended, by its duration or its lease.
func (c Cut) Expired(wall, cluster time.Time) bool {
	return !c.Until.IsZero() && !cluster.Before(c.Until) || c.Lease != nil && !wall.Before(c.Lease.Expires)
}

// CutOff returns which of the members are cut off: those named, or those outside the apiserver's
// group.
func (s Spec) CutOff(members []string) []string {
	if len(s.Groups) == 0 {
		return slices.DeleteFunc(slices.Clone(members), func(p string) bool { return !slices.Contains(s.Members, p) })
	}
	home := s.groupOf(APIServer)
	return slices.DeleteFunc(slices.Clone(members), func(p string) bool { return s.groupOf(p) == home })
}

// groupOf returns the index of the member's group; -1 for all members that are not named.
func (s Spec) groupOf(member string) int {
	return slices.IndexFunc(s.Groups, func(group []string) bool { return slices.Contains(group, member) })
}
