package metrics_test

import (
	"strings"
	"testing"
	"time"

	"github.com/podfall/podfall/internal/metrics"
)

func TestText(t *testing.T) {
	r := metrics.NewRegistry()
	requests := r.Counter("requests_total", "All of them.", "verb", "path")
	requests.Add(2, "GET", `a"b\c`+"\n")
	requests.Add(1, "DELETE", "")
	r.Counter("requests_total", "All of them.", "verb", "path").Add(1, "DELETE", "")
	took := r.Histogram("took_seconds", "How long.", metrics.LatencyBuckets())
	took.Observe(20 * time.Millisecond)
	took.Observe(2 * time.Minute)
	waiting := r.Gauge("waiting", "Who waits.")
	r.OnCollect(func() { waiting.Set(7) })
	text := string(r.Text())
	for _, want := range []string{
		"# HELP requests_total All of them.\n# TYPE requests_total counter\n",
		`requests_total{verb="DELETE",path=""} 2` + "\n" + `requests_total{verb="GET",path="a\"b\\c\n"} 2` + "\n",
		"# TYPE took_seconds histogram\n",
		`took_seconds_bucket{le="0.005"} 0` + "\n" + `took_seconds_bucket{le="0.025"} 1` + "\n",
		`took_seconds_bucket{le="+Inf"} 2` + "\n" + "took_seconds_sum 120.02\ntook_seconds_count 2\n",
		"# TYPE waiting gauge\nwaiting 7\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("want %q in:\n%s", want, text)
		}
	}
}

func TestNobodyCounts(t *testing.T) {
	var r *metrics.Registry
	r.Counter("requests_total", "All of them.").Add(1)
	r.Gauge("waiting", "Who waits.").Set(1)
	r.Histogram("took_seconds", "How long.", metrics.LatencyBuckets()).Observe(time.Second)
	r.OnCollect(func() { t.Error("somebody looked") })
	if text := r.Text(); len(text) > 0 {
		t.Errorf("a nil registry says %s", text)
	}
}

func TestCluster(t *testing.T) {
	one, two := metrics.NewRegistry(), metrics.NewRegistry()
	one.Counter("plain_total", "Without labels.").Add(1)
	two.Counter("plain_total", "Without labels.").Add(2)
	two.Counter("braced_total", "With labels.", "path").Add(3, "a {b}")
	two.Histogram("took_seconds", "How long.", []float64{1}).Observe(time.Second)
	got := string(metrics.Merge(map[string][]byte{"kubelet/a": one.Text(), "kubelet/b": two.Text(), "gone": nil}))
	want := `# HELP braced_total With labels.
# TYPE braced_total counter
braced_total{process="kubelet/b",path="a {b}"} 3
# HELP plain_total Without labels.
# TYPE plain_total counter
plain_total{process="kubelet/a"} 1
plain_total{process="kubelet/b"} 2
# HELP took_seconds How long.
# TYPE took_seconds histogram
took_seconds_bucket{process="kubelet/b",le="1"} 1
took_seconds_bucket{process="kubelet/b",le="+Inf"} 1
took_seconds_sum{process="kubelet/b"} 1
took_seconds_count{process="kubelet/b"} 1
`
	if got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}
