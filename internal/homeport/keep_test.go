package homeport

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// TestKeptPorts are kept for as long as a file names them, and no longer.
func TestKeptPorts(t *testing.T) {
	t.Parallel()
	n := notes(filepath.Join(t.TempDir(), "notes"))
	file := filepath.Join(t.TempDir(), "bus.json")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := n.keep(file); err != nil {
			t.Fatal(err)
		}
	}
	kept := func(want ...int) {
		t.Helper()
		for _, port := range []int{4222, 20001, 20002, 29999, 30000} {
			wanted := false
			for _, w := range want {
				wanted = wanted || w == port
			}
			if n.kept(port) != wanted {
				t.Errorf("port %d is kept: %v, want %v", port, !wanted, wanted)
			}
		}
	}
	kept()
	write(`{"hub":["nats://127.0.0.1:4222"],"links":{"node-1":"nats://127.0.0.1:20001","node-2":"nats://[::1]:29999"},"other":"http://host:30000/"}`)
	kept(20001, 29999)
	write(`{"hub":["nats://127.0.0.1:20002"]}`)
	kept(20002)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	kept()
}

// TestNotesAreSwept as soon as another port is noted.
func TestNotesAreSwept(t *testing.T) {
	t.Parallel()
	n := notes(filepath.Join(t.TempDir(), "notes"))
	for port := 20000; port < 20010; port++ {
		file := filepath.Join(t.TempDir(), "address.json")
		if err := os.WriteFile(file, []byte(`{"url":"nats://127.0.0.1:`+strconv.Itoa(port)+`"}`), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := n.keep(file); err != nil {
			t.Fatal(err)
		}
		links, err := os.ReadDir(string(n))
		if err != nil || len(links) != 1 || links[0].Name() != strconv.Itoa(port) {
			t.Errorf("noted are %v (%v), want %d alone", links, err, port)
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
}

// TestNothingToKeep leaves no directory behind, and what cannot be noted is an error.
func TestNothingToKeep(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "address.json")
	n := notes(filepath.Join(t.TempDir(), "notes"))
	if err := n.keep(file); err == nil {
		t.Error("a file that is not there named ports")
	}
	for _, text := range []string{`{"url":"https://127.0.0.1:6443"}`, ``, `{`, `:99999999999999999999`} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := n.keep(file); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(string(n)); err == nil {
			t.Errorf("something was noted of %q", text)
		}
	}
	if err := os.WriteFile(file, []byte(`{"url":"https://127.0.0.1:20001"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := notes(file).keep(file); err == nil {
		t.Error("a note was made in a file")
	}
}
