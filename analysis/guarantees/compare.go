package guarantees

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/podfall/podfall/internal/history"
)

// State is the final state of a cluster, without what differs between runs: UIDs, times, revisions,
// events and leases.
type State map[string]string

// EndState returns the state that the commits of a history lead to.
func EndState(evidence Evidence) State {
	h := newClusterHistory(evidence)
	last := map[string]*commit{}
	for _, c := range h.commits {
		last[c.Resource+" "+c.Key] = c
	}
	names, pods := map[string]string{}, map[string]int{}
	for key, c := range last {
		names[c.UID] = key
	}
	state := State{}
	for key, c := range last {
		switch {
		case c.Op == deleted || isTransient(c.Resource):
		case c.Resource == podResource && names[c.Owner] != "": // their names may be generated
			pods["pods of "+names[c.Owner]+": "+describeCommit(c.Commit)]++
		default:
			state[key] = describeCommit(c.Commit)
		}
	}
	for key, count := range pods {
		state[key] = strconv.Itoa(count)
	}
	return state
}

// isTransient reports whether objects of the resource only describe what happens.
func isTransient(resource string) bool {
	switch resource {
	case "events", "events.events.k8s.io", leaseResource, "controllerrevisions.apps", "endpointslices.discovery.k8s.io":
		return true
	}
	return false
}

// describeCommit returns the lasting properties of a committed object as text.
func describeCommit(c history.Commit) string {
	text := fmt.Sprintf("phase=%s going=%t finalizers=%v", c.Phase, c.Deadline != nil, c.Finalizers)
	if c.Replicas != nil {
		text += fmt.Sprintf(" replicas=%d", *c.Replicas)
	}
	if c.Resource == podResource {
		text += fmt.Sprintf(" bound=%t ready=%t", c.Node != "", c.Ready)
	}
	return text
}

// DiffStates returns the differences between two final states (L11), one line each: objects that
// only one state has, and objects that differ. The first state is that of the run without faults.
func DiffStates(without, with State) []string {
	var lines []string
	for _, key := range slices.Sorted(maps.Keys(without)) {
		other, there := with[key]
		switch {
		case !there:
			lines = append(lines, "missing after faults: "+key)
		case other != without[key]:
			lines = append(lines, fmt.Sprintf("%s: %s, after faults %s", key, without[key], other))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(with)) {
		if _, there := without[key]; !there {
			lines = append(lines, "only after faults: "+key)
		}
	}
	return lines
}
