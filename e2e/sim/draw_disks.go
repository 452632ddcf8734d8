package sim

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// diskPrefix is the name of the claims of sets, and the prefix of the claims of pods.
	diskPrefix = "disk"
	// lossPause is the mean time between two node losses. A loss lasts from lossFrom to lossTo: a
	// disk is taken from a silent node after 6 minutes without use, and a silent node is found
	// after 50 s.
	lossPause, lossFrom, lossTo = 15 * time.Minute, 2 * time.Minute, 12 * time.Minute
)

// addDisks gives some pods of every other run, and its StatefulSet, attachable disks, and loses
// nodes that use some. It uses its own dice. The second namespace has no disks, because no
// simulated controller releases deleted claims. Disks of a node with two kubelets are not checked:
// both report what the node uses.
func addDisks(s *Script, until time.Duration, mode Mode) {
	two := slices.ContainsFunc(s.Actions, func(action Action) bool { return action.Kind == SecondKubelet })
	if two || newDice(s.Seed, "disks", 0).oneIn(2) {
		return
	}
	breaks := hasFaults(s.Actions)
	if breaks {
		s.Actions = append(s.Actions, drawNodeLosses(s.Seed, s.NodeNames(), until)...)
	}
	for i := range s.Actions {
		action, d := &s.Actions[i], newDice(s.Seed, "disk", i)
		within, _ := action.namespacedName()
		switch {
		case within != namespace:
		case action.Kind == CreateStateful:
			action.Shape.Disk = diskPrefix
		case action.Kind == CreatePod && !d.oneIn(3):
			action.Shape.Disk = diskName(action.Name)
			if d.oneIn(4) { // another pod's, that it has to wait for
				action.Shape.Disk = diskName(pick(d, podNames()...))
			}
		}
	}
	for _, pod := range podNames() {
		s.Actions = append(s.Actions,
			Action{At: 5 * time.Second, Kind: CreateVolume, Name: diskName(pod)}, Action{At: 6 * time.Second, Kind: CreateClaim, Name: diskName(pod)})
		if mode == Liveness { // it may come late, and wait for another's disk
			s.Actions = append(s.Actions, Action{At: until + retried, Kind: DeletePod, Name: pod})
		}
	}
	const mostReplicas = 3
	for n := range mostReplicas {
		s.Actions = append(s.Actions, Action{At: 5 * time.Second, Kind: CreateVolume, Name: diskName(statefulName + "-" + strconv.Itoa(n))})
	}
}

func diskName(pod string) string { return diskPrefix + "-" + pod }

// drawNodeLosses draws nodes that are lost for long. Their pods are force-deleted and created
// again; some nodes are marked as out of service.
func drawNodeLosses(seed uint64, nodes []string, until time.Duration) []Action {
	var all []Action
	for n := 0; ; n++ {
		d := newDice(seed, "loss", n)
		lost := Action{At: 2*time.Minute + time.Duration(n)*lossPause + d.between(0, lossPause/3), For: d.between(lossFrom, lossTo)}
		node := pick(d, nodes...)
		lost.Kind, lost.Name = CutNode, node
		if d.oneIn(3) {
			lost.Kind, lost.Name = Crash, "kubelet/"+node
		}
		back := lost.At + lost.For + d.between(0, 20*time.Second)
		if back >= until-time.Minute {
			return all
		}
		all = append(all, lost)
		if d.oneIn(3) {
			all = append(all,
				Action{At: lost.At + d.between(10*time.Second, 3*time.Minute), Kind: OutOfService, Name: node}, Action{At: back, Kind: BackInService, Name: node})
		}
		for _, pod := range append(podNames(), statefulName+"-0", statefulName+"-1", statefulName+"-2") {
			forced := Action{At: lost.At + d.between(0, 90*time.Second), Kind: ForceDelete, Name: pod}
			if d.oneIn(4) {
				continue
			}
			all = append(all, forced)
			if !strings.HasPrefix(pod, statefulName) {
				all = append(all, Action{At: forced.At + d.between(0, 2*time.Second), Kind: CreatePod, Name: pod, Grace: drawGrace(d), App: drawApp(d)})
			}
		}
	}
}
