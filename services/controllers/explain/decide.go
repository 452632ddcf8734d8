// Package explain reports what upstream has no controller for. If a pod has been terminating for
// longer than its grace and 10 s, an Event says why. If two incarnations of one pod are alive, the
// history says so. The package changes nothing.
package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	// overdue is how much longer than its grace a pod may be terminating before it is explained.
	overdue = 10 * time.Second
	// checkInterval is how often an overdue pod is checked, and repeatInterval how often the same
	// blockers are reported again.
	checkInterval, repeatInterval = 15 * time.Second, 5 * time.Minute
)

// LastReport is the last check and the last report of a pod.
type LastReport struct {
	// CheckedAt is the last check and ReportedAt the last report, both by the steady clock: a step
	// of the wall clock must not delay a check for a day.
	CheckedAt, ReportedAt time.Time
	Blockers              []string
}

// IsDue reports whether a pod is to be checked. shown is the clock's reading, now is the steady
// clock's.
func IsDue(pod *corev1.Pod, last LastReport, shown, now time.Time) bool {
	return pod.DeletionTimestamp != nil && shown.Sub(pod.DeletionTimestamp.Time) > overdue && now.Sub(last.CheckedAt) >= checkInterval
}

// NextReport returns the text of the next report about a pod with these blockers. It is empty if
// they were reported lately, or there are none. now is the steady clock's.
func NextReport(names, texts []string, last LastReport, now time.Time) (text string, next LastReport) {
	next = LastReport{CheckedAt: now, ReportedAt: last.ReportedAt, Blockers: last.Blockers}
	if len(names) == 0 || slices.Equal(names, last.Blockers) && now.Sub(last.ReportedAt) < repeatInterval {
		return "", next
	}
	next.ReportedAt, next.Blockers = now, names
	return fmt.Sprintf("Still terminating: %s; see podfall why", strings.Join(texts, "; ")), next
}
