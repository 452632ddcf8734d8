package bus

// Manner is what a link does with what is under way in one direction.
type Manner int

// The manners. Bytes are never dropped out of a connection that lives on: a network
// does not do that either.
const (
	// Carry is what a whole link does.
	Carry Manner = iota
	// Hold lets bytes wait, the beginnings and the ends of connections among them, as a
	// network does that drops packets: nobody is told. What waits arrives after the
	// heal, unless a side has given the connection up by then.
	Hold
	// Reset breaks connections and refuses new ones, as a router does that rejects
	// packets: the node, and the hub, are told at once.
	Reset
)

// Direction is one way along a link.
type Direction int

// The directions.
const (
	// FromNode leads from the node to the hub.
	FromNode Direction = iota
	// ToNode leads from the hub to the node.
	ToNode
)

// back is the other direction.
func (d Direction) back() Direction { return ToNode - d + FromNode }

// Cut is what a link does not carry; its zero value is a whole link.
type Cut struct {
	FromNode, ToNode Manner
}

// CutBoth holds everything.
func CutBoth() Cut { return Cut{FromNode: Hold, ToNode: Hold} }

// Whole reports whether everything is carried.
func (c Cut) Whole() bool { return c == Cut{} }

// decide is what becomes of something that is about to cross the link. A connection is
// one thing: it cannot be broken in one direction only.
func (c Cut) decide(way Direction) Manner {
	if c.FromNode == Reset || c.ToNode == Reset {
		return Reset
	}
	if way == FromNode {
		return c.FromNode
	}
	return c.ToNode
}
