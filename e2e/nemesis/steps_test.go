// Package nemesis breaks a cluster of real processes by the product's own commands, while
// seeded clients use it, and then holds what its processes have written down against every
// promise.
//
//	steps_test.go    which steps there are: a seed draws them
//	points_test.go   those at the points of docs/faults.md
//	attack_test.go   carries them out
//	load_test.go     the clients
//	crowds_test.go   those that delete many pods at once
//	calm_test.go     what must be so once everything is mended
//	ledger_test.go   what clients were told, against what was committed
//
// The same seed draws the same steps and the same requests. When they meet is up to the
// machine, so that a run cannot be repeated; what it has left behind can be judged again.
package nemesis

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Step is one thing that is broken, and mended again.
type Step struct {
	// Name is the fault's or the cut's; of a process that is crashed or paused it is the
	// step's alone.
	Name string
	// Begin and End are arguments of podfall, command by command; terminate, which podfall
	// does not have, is SIGTERM to a process.
	Begin, End [][]string
	// Down are processes that may have ended; who mends starts those that have.
	Down []string
	// Lasts is how long it stays broken, on the wall.
	Lasts time.Duration
	// Strikes says that it does nothing before f.hit names it.
	Strikes bool
	// Alone is a step during which no other command can be carried out, because the bus is
	// away: nothing else begins or ends meanwhile.
	Alone bool
}

// String is the step as one would type it.
func (s Step) String() string {
	lines := make([]string, 0, len(s.Begin))
	for _, words := range s.Begin {
		lines = append(lines, "podfall "+strings.Join(words, " "))
	}
	return fmt.Sprintf("%s: %s (%s)", s.Name, strings.Join(lines, "; "), s.Lasts.Round(time.Millisecond))
}

// Drawer draws steps for a cluster.
type Drawer struct {
	// Rand is the only source of chance.
	Rand *rand.Rand
	// Nodes are the cluster's, at least two.
	Nodes []string
	// Speed is the cluster's at the beginning, and after every step that changes it.
	Speed float64

	drawn int
}

// Draw is the next step.
func (d *Drawer) Draw() Step {
	d.drawn++
	s := Step{Name: fmt.Sprintf("n%03d", d.drawn), Lasts: d.between(300*time.Millisecond, 2500*time.Millisecond)}
	kinds := d.kinds()
	total := 0
	for _, kind := range kinds {
		total += kind.weight
	}
	at := d.Rand.IntN(total)
	for _, kind := range kinds {
		if at -= kind.weight; at < 0 {
			kind.make(&s)
			break
		}
	}
	return s
}

// kind is a sort of step, and how often it is drawn beside the others.
type kind struct {
	weight int
	make   func(*Step)
}

func (d *Drawer) kinds() []kind {
	return []kind{
		{5, d.partition},
		{3, d.slow},
		{2, d.flap},
		{2, d.selective},
		{1, d.groups},
		{6, d.crash},
		{3, d.pause},
		{1, d.busAway},
		{1, d.blackout},
		{12, d.point},
		{2, d.clock},
		{1, d.skew},
		{3, d.terminate},
	}
}

func (d *Drawer) between(least, most time.Duration) time.Duration {
	return least + time.Duration(d.Rand.Int64N(int64(most-least)))
}

func (d *Drawer) node() string { return pick(d.Rand, d.Nodes) }

// party is anybody with a link.
func (d *Drawer) party() string {
	return pick(d.Rand, slices.Concat(d.Nodes, d.Nodes, []string{"apiserver", "controllers", "gateway"}))
}

// process is anybody but the bus.
func (d *Drawer) process() string {
	names := []string{"apiserver", "apiserver", "controllers", "controllers", "gateway"}
	for _, node := range d.Nodes {
		names = append(names, "kubelet/"+node, "runtime/"+node)
	}
	return pick(d.Rand, names)
}

func pick[T any](rng *rand.Rand, from []T) T { return from[rng.IntN(len(from))] }

// cut has the step make a cut, and heal it.
func (s *Step) cut(arguments ...string) {
	s.Begin = [][]string{append([]string{"cut", "--name", s.Name}, arguments...)}
	s.End = [][]string{{"heal", "--cut", s.Name}}
}

// partition holds or resets a link, one way or both.
func (d *Drawer) partition(s *Step) {
	switch d.Rand.IntN(4) {
	case 0:
		s.cut("--direction", "from-node", d.party())
	case 1:
		s.cut("--direction", "to-node", d.party())
	case 2:
		s.cut("--reset", d.party())
	default:
		s.cut(d.party())
	}
}

// slow delays a link, or makes it narrow.
func (d *Drawer) slow(s *Step) {
	if d.Rand.IntN(3) == 0 {
		s.cut("--bandwidth", fmt.Sprint(200+d.Rand.IntN(4000)), d.node())
		return
	}
	s.cut("--latency", d.between(100*time.Millisecond, 4*time.Second).Round(time.Millisecond).String(),
		"--jitter", d.between(time.Millisecond, 2*time.Second).Round(time.Millisecond).String(), "--seed", fmt.Sprint(d.drawn), d.party())
}

func (d *Drawer) flap(s *Step) {
	down, up := d.between(time.Second, 10*time.Second), d.between(time.Second, 10*time.Second)
	s.cut("--flap", fmt.Sprintf("%v/%v", down.Round(time.Millisecond), up.Round(time.Millisecond)), d.party())
}

// selective holds up single kinds of message.
func (d *Drawer) selective(s *Step) {
	s.cut("--only", pick(d.Rand, []string{"lease", "status", "delete", "events", "write", "read", "watch"}), d.node())
}

func (d *Drawer) groups(s *Step) {
	nodes := slices.Clone(d.Nodes)
	d.Rand.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
	s.cut(strings.Join(nodes[:len(nodes)-1], ","), "/", nodes[len(nodes)-1])
}

func (d *Drawer) crash(s *Step) {
	name := d.process()
	s.Begin, s.Down = [][]string{{"crash", name}}, []string{name}
}

// terminate has a process end as it does at a restart: it is asked to.
func (d *Drawer) terminate(s *Step) {
	name := d.process()
	s.Begin, s.Down = [][]string{{terminate, name}}, []string{name}
}

func (d *Drawer) pause(s *Step) {
	name := d.process()
	s.Begin, s.End = [][]string{{"pause", name}}, [][]string{{"resume", name}}
}

// busAway ends or freezes the bus, and with it all that is said.
func (d *Drawer) busAway(s *Step) {
	s.Alone = true
	if d.Rand.IntN(3) == 0 {
		s.Begin, s.End = [][]string{{"pause", "bus"}}, [][]string{{"resume", "bus"}}
		return
	}
	s.Begin, s.Down = [][]string{{"crash", "bus"}}, []string{"bus"}
}

// blackout ends everything at once.
func (d *Drawer) blackout(s *Step) {
	s.Alone, s.Lasts = true, s.Lasts/4
	s.Down = []string{"bus", "apiserver", "controllers", "gateway"}
	for _, node := range d.Nodes {
		s.Down = append(s.Down, "runtime/"+node, "kubelet/"+node)
	}
	s.Begin = [][]string{append([]string{"crash"}, s.Down...)}
}

// clock changes the cluster's clock for everybody.
func (d *Drawer) clock(s *Step) {
	back := []string{"clock", "--speed", fmt.Sprint(d.Speed)}
	switch d.Rand.IntN(3) {
	case 0:
		s.Begin = [][]string{{"clock", "step", fmt.Sprintf("%ds", 5+d.Rand.IntN(90))}}
		s.Lasts = 0
	case 1:
		s.Begin, s.End = [][]string{{"clock", "pause"}}, [][]string{{"clock", "resume"}}
		s.Lasts /= 2
	default:
		s.Begin, s.End = [][]string{{"clock", "--speed", fmt.Sprint(pick(d.Rand, []float64{d.Speed / 4, d.Speed / 2, d.Speed * 2}))}}, [][]string{back}
	}
}

// skew sets the clock of a process wrong, by a few seconds.
func (d *Drawer) skew(s *Step) {
	by := d.between(-8*time.Second, 8*time.Second).Round(time.Second)
	s.point("--point", "clock.skew", "--effect", "value", "--value", by.String(), "--process", d.process())
	s.Strikes = false
}
