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
	MessageLost       Class = iota // a message is lost
	MessageDuplicated              // one comes twice
	MessageLate                    // one comes late
	NodeCutOff                     // the node is cut off
	HalfCut                        // one direction of it is
	APIServerDown                  // the apiserver is down
	ControllersDown                // the controllers are
	KubeletDown                    // the node's kubelet is
	RuntimeDown                    // its runtime is
	NodeRebooting                  // the node is
	ProcessPaused                  // a process stands still
	BadDisk                        // the apiserver's disk is slow, or fails
	WrongClock                     // a process's clock is wrong
	classCount                     // how many there are
)

// String is the class's name.
func (c Class) String() string {
	return [classCount]string{
		"lost", "twice", "late", "cut", "half cut", "no api", "no control", "no kubelet", "no runtime", "reboot", "pause", "disk", "clock",
	}[c]
}

// Matrix is how often faults of each class met a pod in each phase of its deletion.
type Matrix [phaseCount][classCount]int

// faultSpan is one fault: which deletions it meets, and when.
type faultSpan struct {
	class    Class
	meets    func(phaseSpan) bool
	from, to time.Time
}

// MatrixOf returns the matrix of one run.
func MatrixOf(result Result) Matrix {
	var m Matrix
	if len(result.Log.Events) == 0 {
		return m
	}
	spells := phaseSpans(result.Log)
	start := time.Unix(0, result.Log.Events[0].Began)
	for _, s := range append(scriptFaults(result.Script, start), messageFaults(result.Deviations, start)...) {
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
	for class := range classCount {
		fmt.Fprintf(&b, " %s |", class)
	}
	b.WriteString("\n|---|" + strings.Repeat("--:|", int(classCount)) + "\n")
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
func scriptFaults(script Script, start time.Time) []faultSpan {
	var all []faultSpan
	for _, action := range script.Actions {
		class, broken := classOf(action)
		if !broken {
			continue
		}
		_, node, ofNode := strings.Cut(action.Name, "/")
		if class == NodeCutOff || class == HalfCut || class == NodeRebooting {
			node, ofNode = action.Name, true
		}
		lasts := action.For
		if action.Kind == SlowDisk {
			lasts = slowFor
		}
		all = append(all, faultSpan{
			class: class, from: start.Add(action.At), to: start.Add(action.At + lasts),
			meets: func(s phaseSpan) bool { return !ofNode || s.node == node },
		})
	}
	return all
}

func classOf(action Action) (class Class, broken bool) {
	switch {
	case action.Kind == CutNode && action.Detail == "":
		return NodeCutOff, true
	case action.Kind == CutNode:
		return HalfCut, true
	case action.Kind == Crash && action.Name == APIServer:
		return APIServerDown, true
	case action.Kind == Crash && action.Name == Controllers:
		return ControllersDown, true
	case action.Kind == Crash && strings.HasPrefix(action.Name, "kubelet/"):
		return KubeletDown, true
	case action.Kind == Crash && strings.HasPrefix(action.Name, "runtime/"):
		return RuntimeDown, true
	case action.Kind == Reboot:
		return NodeRebooting, true
	case action.Kind == Pause:
		return ProcessPaused, true
	case action.Kind == SlowDisk, action.Kind == FailDisk:
		return BadDisk, true
	case action.Kind == SkewClock:
		return WrongClock, true
	}
	return 0, false
}

// messageFaults returns the lost, duplicated and late messages about pods.
func messageFaults(deviations []Deviation, start time.Time) []faultSpan {
	var all []faultSpan
	for _, d := range deviations {
		if !strings.Contains(d.About, "pods") {
			continue
		}
		class, from := MessageLate, start.Add(time.Duration(d.Second)*time.Second)
		switch d.Copies {
		case 0:
			class = MessageLost
		case 1:
		default:
			class = MessageDuplicated
		}
		all = append(all, faultSpan{class: class, from: from, to: from.Add(time.Second + d.Delay), meets: d.concerns})
	}
	return all
}

// concerns reports whether a message is about the pod: it names the pod, or is about many pods for
// its kubelet or for the controllers.
func (d Deviation) concerns(s phaseSpan) bool {
	if strings.HasSuffix(d.About, " "+s.pod) {
		return true
	}
	at := func(process string) bool {
		return process == Controllers || s.node != "" && process == "kubelet/"+s.node
	}
	return d.Kind == "frame" && (at(d.From) || at(d.To))
}
