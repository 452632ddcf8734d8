package sim

import (
	"slices"

	"github.com/podfall/podfall/internal/history"
)

// diskHistory is what commits have told of disks so far.
type diskHistory struct {
	devices map[string]string
	nodes   map[string]history.Commit
	going   map[string]bool // attachments, by their UID
}

func newDiskHistory() diskHistory {
	return diskHistory{devices: map[string]string{}, nodes: map[string]history.Commit{}, going: map[string]bool{}}
}

// take counts how disks were taken from nodes.
func (h diskHistory) take(c history.Commit, all met) {
	switch {
	case c.Resource == volumesResource:
		h.devices[c.Key] = c.Device
	case c.Resource == "nodes":
		h.nodes[c.Key] = c
	case c.Resource == attachmentsResource && c.Op == "ADDED":
		all.count("disks attached")
	case c.Resource == attachmentsResource && c.Deadline != nil && !h.going[c.UID]:
		h.going[c.UID] = true
		switch node := h.nodes[c.Host]; {
		case !slices.Contains(node.InUse, h.devices[c.Volume]):
			all.count("disks detached")
		case node.Op == "DELETED":
			all.count("disks detached by force, node gone")
		case node.OutOfService:
			all.count("disks detached by force, node out of service")
		case !node.Ready:
			all.count("disks detached by force, node silent")
		default:
			all.count("disks detached, and wanted there again at that moment")
		}
	}
}
