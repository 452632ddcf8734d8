package proto

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FuzzStreamFrame: a frame of exec, attach or port-forward comes apart as it was put
// together, and a status in it is read without trust.
func FuzzStreamFrame(f *testing.F) {
	f.Add(StreamFrame(ChannelStdin, []byte("ls\n")))
	f.Add(StatusFrame(ExitStatus(137)))
	f.Add(StatusFrame(&metav1.Status{Status: metav1.StatusFailure, Reason: ReasonNonZeroExitCode}))
	f.Add([]byte{})
	f.Add([]byte{0xff})
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
	f.Add("node:node-1")
	f.Add("client:admin@example.com")
	f.Add("mgmt:kubelet/node-1")
	f.Add("_")
	f.Add("%5F")
	f.Add("a.*.>")
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
	f.Add("app=web,tier in (a,b)", "spec.nodeName=n1")
	f.Add("!a,b notin (c,),d", "metadata.name!=a,b=c")
	f.Add("a>5", `a=b\,c`)
	f.Add("a in (", "=")
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
