package sim

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// disk is what the claims of sets are called, and what those of pods begin with.
	disk = "disk"
	// lossPause is between two nodes that are lost with their disks; lossFrom and lossTo are
	// how long they are: a disk is taken from one that does not answer after 6 minutes in which
	// nobody has used it, and one that is not heard is found out after 50 s.
	lossPause, lossFrom, lossTo = 15 * time.Minute, 2 * time.Minute, 12 * time.Minute
)

// diskDeeds gives some pods of every other life, and its StatefulSet, disks that have to be
// attached, and has nodes be lost that have some. It draws from dice of its own. The second
// namespace has none: nobody here plays who lets claims go that are deleted. And where two kubelets
// say what one node uses, nothing is promised of its disks.
func diskDeeds(s *Script, until time.Duration, mode Mode) {
	two := slices.ContainsFunc(s.Deeds, func(deed Deed) bool { return deed.Do == Twin })
	if two || diceOf(s.Seed, "disks", 0).one(2) {
		return
	}
	breaks := troubled(s.Deeds)
	if breaks {
		s.Deeds = append(s.Deeds, losses(s.Seed, s.NodeNames(), until)...)
	}
	for i := range s.Deeds {
		deed, d := &s.Deeds[i], diceOf(s.Seed, "disk", i)
		within, _ := deed.place()
		switch {
		case within != namespace:
		case deed.Do == CreateStateful:
			deed.Shape.Disk = disk
		case deed.Do == CreatePod && !d.one(3):
			deed.Shape.Disk = diskOf(deed.Name)
			if d.one(4) { // another pod's, that it has to wait for
				deed.Shape.Disk = diskOf(pick(d, podNames()...))
			}
		}
	}
	for _, pod := range podNames() {
		s.Deeds = append(s.Deeds,
			Deed{At: 5 * time.Second, Do: CreateVolume, Name: diskOf(pod)}, Deed{At: 6 * time.Second, Do: CreateClaim, Name: diskOf(pod)})
		if mode == Liveness { // it may come late, and wait for another's disk
			s.Deeds = append(s.Deeds, Deed{At: until + retried, Do: DeletePod, Name: pod})
		}
	}
	const mostReplicas = 3
	for n := range mostReplicas {
		s.Deeds = append(s.Deeds, Deed{At: 5 * time.Second, Do: CreateVolume, Name: diskOf(statefulName + "-" + strconv.Itoa(n))})
	}
}

func diskOf(pod string) string { return disk + "-" + pod }

// losses are nodes that are lost for long, whose pods are forced away and made again; some are
// said to be out of service.
func losses(seed uint64, nodes []string, until time.Duration) []Deed {
	var all []Deed
	for n := 0; ; n++ {
		d := diceOf(seed, "loss", n)
		lost := Deed{At: 2*time.Minute + time.Duration(n)*lossPause + d.between(0, lossPause/3), For: d.between(lossFrom, lossTo)}
		node := pick(d, nodes...)
		lost.Do, lost.Name = CutNode, node
		if d.one(3) {
			lost.Do, lost.Name = Crash, "kubelet/"+node
		}
		back := lost.At + lost.For + d.between(0, 20*time.Second)
		if back >= until-time.Minute {
			return all
		}
		all = append(all, lost)
		if d.one(3) {
			all = append(all,
				Deed{At: lost.At + d.between(10*time.Second, 3*time.Minute), Do: OutOfService, Name: node}, Deed{At: back, Do: BackInService, Name: node})
		}
		for _, pod := range append(podNames(), statefulName+"-0", statefulName+"-1", statefulName+"-2") {
			forced := Deed{At: lost.At + d.between(0, 90*time.Second), Do: ForceDelete, Name: pod}
			if d.one(4) {
				continue
			}
			all = append(all, forced)
			if !strings.HasPrefix(pod, statefulName) {
				all = append(all, Deed{At: forced.At + d.between(0, 2*time.Second), Do: CreatePod, Name: pod, Grace: grace(d), App: app(d)})
			}
		}
	}
}
