package sim

import (
	"slices"

	"github.com/podfall/podfall/internal/history"
)

// diskHistory tracks disks by the commits so far.
type diskHistory struct {
	devices map[string]string
	nodes   map[string]history.Commit
	going   map[string]bool // attachments, by their UID
}

func newDiskHistory() diskHistory {
	return diskHistory{devices: map[string]string{}, nodes: map[string]history.Commit{}, going: map[string]bool{}}
}

// add counts how disks were detached from nodes.
func (h diskHistory) add(c history.Commit, all counts) {
	switch {
	case c.Resource == volumesResource:
		h.devices[c.Key] = c.Device
	case c.Resource == "nodes":
		h.nodes[c.Key] = c
	case c.Resource == attachmentsResource && c.Op == "ADDED":
		all.add("disks attached")
	case c.Resource == attachmentsResource && c.Deadline != nil && !h.going[c.UID]:
		h.going[c.UID] = true
		switch node := h.nodes[c.Host]; {
		case !slices.Contains(node.InUse, h.devices[c.Volume]):
			all.add("disks detached")
		case node.Op == "DELETED":
			all.add("disks detached by force, node gone")
		case node.OutOfService:
			all.add("disks detached by force, node out of service")
		case !node.Ready:
			all.add("disks detached by force, node silent")
		default:
			all.add("disks detached, and wanted there again at that moment")
		}
	}
}
