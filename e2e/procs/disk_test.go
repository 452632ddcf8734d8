package procs

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto/kinds"
)

// noLimit removes a file size limit.
const noLimit = unix.RLIM_INFINITY

// limitFileSize limits the file size of a running process: the disk is full for that process only.
func limitFileSize(t *testing.T, pid int, size uint64) {
	t.Helper()
	limit := unix.Rlimit{Cur: size, Max: noLimit}
	if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, &limit, nil); err != nil {
		t.Fatal(err)
	}
}

func configMap(name string) podapi.Target {
	kind, _ := kinds.ByResource("configmaps")
	return podapi.Target{Kind: kind, Namespace: "default", Name: name}
}

// TestFullDiskUnderTheApiserver writes until the disk is full. Writers get errors, the apiserver
// exits with the reason, and everything acknowledged exists after a restart with space.
func TestFullDiskUnderTheApiserver(t *testing.T) {
	t.Parallel()
	c := up(t, "--nodes", "1")
	api := client{podapi.New(c.connect(), podapi.Config{Timeout: 10 * time.Second})}
	limitFileSize(t, c.pid("apiserver"), 8<<20)
	acknowledged, refused := fillDisk(t, api)
	if len(acknowledged) == 0 {
		t.Error("no write was acknowledged before the disk was full")
	}
	if text := fmt.Sprint(refused); !strings.Contains(text, "its disk did not take a commit") {
		t.Errorf("nobody was told why: %s", text)
	}
	for _, err := range refused {
		late := apierrors.IsTimeout(err) // the machine is busy
		if !apierrors.IsServiceUnavailable(err) && !late || !strings.Contains(err.Error(), "apiserver") {
			t.Errorf("a write that failed: %v, want 503 that says what of the apiserver", err)
		}
	}
	eventually(t, "the apiserver has ended", func() bool { return c.pid("apiserver") == 0 })
	c.wantExit("apiserver", "commit after revision", "file too large")

	c.must("up", "--detach", "--nodes", "1")
	patient := client{podapi.New(c.connect(), podapi.Config{Timeout: 2 * time.Minute})} // a timeout violates no invariant
	for name, uid := range acknowledged {
		kept, err := patient.Get(t.Context(), configMap(name), metav1.GetOptions{})
		if err != nil || string(kept.GetUID()) != uid {
			t.Errorf("broke A1: the create of %s was acknowledged, and now: %v", name, err)
		}
	}
	c.runPod("web", "on TERM exits 0 after 0s", 1)
	c.must("delete", "pod", "web")
}

// fillDisk creates large objects with several writers until each has failed. It returns the UIDs of
// the acknowledged objects, by name.
func fillDisk(t *testing.T, api client) (acknowledged map[string]string, refused []error) {
	t.Helper()
	const enough = 100 // objects of a quarter of a MiB
	acknowledged = map[string]string{}
	var mu sync.Mutex
	var writing sync.WaitGroup
	for writer := range 4 {
		writing.Go(func() {
			for number := range enough {
				name := fmt.Sprintf("large-%d-%d", writer, number)
				created, err := api.Create(t.Context(), configMap(name), &corev1.ConfigMap{
					ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
					BinaryData: map[string][]byte{"data": bytes.Repeat([]byte{byte(number)}, 1<<18)},
				}, metav1.CreateOptions{})
				mu.Lock()
				if err != nil {
					refused = append(refused, err)
				} else {
					acknowledged[name] = string(created.GetUID())
				}
				mu.Unlock()
				if err != nil {
					return
				}
			}
			t.Errorf("writer %d wrote %d objects on a full disk", writer, enough)
		})
	}
	writing.Wait()
	return acknowledged, refused
}

// TestFullDiskUnderARuntime leaves a runtime without disk space. The runtime refuses what it cannot
// record, with the reason, keeps running, and recovers when there is space.
func TestFullDiskUnderARuntime(t *testing.T) {
	t.Parallel()
	c := up(t, "--nodes", "1", "--kubelet-arg=--worker-backoff=1s")
	c.runPod("before", "ignores TERM", 1)
	runtime := c.pid("runtime/node-1")
	limitFileSize(t, runtime, 12<<10)
	c.apply(manifest("web", "on TERM exits 0 after 0s", 1))
	eventually(t, "an event says why the pod does not start", func() bool {
		return strings.Contains(c.must("events", "--for", "pod/web"), "file too large")
	})
	if now := c.pid("runtime/node-1"); now != runtime {
		t.Errorf("the runtime had pid %d and has %d: a full disk has ended it", runtime, now)
	}

	limitFileSize(t, runtime, noLimit)
	c.must("wait", "--for=condition=Ready", "pod/web", waitFlag)
	c.must("delete", "pod", "web", "before")
}

// wantExit checks that a process has exited with 1, and that its last log line contains the words.
func (c *cluster) wantExit(name string, words ...string) {
	c.t.Helper()
	log := strings.Split(strings.TrimSpace(c.readLog(strings.ReplaceAll(name, "/", "-"))), "\n")
	for _, word := range words {
		if last := log[len(log)-1]; !strings.Contains(last, word) {
			c.t.Errorf("the last words of %s are %q, want %q among them", name, last, word)
		}
	}
	eventually(c.t, "the supervisor says that "+name+" exited with 1", func() bool {
		return strings.Contains(c.readLog("supervisor"), name+" ended: exit status 1")
	})
}

// TestDamagedDatabase starts clusters with damaged databases. Each is refused with the kind and
// place of the damage, and left unchanged.
func TestDamagedDatabase(t *testing.T) {
	t.Parallel()
	c := up(t, "--nodes", "1")
	c.runPod("landmark", "ignores TERM", 1)
	c.must("down")
	for name, row := range map[string]struct {
		process, file string
		damage        func(t *testing.T, data []byte) []byte
		want          []string
	}{
		"a record":    {"apiserver", "apiserver/apiserver.db", flipBit("landmark"), []string{"is damaged: history: revision ", "checksum"}},
		"a page":      {"apiserver", "apiserver/apiserver.db", changePages(flipLast), []string{"is damaged: ", "page "}},
		"a meta page": {"apiserver", "apiserver/apiserver.db", flipByte(16 + 20), []string{"is damaged: page 0", "checksum"}},
		"cut short":   {"apiserver", "apiserver/apiserver.db", truncate, []string{"is damaged: the file", "cut short"}},
		"another version": {
			"apiserver", "apiserver/apiserver.db", setVersion("format", 7),
			[]string{"format version 7", "this podfall wants version 1"},
		},
		"a runtime's record": {"runtime/node-1", "nodes/node-1/runtime/runtime.db", flipBit("landmark"), []string{"is damaged: ", "checksum"}},
		"a runtime's page":   {"runtime/node-1", "nodes/node-1/runtime/runtime.db", changePages(flipLast), []string{"is damaged: ", "page "}},
		"a runtime's meta":   {"runtime/node-1", "nodes/node-1/runtime/runtime.db", flipByte(16 + 20), []string{"is damaged: page 0", "checksum"}},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(c.data, row.file)
			original, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			damaged := row.damage(t, slices.Clone(original))
			write(t, path, damaged)
			defer write(t, path, original)
			out := c.run("up", "--detach", "--nodes", "1")
			for _, want := range append(row.want, row.process+" ended before it was ready") {
				if out.code != 1 || !strings.Contains(out.stderr, want) {
					t.Errorf("up: exit %d, and does not say %q:\n%s", out.code, want, out.stderr)
				}
			}
			c.wantExit(row.process)
			if left := c.processes(); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
			if after, err := os.ReadFile(path); err != nil || sha256.Sum256(after) != sha256.Sum256(damaged) {
				t.Errorf("the file was changed, or is gone: %v", err)
			}
		})
	}
	c.must("up", "--detach", "--nodes", "1")
	c.must("delete", "pod", "landmark")
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// flipBit changes a bit at every occurrence of words.
func flipBit(words string) func(*testing.T, []byte) []byte {
	return func(t *testing.T, data []byte) []byte {
		t.Helper()
		flipped := bytes.ReplaceAll(data, []byte(words), append([]byte{words[0] ^ 1}, words[1:]...))
		if bytes.Equal(flipped, data) {
			t.Fatalf("%q is nowhere in the file", words)
		}
		return flipped
	}
}

// flipByte changes the byte at an offset.
func flipByte(offset int) func(*testing.T, []byte) []byte {
	return func(_ *testing.T, data []byte) []byte {
		data[offset] ^= 0x40
		return data
	}
}

// changePages changes the page number in the header of every page except the meta pages, because it
// cannot be told from outside which pages are in use.
func changePages(change func(header []byte)) func(*testing.T, []byte) []byte {
	return func(_ *testing.T, data []byte) []byte {
		size := os.Getpagesize()
		for offset := 2 * size; offset+size <= len(data); offset += size {
			if binary.NativeEndian.Uint64(data[offset:]) == uint64(offset/size) {
				change(data[offset:])
			}
		}
		return data
	}
}

func flipLast(header []byte) { header[0] ^= 0x80 }

// truncate keeps the first three pages.
func truncate(_ *testing.T, data []byte) []byte { return data[:3*os.Getpagesize()] }

// setVersion sets the file's format version: key, checksum and version, as in the store's schema.
func setVersion(key string, number uint64) func(*testing.T, []byte) []byte {
	return func(t *testing.T, data []byte) []byte {
		t.Helper()
		sealed := func(number uint64) []byte {
			payload := binary.BigEndian.AppendUint64(nil, number)
			sum := crc32.Checksum(append([]byte(key), payload...), crc32.MakeTable(crc32.Castagnoli))
			return append(binary.BigEndian.AppendUint32([]byte(key), sum), payload...)
		}
		changed := bytes.ReplaceAll(data, sealed(1), sealed(number))
		if bytes.Equal(changed, data) {
			t.Fatal("the file does not say that it is of version 1")
		}
		return changed
	}
}

// TestDatabaseInUse starts a second process on each database of a running cluster.
func TestDatabaseInUse(t *testing.T) {
	t.Parallel()
	c := up(t, "--nodes", "1")
	c.runPod("web", "ignores TERM", 1)
	pids := c.pids()
	keys, hub := c.hubAddress()
	for name, row := range map[string]struct {
		arguments []string
		want      string
	}{
		"apiserver": {
			[]string{"apiserver", "--bus", hub, "--keys", keys, "--data", filepath.Join(c.data, "apiserver")},
			"another process has the store open",
		},
		"runtime": {
			[]string{"runtime", "--node", "node-1", "--data", filepath.Join(c.data, "nodes", "node-1", "runtime")},
			"another runtime has the store open",
		},
	} {
		out := c.run(row.arguments...)
		if out.code != 1 || !strings.Contains(out.stderr, row.want) || !strings.Contains(out.stderr, ".db") {
			t.Errorf("a second %s: exit %d, %s, want %q and the file", name, out.code, out.stderr, row.want)
		}
	}
	c.samePIDs(pids)
	c.must("delete", "pod", "web")
}
