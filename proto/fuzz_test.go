package proto

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FuzzStreamFrame: a frame of exec, attach or port-forward comes apart as it was put
// together, and a status in it is read without trust.
func FuzzStreamFrame(f *testing.F) {
	f.Add(StreamFrame(ChannelStdin, []byte("ls\n")))
	f.Add(StatusFrame(ExitStatus(137)))
	f.Add(StatusFrame(&metav1.Status{Status: metav1.StatusFailure, Reason: ReasonNonZeroExitCode}))
	f.Fuzz(func(t *testing.T, frame []byte) {
		channel, data, err := ParseStreamFrame(frame)
		if (err == nil) != (len(frame) > 0) {
			t.Fatalf("%x: %v", frame, err)
		}
		if err != nil {
			return
		}
		if again := StreamFrame(channel, data); !bytes.Equal(again, frame) {
			t.Errorf("%x became %x", frame, again)
		}
		var status metav1.Status
		if json.Unmarshal(data, &status) != nil {
			return
		}
		if code, ok := ExitCode(&status); ok && (code < 0 || code > 255) {
			t.Errorf("exit code %d of %s", code, data)
		}
	})
}

// FuzzIdentity: a token is one identity's, and a subject of a process is that process's.
func FuzzIdentity(f *testing.F) {
	f.Fuzz(func(t *testing.T, text string) {
		if id, err := ParseIdentity(text); err == nil {
			again, err := ParseIdentity(id.Token())
			if err != nil || again != id {
				t.Errorf("%q is %q, whose token is %q: %q, %v", text, id, id.Token(), again, err)
			}
		}
		for _, subject := range []string{MgmtInspect(text), NodeSubject(text, "logs")} {
			if strings.Count(subject, ".") != strings.Count(MgmtInspect("x"), ".") && strings.HasPrefix(subject, RootMgmt) || strings.ContainsAny(subject, "*> \t\r\n\x00") {
				t.Errorf("%q is no plain subject", subject)
			}
		}
		if again, err := unescape(escape(text)); err != nil || again != text {
			t.Errorf("%q is escaped as %q, which is %q: %v", text, escape(text), again, err)
		}
	})
}

// FuzzScope: selectors in canonical form are selectors, in canonical form, of the same
// scope, so that watcher and apiserver meet on one subject.
func FuzzScope(f *testing.F) {
	f.Fuzz(func(t *testing.T, label, field string) {
		first, err := ScopeFor("pods", "default", &metav1.ListOptions{LabelSelector: label, FieldSelector: field})
		if err != nil {
			return
		}
		second, err := ScopeFor("pods", "default", &metav1.ListOptions{LabelSelector: first.LabelSelector, FieldSelector: first.FieldSelector})
		if err != nil || second != first {
			t.Errorf("%q, %q is %+v, and that is %+v (%v)", label, field, first, second, err)
		}
		if subject := WatchSubject("cluster", first); strings.ContainsAny(subject, "*> \t\r\n\x00") {
			t.Errorf("%q is no plain subject", subject)
		}
	})
}

// FuzzBoot: a valid boot holds its start time, and boots sort by their times.
func FuzzBoot(f *testing.F) {
	f.Fuzz(func(t *testing.T, text string, began int64, entropy uint32) {
		made := NewBoot(time.Unix(0, began), [4]byte(binary.BigEndian.AppendUint32(nil, entropy)))
		if !made.IsValid() {
			t.Errorf("%s is made and not valid", made)
		}
		boot := Boot(text)
		if !boot.IsValid() {
			return
		}
		var nanos uint64
		var rest uint32
		if _, err := fmt.Sscanf(text, "%016x-%08x", &nanos, &rest); err != nil {
			t.Fatalf("%q is valid, and cannot be read: %v", text, err)
		}
		if again := NewBoot(time.Unix(0, int64(nanos)), [4]byte(binary.BigEndian.AppendUint32(nil, rest))); again != boot {
			t.Errorf("%q is valid, and made again it is %q", text, again)
		}
		if began >= 0 && nanos <= math.MaxInt64 && nanos != uint64(began) && made.OlderThan(boot) != (uint64(began) < nanos) {
			t.Errorf("%s is older than %s: %v", made, boot, made.OlderThan(boot))
		}
	})
}
