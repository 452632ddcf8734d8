// Package oracle plays pods that a real kubelet v1.37.2 was given, and compares the statuses that a
// watcher saw there with those of a cluster in virtual time. Each file of testdata is the recorded
// sequence, one status a line: the phase, the conditions, the containers, and the grace once the pod is
// marked. The kubelet's ticks are upstream's.
package oracle

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/yaml"

	"github.com/podfall/podfall/e2e/stage"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto/kinds"
)

// recorded is a case: the pod's spec, what its containers do, and how long it is left alone before it is
// deleted. Ends of containers avoid the instants at which the kubelet looks.
type recorded struct {
	spec    string
	scripts map[string]string
	lasts   time.Duration
}

const simple = "containers: [{name: main, image: x}]"

func cases() map[string]recorded {
	does := func(script string) map[string]string { return map[string]string{"main": script} }
	return map[string]recorded{
		"del-exit0":       {simple, does("on TERM exits 0 after 2300ms"), 4 * time.Second},
		"kill-137":        {simple + "\nterminationGracePeriodSeconds: 2", does("ignores TERM"), 4 * time.Second},
		"never-exit0":     {simple + "\nrestartPolicy: Never", does("exits 0 after 1300ms"), 6 * time.Second},
		"never-exit5":     {simple + "\nrestartPolicy: Never", does("exits 5 after 1300ms"), 6 * time.Second},
		"onfailure-exit0": {simple + "\nrestartPolicy: OnFailure", does("exits 0 after 1300ms"), 6 * time.Second},
		"del-init-running": {
			"initContainers: [{name: setup, image: x}]\n" + simple, map[string]string{"setup": "on TERM exits 0 after 1300ms"}, 4 * time.Second,
		},
		"init-ok": {
			"initContainers: [{name: one, image: x}, {name: two, image: x}]\n" + simple,
			map[string]string{"one": "exits 0 after 1300ms", "two": "exits 0 after 1300ms"}, 12 * time.Second,
		},
		"init-fails-never": {
			"initContainers: [{name: setup, image: x}]\nrestartPolicy: Never\n" + simple, map[string]string{"setup": "exits 7 after 1300ms"}, 6 * time.Second,
		},
		"sidecars": {
			"initContainers: [{name: s1, image: x, restartPolicy: Always}, {name: setup, image: x}, {name: s2, image: x, restartPolicy: Always}]\n" + simple,
			map[string]string{
				"s1": "on TERM exits 0 after 1300ms", "setup": "exits 0 after 1300ms", "s2": "on TERM exits 5 after 1300ms", "main": "on TERM exits 0 after 2300ms",
			}, 15 * time.Second,
		},
		"restart-rules": {`restartPolicy: Never
containers:
- name: main
  image: x
  restartPolicy: Never
  restartPolicyRules: [{action: Restart, exitCodes: {operator: In, values: [42]}}]
`, does("exits 42 after 1300ms"), 7 * time.Second},
		"del-crashloop": {simple, does("exits 3 after 1300ms"), time.Minute}, // between the third and the fourth restart
		"two-containers": {
			"containers: [{name: main, image: x}, {name: side, image: x}]",
			map[string]string{"main": "on TERM exits 0 after 1300ms", "side": "on TERM exits 2 after 3300ms"}, 4 * time.Second,
		},
	}
}

// TestRecordings compares whole sequences of statuses. Changes that show in nothing that is compared,
// such as status.resources, are left out on both sides.
func TestRecordings(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) != len(cases()) {
		t.Fatalf("%d cases, %d recordings: %v", len(cases()), len(files), err)
	}
	for name, c := range cases() {
		t.Run(name, func(t *testing.T) {
			want, err := os.ReadFile(filepath.Join("testdata", name+".txt"))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			synctest.Test(t, func(t *testing.T) { got = play(t, c) })
			if text := strings.Join(got, "\n") + "\n"; text != string(want) {
				t.Errorf("the statuses are\n%s\na real kubelet's were\n%s", text, want)
			}
		})
	}
}

// play is what a watcher sees of the pod from its first status of a kubelet on.
func play(t *testing.T, c recorded) []string {
	cluster := stage.New(t, stage.Config{Nodes: 1})
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	kind, _ := kinds.ByResource("pods")
	target := podapi.Target{Kind: kind, Namespace: "default"}
	list, err := cluster.API().List(ctx, target, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	stream, err := cluster.API().Watch(ctx, target, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Stop()
	var seen []string
	watching.Go(func() {
		for event := range stream.ResultChan() {
			pod, is := event.Object.(*corev1.Pod)
			if !is || event.Type == watch.Deleted || pod.Status.StartTime == nil {
				continue
			}
			if line := spell(pod); len(seen) == 0 || seen[len(seen)-1] != line {
				seen = append(seen, line)
			}
		}
	})
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Annotations: map[string]string{}}}
	if err := yaml.Unmarshal([]byte(c.spec), &pod.Spec); err != nil {
		t.Fatal(err)
	}
	for name, script := range c.scripts {
		pod.Annotations["script.podfall.io/"+name] = script
	}
	if _, err := cluster.API().Create(ctx, target, pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(c.lasts)
	target.Name = "web"
	if _, err := cluster.API().Delete(ctx, target, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	gone := func() bool {
		_, err := cluster.API().Get(ctx, target, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	}
	for limit := time.Now().Add(2 * time.Minute); !gone(); time.Sleep(time.Second) {
		if time.Now().After(limit) {
			t.Fatal("it is never gone")
		}
	}
	cluster.Settle()
	return slices.Clone(seen)
}

// spell is a status in one line.
func spell(pod *corev1.Pod) string {
	words := []string{string(pod.Status.Phase)}
	for _, row := range []struct {
		name string
		kind corev1.PodConditionType
	}{{"Ready", corev1.PodReady}, {"Initialized", corev1.PodInitialized}, {"Sandbox", corev1.PodReadyToStartContainers}} {
		for _, c := range pod.Status.Conditions {
			if c.Type != row.kind {
				continue
			}
			word := row.name + "=" + string(c.Status)
			if c.Reason != "" {
				word += ":" + c.Reason
			}
			words = append(words, word)
		}
	}
	byName := func(a, b corev1.ContainerStatus) int { return strings.Compare(a.Name, b.Name) }
	for _, list := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for _, c := range slices.SortedFunc(slices.Values(list), byName) {
			words = append(words, container(c))
		}
	}
	if pod.DeletionGracePeriodSeconds != nil {
		words = append(words, fmt.Sprintf("grace=%d", *pod.DeletionGracePeriodSeconds))
	}
	return strings.Join(words, ", ")
}

func container(c corev1.ContainerStatus) string {
	word := c.Name + "="
	switch {
	case c.State.Running != nil:
		word += "running"
	case c.State.Terminated != nil:
		word += fmt.Sprintf("ended:%d:%s", c.State.Terminated.ExitCode, c.State.Terminated.Reason)
	case c.State.Waiting != nil:
		word += "waiting:" + c.State.Waiting.Reason
	}
	if c.Ready {
		word += " ready"
	}
	if c.RestartCount > 0 {
		word += fmt.Sprintf(" x%d", c.RestartCount)
	}
	return word
}
