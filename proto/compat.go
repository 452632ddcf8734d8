package proto

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Compat is what differs between the releases that podfall can imitate. Each field
// is one difference between two releases, and is read in one place.
type Compat struct {
	// Release is the value of --compat.
	Release string
	// TerminatingUntilGone prints STATUS Terminating for every pod that has a
	// deletionTimestamp, terminal or not (PRN-10; until 1.30).
	TerminatingUntilGone bool
	// DeletedNamesNamespace prints `pod "x" deleted from ns namespace` (CLI-07;
	// since 1.34).
	DeletedNamesNamespace bool
	// RemoveContainersFirst makes the kubelet remove a pod's containers from the
	// runtime before its final delete (ART-07).
	RemoveContainersFirst bool
	// NodeMonitorGrace is how long a node may be silent before it is Unknown
	// (CTL-01; 40 s before 1.32).
	NodeMonitorGrace time.Duration
	// DeadlineMayPass lets a shortened deletionTimestamp move into the past
	// (API-25; before 1.33).
	DeadlineMayPass bool
	// TracksGeneration starts a pod at generation 1 and lets the kubelet report
	// observedGeneration (API-73; since 1.34).
	TracksGeneration bool
	// MultiAttachErrors reports `Multi-Attach error` instead of `Waiting for detach` for a volume
	// that is attached elsewhere (CTL-20; in older releases).
	MultiAttachErrors bool
	// PublishesTerminalPhase makes the kubelet store a terminal phase before its
	// final delete (KBL-64; since 1.27).
	PublishesTerminalPhase bool
	// ReportsUnusedClaims gives a bound claim the condition Unused (KEP-5541; since 1.37).
	ReportsUnusedClaims bool
}

// compatTable lists the releases. One entry a release reads better than one a difference, because
// every release sets every field.
func compatTable() []Compat {
	return []Compat{
		{
			Release:                "v1.37",
			TerminatingUntilGone:   false,
			DeletedNamesNamespace:  true,
			RemoveContainersFirst:  false,
			NodeMonitorGrace:       50 * time.Second,
			DeadlineMayPass:        false,
			TracksGeneration:       true,
			MultiAttachErrors:      false,
			PublishesTerminalPhase: true,
			ReportsUnusedClaims:    true,
		},
		{
			Release:                "v1.22",
			TerminatingUntilGone:   true,
			DeletedNamesNamespace:  false,
			RemoveContainersFirst:  true,
			NodeMonitorGrace:       40 * time.Second,
			DeadlineMayPass:        true,
			TracksGeneration:       false,
			MultiAttachErrors:      true,
			PublishesTerminalPhase: false,
			ReportsUnusedClaims:    false,
		},
	}
}

// DefaultRelease is the release to imitate by default.
const DefaultRelease = "v1.37"

// CompatFor returns the differences of a release; the empty name means [DefaultRelease].
func CompatFor(release string) (Compat, error) {
	if release == "" {
		release = DefaultRelease
	}
	i := slices.IndexFunc(compatTable(), func(c Compat) bool { return c.Release == release })
	if i < 0 {
		return Compat{}, fmt.Errorf("compat %q: want one of %s", release, strings.Join(Releases(), ", "))
	}
	return compatTable()[i], nil
}

// Releases returns the names that CompatFor accepts.
func Releases() []string {
	var names []string
	for _, c := range compatTable() {
		names = append(names, c.Release)
	}
	return names
}
