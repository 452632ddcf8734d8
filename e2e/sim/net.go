package sim

import (
	"cmp"
	"slices"
	"time"
)

// Link is one direction between two processes.
type Link struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// Fate is what the network does to one message.
type Fate struct {
	// Copies is how often the message arrives: 0 if lost, 2 if duplicated.
	Copies int `json:"copies"`
	// Delay is how long the message takes; a second copy takes a little longer.
	Delay time.Duration `json:"delay"`
}

// Passage names one message of a run by the n-th of its kind and about over a link in one second.
// So the fate of one message does not depend on other messages (guarantees 4.5).
type Passage struct {
	Link

	Kind   string `json:"kind"`
	About  string `json:"about"`
	Second int64  `json:"second"`
	Nth    int    `json:"nth"`
}

// Deviation is a message that the network did not deliver normally.
type Deviation struct {
	Passage
	Fate
}

// The network of a day without trouble, and the jitter of any other.
const (
	plainDelay  = 10 * time.Millisecond
	leastDelay  = time.Millisecond
	mostDelay   = 50 * time.Millisecond
	localDelay  = 200 * time.Microsecond
	window      = 5 * time.Minute
	oneInMany   = 1 << 20
	slowestLate = 4 * time.Second
)

// FaultRates says how many of a million messages between hosts are lost, duplicated and late.
type FaultRates struct {
	Lost  uint64 `json:"lost,omitempty"`
	Twice uint64 `json:"twice,omitempty"`
	Late  uint64 `json:"late,omitempty"`
}

// Window is a link's jitter during its N-th [window] of time.
type Window struct {
	Link

	N int64 `json:"n"`
}

// Net decides the fate of messages. Each decision depends only on the seed and the message's
// [Passage]. In a recorded run only the recorded deviations happen.
type Net struct {
	seed    uint64
	trouble FaultRates
	// until is when trouble ends; zero for never.
	until time.Duration
	// recorded holds the deviations of a recorded run; nil if the seed decides.
	recorded map[Passage]Fate
	jitters  map[Window]bool
	// Deviations and Jitters are the deviations so far.
	Deviations []Deviation
	Jitters    []Window

	links  map[Link]*linkState
	second int64
	nth    map[uint64]int // by all else that names a passage
}

// linkState is the state of a link.
type linkState struct {
	Link

	// local says that it stays on one machine.
	local bool
	cuts  int
	// names is the beginning of the sum of all its messages, and begun of those of a second.
	names, begun uint64
	second       int64
	// window is the last that has had its jitter noted.
	window int64
	// arrives is when the last message that keeps order arrives.
	arrives time.Duration
}

// NewNet is a network whose trouble is decided by a seed, until a time after the beginning,
// or for ever when that is zero.
func NewNet(seed uint64, trouble FaultRates, until time.Duration) *Net {
	return &Net{
		seed: seed, trouble: trouble, until: until,
		links: map[Link]*linkState{}, nth: map[uint64]int{},
	}
}

// state returns the state of a link.
func (n *Net) state(link Link) *linkState {
	if known := n.links[link]; known != nil {
		return known
	}
	names := mixText(mixText(mixed(n.seed), link.From), link.To)
	made := &linkState{Link: link, local: sameNode(link), names: names, second: -1, window: -1}
	n.links[link] = made
	return made
}

// Replay makes only the recorded deviations happen.
func (n *Net) Replay(deviations []Deviation, jitters []Window) {
	n.recorded, n.jitters = map[Passage]Fate{}, map[Window]bool{}
	for _, d := range deviations {
		n.recorded[d.Passage] = d.Fate
	}
	for _, w := range jitters {
		n.jitters[w] = true
	}
}

// sameNode reports whether a link stays on one machine, as that between a kubelet and its
// runtime: nothing is lost there.
func sameNode(link Link) bool {
	return nodePart(link.From) != "" && nodePart(link.From) == nodePart(link.To) || link.From == link.To
}

func nodePart(process string) string {
	for i := range len(process) {
		if process[i] == '/' {
			return process[i+1:]
		}
	}
	return ""
}

// Cut loses everything on a link; Heal ends one cut.
func (n *Net) Cut(link Link) { n.state(link).cuts++ }

// Heal takes back one cut of a link.
func (n *Net) Heal(link Link) {
	r := n.state(link)
	r.cuts = max(r.cuts-1, 0)
}

// fate decides about one message.
func (n *Net) fate(now time.Duration, r *linkState, kind, about string) Fate {
	if r.local {
		return Fate{Copies: 1, Delay: localDelay}
	}
	if second := int64(now / time.Second); second != n.second {
		n.second = second
		clear(n.nth)
	}
	sum := mixText(mixText(r.begin(n.second), kind), about)
	nth := n.nth[sum]
	n.nth[sum] = nth + 1
	if r.cuts > 0 {
		return Fate{}
	}
	p := Passage{Link: r.Link, Kind: kind, About: about, Second: n.second, Nth: nth}
	fate := n.decide(now, r, p, nextRandom(mixNumber(sum, uint64(nth))))
	if n.until > 0 && now >= n.until {
		return Fate{Copies: 1, Delay: min(fate.Delay, mostDelay)}
	}
	return fate
}

// begin is the sum of all that names a message of this second but its kind and about.
func (r *linkState) begin(second int64) uint64 {
	if second != r.second {
		r.second, r.begun = second, mixNumber(r.names, uint64(second))
	}
	return r.begun
}

// decide returns the fate of a message; roll is the message's own random number.
func (n *Net) decide(now time.Duration, r *linkState, p Passage, roll uint64) Fate {
	delay := n.delay(now, r, roll)
	if n.recorded != nil {
		if fate, ok := n.recorded[p]; ok {
			return fate
		}
		return Fate{Copies: 1, Delay: delay}
	}
	fate, chance := Fate{Copies: 1, Delay: delay}, nextRandom(roll)%1_000_000
	switch t := n.trouble; {
	case n.until > 0 && now >= n.until:
		return fate
	case chance < t.Lost:
		fate.Copies = 0
	case chance < t.Lost+t.Twice && p.Kind != "answer":
		fate.Copies = 2
	case chance < t.Lost+t.Twice+t.Late:
		fate.Delay += time.Duration(nextRandom(nextRandom(roll))%uint64(slowestLate/time.Millisecond)) * time.Millisecond
	default:
		return fate
	}
	n.Deviations = append(n.Deviations, Deviation{p, fate})
	return fate
}

// delay is the jitter of a message, if its window has any.
func (n *Net) delay(now time.Duration, r *linkState, roll uint64) time.Duration {
	w := Window{r.Link, int64(now / window)}
	if n.recorded != nil && !n.jitters[w] {
		return plainDelay
	}
	if w.N != r.window {
		r.window = w.N
		n.Jitters = append(n.Jitters, w)
	}
	return leastDelay + time.Duration(nextRandom(nextRandom(nextRandom(roll)))%uint64((mostDelay-leastDelay)/time.Microsecond))*time.Microsecond
}

// SortDeviations puts deviations in order of time.
func SortDeviations(all []Deviation) {
	slices.SortStableFunc(all, func(a, b Deviation) int { return cmp.Compare(a.Second, b.Second) })
}

// mix returns 64 bits that depend on all its parts: texts and numbers.
func mix(seed uint64, parts ...any) uint64 {
	sum := mixed(seed)
	for _, part := range parts {
		switch part := part.(type) {
		case string:
			sum = mixText(sum, part)
		case uint64:
			sum = mixNumber(sum, part)
		}
	}
	return nextRandom(sum)
}

// mixPrime and mixed, the beginning, are FNV-1a's.
const mixPrime = 1099511628211

func mixed(seed uint64) uint64 { return 14695981039346656037 ^ seed }

func mixText(sum uint64, text string) uint64 {
	for i := range len(text) {
		sum = (sum ^ uint64(text[i])) * mixPrime
	}
	return (sum ^ 0xff) * mixPrime
}

func mixNumber(sum, number uint64) uint64 {
	for i := range 8 {
		sum = (sum ^ number>>(8*i)&0xff) * mixPrime
	}
	return (sum ^ 0xff) * mixPrime
}

// nextRandom returns the next number of SplitMix64.
func nextRandom(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
