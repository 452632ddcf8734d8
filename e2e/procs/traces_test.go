package procs

import (
	"slices"
	"strings"
	"testing"
)

// dedupeRows removes repeated rows: how many MODIFIED events there are in between depends on timing
// (UNS-02).
func dedupeRows(rows []string) []string { return slices.Compact(slices.Clone(rows)) }

func wantRows(t *testing.T, got []string, want ...string) {
	t.Helper()
	if got := dedupeRows(got); !slices.Equal(got, want) {
		t.Errorf("rows\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestTRC01GracefulDelete(t *testing.T) {
	t.Parallel()
	gracefulDelete(t, up(t, "--nodes", "1"))
}

func gracefulDelete(t *testing.T, c *cluster) {
	t.Helper()
	c.runPod("web", "on TERM exits 0 after 1s", 30)
	stop := c.watchPod()
	out := c.run("delete", "pod", "web")
	if out.stdout != "pod \"web\" deleted from default namespace\n" || out.code != 0 {
		t.Errorf("delete printed %q, exit %d", out.stdout, out.code)
	}
	rows := stop()
	wantRows(t, rows, "ADDED web 1/1 Running", "MODIFIED web 1/1 Terminating", "MODIFIED web 0/1 Completed", "DELETED web 0/1 Completed")
	if count := strings.Count(strings.Join(rows, "\n"), "MODIFIED web 0/1 Completed"); count < 2 {
		t.Errorf("PRN-18: %d rows 0/1 Completed before DELETED, want 2: containers done, and grace 0", count)
	}
	eventually(t, "Killing is among the events", func() bool { return strings.Contains(c.must("events", "--for", "pod/web"), "Killing") })
}

// TestArticle000 shows the rows of the v1.22 article: three 0/1 Terminating at the end.
func TestArticle000(t *testing.T) {
	t.Parallel()
	c := up(t, "--nodes", "1", "--compat", "v1.22")
	c.runPod("web", "on TERM exits 0 after 1s", 30)
	stop := c.watchPod()
	c.must("delete", "pod", "web")
	rows := stop()
	wantRows(t, rows, "ADDED web 1/1 Running", "MODIFIED web 1/1 Terminating", "MODIFIED web 0/1 Terminating", "DELETED web 0/1 Terminating")
	if last := rows[max(0, len(rows)-3):]; !slices.Equal(last, []string{
		"MODIFIED web 0/1 Terminating", "MODIFIED web 0/1 Terminating", "DELETED web 0/1 Terminating",
	}) {
		t.Errorf("the last three rows are %q", last)
	}
}

func TestTRC02TermIgnored(t *testing.T) {
	t.Parallel()
	c := up(t, "--nodes", "1")
	c.runPod("web", "ignores TERM", 3)
	stop := c.watchPod()
	c.must("delete", "pod", "web")
	wantRows(t, stop(), "ADDED web 1/1 Running", "MODIFIED web 1/1 Terminating", "MODIFIED web 0/1 Error", "DELETED web 0/1 Error")
}

func TestTRC05Forced(t *testing.T) {
	t.Parallel()
	forcedDelete(t, up(t, "--nodes", "1"))
}

func forcedDelete(t *testing.T, c *cluster) {
	t.Helper()
	c.runPod("web", "ignores TERM", 30)
	stop := c.watchPod()
	out := c.run("delete", "pod", "web", "--force", "--grace-period=0")
	if out.stdout != "pod \"web\" force deleted from default namespace\n" || !strings.Contains(out.stderr, "Immediate deletion") {
		t.Errorf("delete printed %q and %q", out.stdout, out.stderr)
	}
	wantRows(t, stop(), "ADDED web 1/1 Running", "MODIFIED web 1/1 Terminating", "DELETED web 1/1 Terminating")
	eventually(t, "the runtime has killed the container", func() bool { return c.runtimesLogged("signal=SIGKILL") })
}

func TestTRC07ForcedWhileTheKubeletIsDown(t *testing.T) {
	t.Parallel()
	c := up(t, "--nodes", "1")
	c.runPod("web", "ignores TERM", 30)
	c.kill("kubelet/node-1")
	c.must("delete", "pod", "web", "--force", "--grace-period=0")
	if out := c.run("get", "pod", "web"); out.code != 1 || !strings.Contains(out.stderr, `pods "web" not found`) {
		t.Errorf("the object is still there: %+v", out)
	}
	if strings.Contains(c.readLog("runtime-node-1"), "signal=SIGTERM") {
		t.Error("the container was signalled although no kubelet runs")
	}
	c.must("up", "--detach", "--nodes", "1")
	eventually(t, "the new kubelet has ended the orphan", func() bool { return strings.Contains(c.readLog("runtime-node-1"), "signal=SIGKILL") })
}

func TestTRC20KubeletRestart(t *testing.T) {
	t.Parallel()
	c := up(t, "--nodes", "1")
	c.runPod("web", "ignores TERM", 4)
	stop := c.watchPod()
	c.must("delete", "pod", "web", "--wait=false")
	eventually(t, "TERM was sent", func() bool { return strings.Contains(c.readLog("runtime-node-1"), "signal=SIGTERM") })
	c.kill("kubelet/node-1")
	c.must("up", "--detach", "--nodes", "1")
	wantRows(t, stop(), "ADDED web 1/1 Running", "MODIFIED web 1/1 Terminating", "MODIFIED web 0/1 Error", "DELETED web 0/1 Error")
	if count := strings.Count(c.readLog("runtime-node-1"), "signal=SIGTERM"); count != 1 {
		t.Errorf("TERM was sent %d times, want once (CRI-07)", count)
	}
}
