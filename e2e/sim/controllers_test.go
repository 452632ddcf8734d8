package sim

import (
	"testing"
	"time"
)

// alarmRecorder records the alarms that a process sets; it does nothing else.
type alarmRecorder struct {
	Out
	at map[string]time.Time
}

func (a alarmRecorder) Wake(key string, at time.Time) { a.at[key] = at }

// TestLookedAtWhenItIsFirstDue: a Job whose deadline is in an hour is looked at in a second all the
// same, where one of its pods has ended.
func TestLookedAtWhenItIsFirstDue(t *testing.T) {
	out, now := alarmRecorder{at: map[string]time.Time{}}, time.Unix(0, 0)
	c := &controllers{workQueue: workQueue{due: map[string]time.Time{}}}
	c.out, c.now = out, now
	for _, step := range []struct{ after, want time.Duration }{
		{time.Minute, time.Minute}, {time.Second, time.Second}, {time.Hour, time.Second}, {0, 0}, {time.Second, 0},
	} {
		c.enqueueAfter(lookJob, name{"default", "sum"}, step.after)
		if due := out.at[lookJob+" default/sum"].Sub(now); due != step.want {
			t.Errorf("to be looked at in %v: it is in %v, want %v", step.after, due, step.want)
		}
	}
}
