package sim

import (
	"fmt"
	"strings"
	"time"
)

// Class is a class of faults.
type Class int

// The classes.
const (
	Lost        Class = iota // a message is lost
	Twice                    // one comes twice
	Late                     // one comes late
	Severed                  // the node is cut off
	HalfCut                  // one direction of it is
	NoAPI                    // the apiserver is down
	NoControl                // the controllers are
	NoKubelet                // the node's kubelet is
	NoRuntime                // its runtime is
	Rebooting                // the node is
	StandsStill              // a process stands still
	BadDisk                  // the apiserver's disk is slow, or fails
	WrongClock               // a process's clock is wrong
	classes                  // how many there are
)

// String is the class's name.
func (c Class) String() string {
	return [classes]string{
		"lost", "twice", "late", "cut", "half cut", "no api", "no control", "no kubelet", "no runtime", "reboot", "pause", "disk", "clock",
	}[c]
}

// Matrix is how often faults of each class met a pod in each phase of its deletion.
type Matrix [phases][classes]int

// faultSpan is one fault: which deletions it meets, and when.
type stroke struct {
	class    Class
	meets    func(spell) bool
	from, to time.Time
}

// MatrixOf returns the matrix of one run.
func MatrixOf(lived Result) Matrix {
	var m Matrix
	if len(lived.Log.Events) == 0 {
		return m
	}
	spells := spellsOf(lived.Log)
	start := time.Unix(0, lived.Log.Events[0].Began)
	for _, s := range append(troubles(lived.Script, start), messages(lived.Deviations, start)...) {
		for _, each := range spells {
			if s.from.Before(each.to) && each.from.Before(s.to) && s.meets(each) {
				m[each.phase][s.class]++
			}
		}
	}
	return m
}

// Add adds another run's matrix.
func (m *Matrix) Add(other Matrix) {
	for phase := range m {
		for class, n := range other[phase] {
			m[phase][class] += n
		}
	}
}

// Empty names the pairs that no run has met: "phase × class".
func (m *Matrix) Empty() []string {
	var names []string
	for phase := range m {
		for class, n := range m[phase] {
			if n == 0 {
				names = append(names, fmt.Sprintf("%s × %s", Phase(phase), Class(class)))
			}
		}
	}
	return names
}

// String returns a Markdown table with a row for each phase.
func (m *Matrix) String() string {
	var b strings.Builder
	b.WriteString("| |")
	for class := range classes {
		fmt.Fprintf(&b, " %s |", class)
	}
	b.WriteString("\n|---|" + strings.Repeat("--:|", int(classes)) + "\n")
	for phase := range m {
		fmt.Fprintf(&b, "| %s |", Phase(phase))
		for _, n := range m[phase] {
			fmt.Fprintf(&b, " %d |", n)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// scriptFaults returns the faults of a script.
func troubles(script Script, start time.Time) []stroke {
	var all []stroke
	for _, deed := range script.Actions {
		class, broken := classOf(deed)
		if !broken {
			continue
		}
		_, node, ofNode := strings.Cut(deed.Name, "/")
		if class == Severed || class == HalfCut || class == Rebooting {
			node, ofNode = deed.Name, true
		}
		lasts := deed.For
		if deed.Kind == SlowDisk {
			lasts = slowFor
		}
		all = append(all, stroke{
			class: class, from: start.Add(deed.At), to: start.Add(deed.At + lasts),
			meets: func(s spell) bool { return !ofNode || s.node == node },
		})
	}
	return all
}

func classOf(deed Action) (class Class, broken bool) {
	switch {
	case deed.Kind == CutNode && deed.Detail == "":
		return Severed, true
	case deed.Kind == CutNode:
		return HalfCut, true
	case deed.Kind == Crash && deed.Name == APIServer:
		return NoAPI, true
	case deed.Kind == Crash && deed.Name == Controllers:
		return NoControl, true
	case deed.Kind == Crash && strings.HasPrefix(deed.Name, "kubelet/"):
		return NoKubelet, true
	case deed.Kind == Crash && strings.HasPrefix(deed.Name, "runtime/"):
		return NoRuntime, true
	case deed.Kind == Reboot:
		return Rebooting, true
	case deed.Kind == Pause:
		return StandsStill, true
	case deed.Kind == SlowDisk, deed.Kind == FailDisk:
		return BadDisk, true
	case deed.Kind == SkewClock:
		return WrongClock, true
	}
	return 0, false
}

// messageFaults returns the lost, duplicated and late messages about pods.
func messages(deviations []Deviation, start time.Time) []stroke {
	var all []stroke
	for _, d := range deviations {
		if !strings.Contains(d.About, "pods") {
			continue
		}
		class, from := Late, start.Add(time.Duration(d.Second)*time.Second)
		switch d.Copies {
		case 0:
			class = Lost
		case 1:
		default:
			class = Twice
		}
		all = append(all, stroke{class: class, from: from, to: from.Add(time.Second + d.Delay), meets: d.concerns})
	}
	return all
}

// concerns reports whether a message is about the pod: it names the pod, or is about many pods for
// its kubelet or for the controllers.
func (d Deviation) concerns(s spell) bool {
	if strings.HasSuffix(d.About, " "+s.pod) {
		return true
	}
	at := func(process string) bool {
		return process == Controllers || s.node != "" && process == "kubelet/"+s.node
	}
	return d.Kind == "frame" && (at(d.From) || at(d.To))
}
