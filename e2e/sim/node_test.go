package sim

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/analysis/guarantees"
	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/kubelet"
)

// act is something that the user of a story does at a time after the beginning.
type act struct {
	at time.Duration
	do func(u *player, now time.Time, out Out)
}

// player is the user of a story.
type player struct {
	client Client
	acts   []act
	pods   kinds.Kind
	refuse []string
}

func (u *player) Step(now time.Time, in Input, out Out) {
	if boot, is := in.(Boot); is {
		u.client = newClient(proto.Admin, boot)
		u.pods, _ = kinds.ByResource("pods")
		for i, a := range u.acts {
			out.Wake(fmt.Sprint("act", i), now.Add(a.at))
		}
		return
	}
	if u.client.Step(now, in, out) {
		return
	}
	for i, a := range u.acts {
		if alarm, is := in.(Alarm); is && alarm.Key == fmt.Sprint("act", i) {
			a.do(u, now, out)
		}
	}
}

func (u *player) ask(now time.Time, out Out, ask Ask) {
	_ = u.client.Do(now, out, ask, func(_ time.Time, got Got, _ Out) {
		if got.Err != nil {
			u.refuse = append(u.refuse, got.Err.Error())
		}
	})
}

// create makes the pod web on node-1, with a container that follows the script.
func create(at time.Duration, script string, edits ...func(*corev1.Pod)) act {
	return act{at, func(u *player, now time.Time, out Out) {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: map[string]string{scriptAnnotation + "main": script}},
			Spec: corev1.PodSpec{
				NodeName: "node-1", TerminationGracePeriodSeconds: new(int64(30)), RestartPolicy: corev1.RestartPolicyAlways,
				Containers: []corev1.Container{{Name: "main", Image: "scripted"}},
				Volumes:    []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
			},
		}
		for _, edit := range edits {
			edit(pod)
		}
		u.ask(now, out, Ask{Verb: proto.VerbCreate, Target: podapi.Target{Kind: u.pods, Namespace: "default"}, Object: pod, Options: &metav1.CreateOptions{}})
	}}
}

// remove deletes the pod web; a negative grace asks for none.
func remove(at time.Duration, grace int64) act {
	return act{at, func(u *player, now time.Time, out Out) {
		opts := &metav1.DeleteOptions{}
		if grace >= 0 {
			opts.GracePeriodSeconds = &grace
		}
		u.ask(now, out, Ask{Verb: proto.VerbDelete, Target: podapi.Target{Kind: u.pods, Namespace: "default", Name: "web"}, Options: opts})
	}}
}

// life is a node, its apiserver and a user in one world.
type life struct {
	*World
	kernel *Kernel
	user   *player
}

// play lives a story of acts for two minutes; arrange may break things.
func play(t *testing.T, acts []act, arrange, check func(l *life)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := &life{World: NewWorld(NewNet(1, Trouble{}, 0)), kernel: NewKernel(), user: &player{acts: acts}}
		drive := &Drive{seed: 1}
		l.Add(APIServer, func() Process { return NewAPIServer(drive, nil, func() {}) }, 0)
		l.Add("runtime/node-1", func() Process { return newRuntime("node-1", l.kernel) }, time.Second)
		l.Add("kubelet/node-1", func() Process { return newKubelet("node-1", l.kernel, kubelet.Default()) }, time.Second)
		l.Add("user", func() Process { return l.user }, 0)
		defer l.End()
		if arrange != nil {
			arrange(l)
		}
		if err := l.Run(4 * time.Minute); err != nil {
			t.Fatal(err)
		}
		if len(l.user.refuse) > 0 {
			t.Errorf("the user was refused: %v", l.user.refuse)
		}
		l.guaranteed(t)
		check(l)
		if t.Failed() {
			t.Log(strings.Join(l.lines(), "\n"))
		}
	})
}

// guaranteed checks the history.
func (l *life) guaranteed(t *testing.T) {
	t.Helper()
	results, err := guarantees.Check(guarantees.Evidence{Log: l.History(), Store: StoreLog(l.Kept(APIServer, diskStore))})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if r.Err() != nil {
			t.Error(r.Err())
		}
	}
}

// lines are what processes of the node have noted, with the seconds since the beginning.
func (l *life) lines() []string {
	var lines []string
	for _, e := range l.History().Events {
		what := ""
		switch fact := e.Fact.(type) {
		case history.KubeletSee:
			what = " " + fact.Op
		case history.KubeletTerm:
			what = fmt.Sprint(" ", fact.Grace)
		case history.KubeletStuck:
			what = " " + fact.Doing + ": " + fact.Err
		case history.KubeletStatus:
			what = " " + fact.Phase
		case history.KubeletFinal:
			what = " " + fact.Err
		case history.Signal:
			what = " " + fact.Signal
		case history.Exit:
			what = fmt.Sprint(" ", fact.Code)
		case history.Commit:
			if fact.Resource != "pods" {
				continue
			}
			what = " " + fact.Op + " " + fact.Phase
		case history.Lease, history.OpCall, history.OpReturn, history.WatchOpen, history.WatchEvent, history.Signaling, history.OpRead, history.Fsync:
			continue
		}
		lines = append(lines, strings.TrimRight(fmt.Sprintf("%7.3f %s %s%s", e.Wall.Sub(l.start).Seconds(), e.Process, e.Fact.Name(), what), " "))
	}
	return lines
}

// times are when something was told.
func (l *life) times(told string) []time.Duration {
	var times []time.Duration
	for _, line := range l.lines() {
		if at, what, _ := strings.Cut(strings.TrimSpace(line), " "); strings.Contains(what, told) {
			seconds, _ := time.ParseDuration(at + "s")
			times = append(times, seconds)
		}
	}
	return times
}

// count is how often something was told.
func (l *life) count(told string) int { return len(l.times(told)) }

// down has a process crash, and start again after a while.
func (l *life) down(process string, at, back time.Duration) {
	l.At(at, func() { l.Crash(process) })
	l.At(back, func() { l.Start(process) })
}

// alive are the programs that run at the end.
func (l *life) alive() int { return len(l.kernel.Alive(l.now)) }

// after checks how long after one event another came for the first time.
func (l *life) after(t *testing.T, first, then string, want time.Duration) {
	t.Helper()
	one, two := l.times(first), l.times(then)
	if len(one) == 0 || len(two) == 0 {
		t.Errorf("%s %v, %s %v: one is missing", first, one, then, two)
		return
	}
	if got := (two[0] - one[0]).Round(10 * time.Millisecond); got != want {
		t.Errorf("%s came %v after %s, want %v", then, got, first, want)
	}
}

// often checks how often something was told.
func (l *life) often(t *testing.T, told string, want int) {
	t.Helper()
	if got := l.count(told); got != want {
		t.Errorf("%s was told %d times, want %d", told, got, want)
	}
}

// gone checks that nothing of the pod is left, in the API or on the node.
func (l *life) gone(t *testing.T) {
	t.Helper()
	if l.count("commit DELETED") != l.count("commit ADDED") || l.alive() > 0 || len(l.kernel.mounts) > 0 {
		t.Errorf("%d pods made, %d removed, %d programs run, mounted: %v", l.count("commit ADDED"), l.count("commit DELETED"), l.alive(), l.kernel.mounts)
	}
}

const (
	made   = 10 * time.Second
	marked = 30500 * time.Millisecond // no tick falls on it
)

func TestNodeStops(t *testing.T) {
	for name, row := range map[string]struct {
		script string
		edit   func(*corev1.Pod)
		grace  int64
		first  string
		then   string
		after  time.Duration
		kills  int
	}{
		"it exits 2 s after TERM":    {"on TERM exits 0 after 2s", nil, -1, "rt.sig SIGTERM", "rt.exit 0", 2 * time.Second, 0},
		"KBL-33 killed at the grace": {"ignores TERM", nil, 5, "rt.sig SIGTERM", "rt.sig SIGKILL", 5 * time.Second, 1},
		"KBL-16 its own grace":       {"ignores TERM", nil, -1, "rt.sig SIGTERM", "rt.sig SIGKILL", 30 * time.Second, 1},
		"KBL-33 never less than 2 s": {"ignores TERM", nil, 1, "rt.sig SIGTERM", "rt.sig SIGKILL", 2 * time.Second, 1},
		"it cannot be killed for a while": {
			"ignores TERM, survives KILL for 20s", nil, 3, "rt.sig SIGKILL", "rt.exit 137", 20 * time.Second, 1,
		},
		"KBL-33 a hook uses up the grace": {"ignores TERM", withHook(&corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 3}}), 10, "k.term", "rt.sig SIGTERM", 3 * time.Second, 1},
		"KBL-40 a hook that never ends": {
			"ignores TERM, exec hangs", withHook(&corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"x"}}}), 6, "k.term", "rt.sig SIGKILL", 8 * time.Second, 1,
		},
		"a hook that ends by itself": {
			"ignores TERM, exec exits 0 after 4s", withHook(&corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"x"}}}), 10, "k.term", "rt.sig SIGKILL", 10 * time.Second, 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			edit := row.edit
			if edit == nil {
				edit = func(*corev1.Pod) {}
			}
			play(t, []act{create(made, row.script, edit), remove(marked, row.grace)}, nil, func(l *life) {
				l.after(t, row.first, row.then, row.after)
				l.often(t, "rt.sig SIGTERM", 1)
				l.often(t, "rt.sig SIGKILL", row.kills)
				l.gone(t)
			})
		})
	}
}

func withHook(hook *corev1.LifecycleHandler) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: hook} }
}

// A grace that is shortened before the kubelet acts counts; one that is shortened during the
// stop changes nothing for the runtime (KBL-18, TRC-12).
func TestNodeShortenedGrace(t *testing.T) {
	play(t, []act{create(made, "ignores TERM"), remove(marked, 20), remove(marked+5*time.Second, 12)}, nil, func(l *life) {
		l.after(t, "rt.sig SIGTERM", "rt.sig SIGKILL", 20*time.Second)
		l.gone(t)
	})
	play(t, []act{create(made, "ignores TERM"), remove(marked, 20), remove(marked+5*time.Second, 12)}, func(l *life) {
		l.down("kubelet/node-1", marked-time.Second, marked+10*time.Second)
	}, func(l *life) {
		l.after(t, "rt.sig SIGTERM", "rt.sig SIGKILL", 12*time.Second)
		l.gone(t)
	})
}

// The kubelet crashes in each state of its worker, for 5 s; the pod ends all the same, and
// its container gets its stop signal once.
func TestNodeKubeletCrash(t *testing.T) {
	for name, row := range map[string]struct {
		at    time.Duration
		terms int
	}{
		"before it has the pod":           {made - time.Second, 1},
		"between create and start":        {made + 39600*time.Microsecond, 1},
		"Syncing":                         {made + 5*time.Second, 1},
		"Stopping, at once":               {marked + 70*time.Millisecond, 1},
		"Stopping":                        {marked + 2*time.Second, 1},
		"Stopping, past the grace":        {marked + 5*time.Second, 1},
		"Stopped, to clean":               {marked + 8100*time.Millisecond, 1},
		"Confirming":                      {marked + 8600*time.Millisecond, 1},
		"Confirming, the DELETE is going": {marked + 8510*time.Millisecond, 1},
		"Gone":                            {marked + 20*time.Second, 1},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, []act{create(made, "ignores TERM"), remove(marked, 8)}, func(l *life) {
				l.down("kubelet/node-1", row.at, row.at+5*time.Second)
			}, func(l *life) {
				l.often(t, "rt.sig SIGTERM", row.terms)
				l.gone(t)
			})
		})
	}
}

// The runtime crashes while it stops a container: what runs lives on, no signal is sent
// again, and the stop begins anew.
func TestNodeRuntimeCrash(t *testing.T) {
	play(t, []act{create(made, "ignores TERM"), remove(marked, 10)}, func(l *life) {
		l.down("runtime/node-1", marked+3*time.Second, marked+5*time.Second)
	}, func(l *life) {
		l.often(t, "rt.sig SIGTERM", 1)
		l.often(t, "rt.sig SIGKILL", 1)
		l.often(t, "k.stuck", 1)
		l.gone(t)
	})
	play(t, []act{create(made, "on TERM exits 3 after 4s"), remove(marked, 10)}, func(l *life) {
		l.down("runtime/node-1", marked+3*time.Second, marked+6*time.Second)
	}, func(l *life) {
		l.often(t, "rt.sig SIGTERM", 1)
		l.often(t, "rt.sig SIGKILL", 0)
		l.often(t, "rt.exit 3", 1) // while the runtime was down
		l.gone(t)
	})
}

// A pod that is forced away while its kubelet is down is an orphan for the next (KBL-73).
func TestNodeOrphan(t *testing.T) {
	play(t, []act{create(made, "ignores TERM"), remove(marked, 0)}, func(l *life) {
		l.down("kubelet/node-1", marked-2*time.Second, marked+10*time.Second)
	}, func(l *life) {
		l.often(t, "k.term 1", 1)
		l.after(t, "rt.sig SIGTERM", "rt.sig SIGKILL", 2*time.Second)
		l.often(t, "k.final", 0)
		l.gone(t)
	})
}

// A pod takes the name of one that is forced away and still stops: neither is touched for
// the other (KBL-22).
func TestNodeSameName(t *testing.T) {
	play(t, []act{
		create(made, "ignores TERM"), remove(marked, 20), remove(marked+time.Second, 0),
		create(marked+2*time.Second, "on TERM exits 0 after 1s"),
	}, nil, func(l *life) {
		l.often(t, "rt.sig SIGTERM", 1)
		l.after(t, "rt.sig SIGTERM", "rt.sig SIGKILL", 20*time.Second)
		l.often(t, "k.final", 0)
		if l.alive() != 1 || len(l.kernel.mounts) != 1 {
			t.Errorf("%d programs run, mounted: %v; want the second pod's", l.alive(), l.kernel.mounts)
		}
	})
}

// The whole node is started anew: nothing of what ran is left, and it runs again.
func TestNodeReboot(t *testing.T) {
	play(t, []act{create(made, "on TERM exits 0 after 1s"), remove(90*time.Second, 10)}, func(l *life) {
		l.down("kubelet/node-1", marked, marked+20*time.Second)
		l.down("runtime/node-1", marked, marked+20*time.Second)
		l.At(marked, l.kernel.Reboot)
	}, func(l *life) {
		l.often(t, "rt.exit 255", 1)
		l.often(t, "rt.start", 2)
		l.often(t, "rt.sig SIGTERM", 1)
		l.gone(t)
	})
}

// A container that crashes is started again, later each time.
func TestNodeCrashLoop(t *testing.T) {
	play(t, []act{create(made, "exits 1 after 5s")}, nil, func(l *life) {
		if starts := l.times("rt.start"); len(starts) != 6 {
			t.Errorf("it was started at %v, want 6 times: after 0, 10, 20, 40 and 80 s", starts)
		}
	})
}
