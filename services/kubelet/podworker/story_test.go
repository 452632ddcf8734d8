package podworker

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var update = flag.Bool("update", false, "write what the stories' machines do anew")

// TestStories plays the files of testdata: commands, a line of dashes, and what the
// machine wants done and where it is then. `go test -update` writes the answers anew.
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := playStory(t, string(text))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if got != string(text) {
				t.Errorf("the story goes\n%s\nnot\n%s", got, text)
			}
		})
	}
}

// playStory answers each block of commands anew and leaves comments as they are.
func playStory(t *testing.T, text string) string {
	var m Machine
	var out strings.Builder
	for block := range strings.SplitSeq(strings.TrimRight(text, "\n")+"\n", "\n\n") {
		commands, _, _ := strings.Cut(block, "\n----")
		commands = strings.TrimRight(commands, "\n")
		if out.Len() > 0 {
			out.WriteString("\n")
		}
		out.WriteString(commands + "\n")
		var wants []string
		played := false
		for command := range strings.SplitSeq(commands, "\n") {
			if strings.HasPrefix(command, "#") || command == "" {
				continue
			}
			played = true
			var actions []Action
			m, actions = m.Step(parseEvent(t, command))
			for _, a := range actions {
				wants = append(wants, describeAction(a))
			}
		}
		if !played {
			continue
		}
		out.WriteString("----\n")
		for _, want := range wants {
			out.WriteString("  " + want + "\n")
		}
		fmt.Fprintf(&out, "%s%s\n", m.State(), describeMachine(m))
	}
	return out.String()
}

func describeMachine(m Machine) string {
	text := ""
	if m.Grace() > 0 {
		text += fmt.Sprintf(" grace=%d", m.Grace())
	}
	if m.busy {
		text += " busy"
	}
	if m.pending {
		text += " pending"
	}
	if m.Restart() {
		text += " restart"
	}
	return text
}

func describeAction(a Action) string {
	switch a := a.(type) {
	case Sync:
		return "sync"
	case Stop:
		if !a.Known {
			return fmt.Sprintf("stop grace=%d, report nothing", a.Grace)
		}
		return fmt.Sprintf("stop grace=%d", a.Grace)
	case ReportEnd:
		return "report end"
	case Clean:
		return "clean"
	case Confirm:
		return "confirm"
	case Interrupt:
		return "interrupt"
	case Again:
		switch {
		case a.After > 0:
			return "again after " + a.After.String()
		case a.Failed:
			return "again after the back-off"
		}
		return "again at the resync"
	}
	return fmt.Sprintf("%T", a)
}

// parseEvent reads a command: an event's name and options, such as "seen grace=5 idle".
func parseEvent(t *testing.T, command string) Event {
	name, rest, _ := strings.Cut(command, " ")
	options := map[string]string{}
	for option := range strings.FieldsSeq(rest) {
		key, value, _ := strings.Cut(option, "=")
		options[key] = value
	}
	number := func(key string) *int64 {
		if value, ok := options[key]; ok {
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				t.Fatalf("%s: %v", command, err)
			}
			return &n
		}
		return nil
	}
	var err error
	if text, ok := options["err"]; ok {
		err = errors.New(text)
	}
	_, idle := options["idle"]
	_, over := options["ended"]
	switch name {
	case "seen":
		return Seen{Pod: storyPod(options, number("tgps"), number("dgps")), Idle: idle}
	case "removed":
		return Removed{}
	case "kill":
		return Kill{Grace: number("grace"), Cause: &Cause{Reason: "Evicted"}}
	case "orphan":
		return Orphan{Pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u"}}}
	case "changed":
		return Changed{}
	case "due":
		return Due{}
	case "synced":
		after, _ := time.ParseDuration(options["after"])
		return Synced{Ended: over, After: after, Err: err}
	case "ended":
		return Ended{err}
	case "cleaned":
		return Cleaned{err}
	case "forget":
		return Forget{}
	}
	t.Fatalf("unknown command %q", command)
	return nil
}

// storyPod has a grace of 30 unless tgps says otherwise, and is deleted if dgps is set.
func storyPod(options map[string]string, tgps, dgps *int64) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "u"}}
	pod.Spec.TerminationGracePeriodSeconds = new(int64(30))
	if tgps != nil {
		pod.Spec.TerminationGracePeriodSeconds = tgps
	}
	if dgps != nil {
		pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Unix(1e9, 0)}, dgps
	}
	pod.Status.Phase = corev1.PodPhase(options["phase"])
	return pod
}
