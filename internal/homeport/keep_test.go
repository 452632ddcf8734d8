package homeport

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestKeptPorts are kept for as long as a file names them, and no longer.
func TestKeptPorts(t *testing.T) {
	t.Parallel()
	n := reservations(filepath.Join(t.TempDir(), "notes"))
	file := filepath.Join(t.TempDir(), "bus.json")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := n.add(file); err != nil {
			t.Fatal(err)
		}
	}
	kept := func(want ...int) {
		t.Helper()
		got := n.ports()
		for _, port := range want {
			if !got[port] {
				t.Errorf("port %d is not kept", port)
			}
		}
		if len(got) != len(want) {
			t.Errorf("kept are %v, want %v", got, want)
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

// TestNotesAreSwept as soon as another file is noted, which is noted once.
func TestNotesAreSwept(t *testing.T) {
	t.Parallel()
	n := reservations(filepath.Join(t.TempDir(), "notes"))
	for range 10 {
		file := filepath.Join(t.TempDir(), "address.json")
		if err := os.WriteFile(file, []byte(`{"url":"nats://127.0.0.1:20001"}`), 0o600); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := n.add(file); err != nil {
				t.Fatal(err)
			}
		}
		links, err := n.list()
		if err != nil || len(links) != 1 {
			t.Errorf("noted are %v (%v), want one", links, err)
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
}

// TestNothingToKeep leaves no directory behind, and a file that is not there is an error.
func TestNothingToKeep(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "address.json")
	n := reservations(filepath.Join(t.TempDir(), "notes"))
	if err := n.add(file); err == nil {
		t.Error("a file that is not there named ports")
	}
	for _, text := range []string{`{"url":"https://127.0.0.1:6443"}`, ``, `{`, `:99999999999999999999`} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := n.add(file); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(string(n)); err == nil {
			t.Errorf("something was noted of %q", text)
		}
	}
}

// TestNotesOfOthers are neither read nor written: they may lead anywhere.
func TestNotesOfOthers(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "address.json")
	if err := os.WriteFile(file, []byte(`{"url":"https://127.0.0.1:20001"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	open := filepath.Join(t.TempDir(), "open")
	if err := errors.Join(os.Mkdir(open, 0o700), os.Symlink(file, filepath.Join(open, "a")), os.Chmod(open, 0o777)); err != nil { //nolint:gosec // what is not to be trusted
		t.Fatal(err)
	}
	led := filepath.Join(t.TempDir(), "led")
	if err := os.Symlink(t.TempDir(), led); err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{open, led, file} {
		if err := reservations(at).add(file); err == nil {
			t.Errorf("%s: a note was made", at)
		}
		if kept := reservations(at).ports(); len(kept) > 0 {
			t.Errorf("%s: kept are %v", at, kept)
		}
	}
}
