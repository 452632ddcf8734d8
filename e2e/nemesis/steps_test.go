// Package nemesis injects faults into a cluster of real processes by podfall's own commands, while
// seeded clients use it. Then it checks the histories against every invariant.
//
//	steps_test.go    the kinds of steps, drawn from a seed
//	points_test.go   faults at the points of docs/faults.md
//	attack_test.go   runs the steps
//	load_test.go     the clients
//	crowds_test.go   clients that delete many pods at once
//	calm_test.go     the desired state after all faults have ended
//	ledger_test.go   responses to clients, compared with commits
//
// The same seed draws the same steps and the same requests. Their relative timing depends on the
// machine, so a run cannot be repeated exactly; its data can be checked again.
package nemesis

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Step is one fault and its end.
type Step struct {
	// Name is the fault's or cut's name. For a crashed or paused process it is only the step's.
	Name string
	// Begin and End are podfall command lines; the pseudo-command terminate sends SIGTERM to a
	// process.
	Begin, End [][]string
	// Down are processes that may have ended. At the end of the step, those that have are started.
	Down []string
	// Lasts is the duration in wall time.
	Lasts time.Duration
	// NeedsHit means that the step takes effect only when the histories contain a hit of its fault.
	NeedsHit bool
	// Alone means that no other command can run during the step, because the bus is down: no other
	// step begins or ends.
	Alone bool
}

// String returns the step as typed commands.
func (s Step) String() string {
	lines := make([]string, 0, len(s.Begin))
	for _, words := range s.Begin {
		lines = append(lines, "podfall "+strings.Join(words, " "))
	}
	return fmt.Sprintf("%s: %s (%s)", s.Name, strings.Join(lines, "; "), s.Lasts.Round(time.Millisecond))
}

// Drawer draws steps for a cluster.
type Drawer struct {
	// Rand is the only source of randomness.
	Rand *rand.Rand
	// Nodes are the cluster's nodes, at least two.
	Nodes []string
	// Speed is the cluster's initial clock speed, which steps restore.
	Speed float64

	drawn int
}

// Draw returns the next step.
func (d *Drawer) Draw() Step {
	d.drawn++
	s := Step{Name: fmt.Sprintf("n%03d", d.drawn), Lasts: d.randomDuration(300*time.Millisecond, 2500*time.Millisecond)}
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

// kind is a kind of step with its relative frequency.
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
		{1, d.busDown},
		{1, d.blackout},
		{12, d.faultPoint},
		{2, d.changeClock},
		{1, d.skew},
		{3, d.terminate},
	}
}

func (d *Drawer) randomDuration(least, most time.Duration) time.Duration {
	return least + time.Duration(d.Rand.Int64N(int64(most-least)))
}

func (d *Drawer) randomNode() string { return pick(d.Rand, d.Nodes) }

// randomMember returns a member of the cluster network.
func (d *Drawer) randomMember() string {
	return pick(d.Rand, slices.Concat(d.Nodes, d.Nodes, []string{"apiserver", "controllers", "gateway"}))
}

// randomProcess returns a process other than the bus.
func (d *Drawer) randomProcess() string {
	names := []string{"apiserver", "apiserver", "controllers", "controllers", "gateway"}
	for _, node := range d.Nodes {
		names = append(names, "kubelet/"+node, "runtime/"+node)
	}
	return pick(d.Rand, names)
}

func pick[T any](rng *rand.Rand, from []T) T { return from[rng.IntN(len(from))] }

// addCut makes the step add a cut, and heal it at the end.
func (s *Step) addCut(arguments ...string) {
	s.Begin = [][]string{append([]string{"cut", "--name", s.Name}, arguments...)}
	s.End = [][]string{{"heal", "--cut", s.Name}}
}

// partition holds or resets a link, one way or both.
func (d *Drawer) partition(s *Step) {
	switch d.Rand.IntN(4) {
	case 0:
		s.addCut("--direction", "from-node", d.randomMember())
	case 1:
		s.addCut("--direction", "to-node", d.randomMember())
	case 2:
		s.addCut("--reset", d.randomMember())
	default:
		s.addCut(d.randomMember())
	}
}

// slow adds latency to a link, or limits its bandwidth.
func (d *Drawer) slow(s *Step) {
	if d.Rand.IntN(3) == 0 {
		s.addCut("--bandwidth", fmt.Sprint(200+d.Rand.IntN(4000)), d.randomNode())
		return
	}
	s.addCut("--latency", d.randomDuration(100*time.Millisecond, 4*time.Second).Round(time.Millisecond).String(),
		"--jitter", d.randomDuration(time.Millisecond, 2*time.Second).Round(time.Millisecond).String(), "--seed", fmt.Sprint(d.drawn), d.randomMember())
}

func (d *Drawer) flap(s *Step) {
	down, up := d.randomDuration(time.Second, 10*time.Second), d.randomDuration(time.Second, 10*time.Second)
	s.addCut("--flap", fmt.Sprintf("%v/%v", down.Round(time.Millisecond), up.Round(time.Millisecond)), d.randomMember())
}

// selective holds single kinds of message.
func (d *Drawer) selective(s *Step) {
	s.addCut("--only", pick(d.Rand, []string{"lease", "status", "delete", "events", "write", "read", "watch"}), d.randomNode())
}

func (d *Drawer) groups(s *Step) {
	nodes := slices.Clone(d.Nodes)
	d.Rand.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
	s.addCut(strings.Join(nodes[:len(nodes)-1], ","), "/", nodes[len(nodes)-1])
}

func (d *Drawer) crash(s *Step) {
	name := d.randomProcess()
	s.Begin, s.Down = [][]string{{"crash", name}}, []string{name}
}

// terminate sends SIGTERM to a process, as at a restart.
func (d *Drawer) terminate(s *Step) {
	name := d.randomProcess()
	s.Begin, s.Down = [][]string{{terminate, name}}, []string{name}
}

func (d *Drawer) pause(s *Step) {
	name := d.randomProcess()
	s.Begin, s.End = [][]string{{"pause", name}}, [][]string{{"resume", name}}
}

// busDown crashes or pauses the bus, and with it all communication.
func (d *Drawer) busDown(s *Step) {
	s.Alone = true
	if d.Rand.IntN(3) == 0 {
		s.Begin, s.End = [][]string{{"pause", "bus"}}, [][]string{{"resume", "bus"}}
		return
	}
	s.Begin, s.Down = [][]string{{"crash", "bus"}}, []string{"bus"}
}

// blackout crashes all processes at once.
func (d *Drawer) blackout(s *Step) {
	s.Alone, s.Lasts = true, s.Lasts/4
	s.Down = []string{"bus", "apiserver", "controllers", "gateway"}
	for _, node := range d.Nodes {
		s.Down = append(s.Down, "runtime/"+node, "kubelet/"+node)
	}
	s.Begin = [][]string{append([]string{"crash"}, s.Down...)}
}

// changeClock changes the cluster's clock.
func (d *Drawer) changeClock(s *Step) {
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

// skew sets a process's clock wrong by a few seconds.
func (d *Drawer) skew(s *Step) {
	by := d.randomDuration(-8*time.Second, 8*time.Second).Round(time.Second)
	s.addFault("--point", "clock.skew", "--effect", "value", "--value", by.String(), "--process", d.randomProcess())
	s.NeedsHit = false
}
