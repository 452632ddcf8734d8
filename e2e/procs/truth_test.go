package procs

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podfall/podfall/analysis/windows"
	layouts "github.com/podfall/podfall/cmd/podfall/cluster"
	"github.com/podfall/podfall/internal/history"
)

// TestSplitBrain force-deletes a StatefulSet's pod on a node that is cut off. While the split brain
// lasts, why and truth show it over the management connection. Afterwards the reported window must
// match the overlap of the two runtimes' signal logs.
func TestSplitBrain(t *testing.T) {
	c := up(t, "--nodes", "2", "--speed", "20")
	data, err := os.ReadFile("../../examples/web.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c.apply(string(data))
	field := func(path string) string { return c.run("get", "pod", "web-0", "-o", "jsonpath={"+path+"}").stdout }
	eventually(t, "web-0 runs", func() bool { return field(".status.phase") == "Running" })
	first, node := field(".metadata.uid"), field(".spec.nodeName")
	c.must("cordon", node)
	c.must("cut", node, "--for", "0s")
	c.must("delete", "pod", "web-0", "--wait=false")
	eventually(t, "why names the cut", func() bool {
		answer := c.run("why", "pod/web-0")
		return answer.code == 3 && strings.Contains(answer.stdout, "STK-06 node-cut-off")
	})
	if all := c.run("why"); all.code != 3 || !strings.Contains(all.stdout, "STK-06 node-cut-off: 1 object\n  pod/web-0 in default") {
		t.Errorf("why without an object: %+v, want web-0 under the cut", all)
	}
	c.must("delete", "pod", "web-0", "--force", "--grace-period=0")
	look := func() truth {
		var truth truth
		if err := json.Unmarshal([]byte(c.must("truth", "-o", "json")), &truth); err != nil {
			t.Fatal(err)
		}
		return truth
	}
	eventually(t, "the window is open, with both", func() bool {
		for _, w := range look().Windows {
			if w.Identity == "default/web-0" && w.Open() {
				return w.Incarnations[0].UID == first && w.Incarnations[0].Node == node && w.Incarnations[1].Node != node && len(w.Incarnations[1].Containers) == 1
			}
		}
		return false
	})
	eventually(t, "truth shows the orphan on the node that is cut off", func() bool { // requires its runtime to answer in time
		for _, row := range look().Pods {
			if row.UID == first && row.API == "gone" && row.Alive == 1 && row.Scripted == 1 && row.Node == node {
				return true
			}
		}
		return false
	})
	c.must("heal", "--all")
	shown := 0.0
	eventually(t, "the window is closed", func() bool {
		w := look().Windows
		if len(w) != 1 || w[0].Open() {
			return false
		}
		shown = w[0].Took
		return true
	})
	var recorded history.Window
	eventually(t, "users have been told of it", func() bool {
		log, err := history.Read(c.historyDir())
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range log.Events {
			if w, ok := e.Fact.(history.Window); ok && w.End != nil {
				recorded = w
			}
		}
		return recorded.End != nil
	})
	o := c.readOverlap(first)
	if truth := o.ended.Sub(o.started).Seconds(); math.Abs(shown-truth) > 1 || !o.fits(recorded) {
		t.Errorf("both were alive for %.3fs; shown %.3fs, told %+v, of %+v", truth, shown, recorded, o)
	}
}

// TestSplitBrainOfPrograms: truth names the two live processes of one identity, the orphan's and
// its successor's, even after the orphan's runtime was killed.
func TestSplitBrainOfPrograms(t *testing.T) {
	t.Parallel()
	c, _ := upWithPrograms(t, "--nodes", "2")
	c.apply(`
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: web}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      runtimeClassName: process
      containers:
      - {name: main, image: none, command: [/bin/sleep, "1000"]}
`)
	field := func(path string) string { return c.run("get", "pod", "web-0", "-o", "jsonpath={"+path+"}").stdout }
	eventually(t, "web-0 runs", func() bool { return field(".status.phase") == "Running" })
	node := field(".spec.nodeName")
	c.must("cordon", node)
	c.must("cut", node, "--for", "2h")
	c.must("delete", "pod", "web-0", "--force", "--grace-period=0")
	both := func() (pids []int) {
		var truth truth
		if err := json.Unmarshal([]byte(c.must("truth", "-o", "json")), &truth); err != nil {
			t.Fatal(err)
		}
		for _, w := range truth.Windows {
			pids = slices.Concat(pids, w.Incarnations[0].PIDs, w.Incarnations[1].PIDs)
		}
		return pids
	}
	eventually(t, "the window names both processes", func() bool { return len(both()) == 2 })
	pids := both()
	for _, pid := range pids {
		if line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err != nil || !strings.Contains(string(line), "sleep") {
			t.Errorf("process %d is %q, %v", pid, line, err)
		}
	}
	c.must("crash", "runtime/"+node)
	c.must("start", "runtime/"+node)
	eventually(t, "truth shows the orphan's process again", func() bool {
		words := strings.Join(strings.Fields(c.run("truth").stdout), " ")
		return strings.Contains(words, fmt.Sprintf("1 alive (pid %d) orphan", pids[0]))
	})
	eventually(t, fmt.Sprint("the window names the processes ", pids, " again"), func() bool { return slices.Equal(both(), pids) })
	c.must("heal", "--all")
	c.must("delete", "statefulset", "web")
}

// TestTimelineWithKubeconfigOnly explains a deletion with only the kubeconfig. The node that is cut
// off cannot report to the API, but answers on the management connection. Each answer says which
// process is silent.
func TestTimelineWithKubeconfigOnly(t *testing.T) {
	t.Parallel()
	c := up(t, "--nodes", "1", "--speed", "20")
	c.apply("{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: main, image: none}]}}")
	c.must("wait", "--for=condition=Ready", "pod/web", "--timeout=60m") // three wall minutes
	if out := c.runRemote("timeline", "pod/web"); out.code != 1 || !strings.Contains(out.stderr, "no deletion of pod \"web\"") || !strings.Contains(out.stderr, "kubelet/node-1") {
		t.Errorf("before: %+v", out)
	}
	c.must("cut", "node-1", "--direction", "from-node", "--for", "0s")
	c.must("delete", "pod", "web", "--wait=false")
	whole := []string{"client:admin asks for the deletion", "sees the mark", "main gets SIGTERM", "main exits with 0"}
	tells := func(out result, texts ...string) bool {
		at := 0
		for _, text := range texts {
			i := strings.Index(out.stdout[at:], text)
			if i < 0 {
				return false
			}
			at += i
		}
		return out.code == 0
	}
	eventually(t, "the node that cannot speak tells its part", func() bool {
		return tells(c.runRemote("timeline", "pod/web"), append(whole, "Evidence: apiserver", "kubelet/node-1", "runtime/node-1")...)
	})
	eventually(t, "why says that the node has done its part", func() bool {
		out := c.runRemote("why", "pod/web")
		return out.code == 3 && strings.Contains(out.stdout, "STK-07")
	})
	if out := c.runRemote("get", "pod", "web"); out.code != 0 || !strings.Contains(out.stdout, "Terminating") {
		t.Errorf("get says %+v", out)
	}
	c.must("crash", "runtime/node-1")
	eventually(t, "with a runtime that is down its kubelet tells its part", func() bool {
		out := c.runRemote("timeline", "pod/web")
		if strings.Contains(out.stdout, "SIGTERM") {
			t.Fatalf("with a runtime that is down: %+v", out)
		}
		return tells(out, "sees the mark", "runtime/node-1 (silent)")
	})
	if out := c.run("timeline", "pod/web"); !tells(out, append(whole, "Evidence:", "runtime/node-1.")...) {
		t.Errorf("where the files are: %+v", out)
	}
	c.must("start", "runtime/node-1")
	c.must("heal", "--all")
	out := c.runRemote("timeline", "pod/web", "-f")
	for _, step := range append(whole, "the object is removed", "nothing of it is alive", "Evidence:") { // a process that is silent for a moment reports late
		if !tells(out, step) {
			t.Errorf("to the end: %+v, want it to tell that %s", out, step)
		}
	}
	for _, out := range []result{c.run("why", "pod/web"), c.runRemote("why", "pod/web")} {
		if out.code != 1 || !strings.Contains(out.stdout, "main exits with 0") || !strings.Contains(out.stderr, `(NotFound): pods "web" not found`) {
			t.Errorf("why, of a pod that is gone: %+v, want its timeline and NotFound", out)
		}
	}
	for _, args := range [][]string{{"why", "pod/nobody"}, {"timeline", "pod/nobody", "-f"}} {
		if out := c.run(args...); out.code != 1 {
			t.Errorf("%v of a name that never was: %+v, want exit code 1", args, out)
		}
	}
}

// truth is the output of podfall truth -o json, as far as the test needs it.
type truth struct {
	Pods []struct {
		Node, UID, API string
		Alive          int
		PIDs           []int
		Scripted       int
	}
	Windows []windows.Window
}

// overlap is when the first incarnation of web-0 ran beside the second, according to the histories.
type overlap struct {
	// made and started belong to the second's container; stopping, ended and removed to the
	// first's.
	made, started, stopping, ended, removed time.Time
}

// fits reports whether a reported window matches. A busy machine records late: an event lies
// between its record and the record before. If a container is removed before it is inspected, its
// exit time is unknown.
func (o overlap) fits(w history.Window) bool {
	const rounded = time.Millisecond
	within := func(at, from, to time.Time) bool { return !at.Before(from.Add(-rounded)) && !at.After(to.Add(rounded)) }
	return within(w.Begin, o.made, o.started) && (within(*w.End, o.stopping, o.ended) || !o.removed.IsZero() && w.End.After(o.removed))
}

func (c *cluster) readOverlap(first string) (o overlap) {
	c.t.Helper()
	log, err := history.Read(c.historyDir())
	if err != nil {
		c.t.Fatal(err)
	}
	note := func(at *time.Time, e history.Event, pod, uid string) {
		if at.IsZero() && pod == "default/web-0" && (uid == first) == (at != &o.made && at != &o.started) {
			*at = e.Wall
		}
	}
	for _, e := range log.Events {
		switch fact := e.Fact.(type) {
		case history.Create:
			note(&o.made, e, fact.Pod, fact.UID)
		case history.Start:
			note(&o.started, e, fact.Pod, fact.UID)
		case history.KubeletTerm:
			note(&o.stopping, e, fact.Pod, fact.UID)
		case history.Exit:
			note(&o.ended, e, fact.Pod, fact.UID)
		case history.Remove:
			note(&o.removed, e, fact.Pod, fact.UID)
		}
	}
	return o
}

func (c *cluster) historyDir() string { return layouts.Layout{Root: c.data}.History() }
