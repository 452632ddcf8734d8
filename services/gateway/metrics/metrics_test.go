package metrics_test

import (
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/podfall/podfall/services/gateway/metrics"
)

func TestWrite(t *testing.T) {
	var out strings.Builder
	write := func(f *metrics.Family) {
		if err := f.Write(&out); err != nil {
			t.Error(err)
		}
	}
	requests := metrics.NewFamily(metrics.Counter, "requests_total", "All of them.", "verb", "path")
	requests.Add(2, "GET", `a"b\c`+"\n")
	requests.Add(1, "DELETE", "")
	requests.Add(1, "DELETE", "")
	write(requests)
	took := metrics.NewFamily(metrics.Histogram, "took_seconds", "How long.")
	took.Observe(20 * time.Millisecond)
	took.Observe(2 * time.Minute)
	write(took)
	for _, want := range []string{
		"# HELP requests_total All of them.\n# TYPE requests_total counter\n",
		`requests_total{verb="DELETE",path=""} 2` + "\n" + `requests_total{verb="GET",path="a\"b\\c\n"} 2` + "\n",
		"# TYPE took_seconds histogram\n",
		`took_seconds_bucket{le="0.005"} 0` + "\n" + `took_seconds_bucket{le="0.025"} 1` + "\n",
		`took_seconds_bucket{le="+Inf"} 2` + "\n" + "took_seconds_sum 120.02\ntook_seconds_count 2\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("want %q in:\n%s", want, out.String())
		}
	}
}

// TestWhoReadsSlowlyBlocksNobody: requests are counted while somebody takes the counts in.
func TestWhoReadsSlowlyBlocksNobody(t *testing.T) {
	requests := metrics.NewFamily(metrics.Counter, "requests_total", "All of them.")
	requests.Add(1)
	reader, writer := io.Pipe()
	var writing, counting sync.WaitGroup
	writing.Go(func() { _ = requests.Write(writer) })
	if _, err := reader.Read(make([]byte, 1)); err != nil { // it is being written now, and not read on
		t.Fatal(err)
	}
	counted := make(chan struct{})
	counting.Go(func() {
		requests.Add(1)
		close(counted)
	})
	select {
	case <-counted:
	case <-time.After(10 * time.Second):
		t.Error("a request waits for who reads the counts")
	}
	_ = reader.Close()
	writing.Wait()
	counting.Wait()
}
