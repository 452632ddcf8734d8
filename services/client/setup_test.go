package client_test

import (
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/proto"
)

// set reads one line of a transcript that sets the cluster up: a word that says what,
// a name, and key=value pairs.
//
//	pod web-0 ns=other node=n1 phase=Running age=42h finalizer=x stuck=20s …
//	(in values, \n, \t, \e and \u202e stand for the characters)
//	node n1, namespace x, event e reason=Killing …, compat v1.22, offline,
//	pass 80s (in the bubble)
func (s *stage) set(line string) {
	word, rest, _ := strings.Cut(line, " ")
	fields := split(rest)
	switch word {
	case "pod":
		s.cluster.Put(pod(fields[0], options(fields[1:])))
	case "node":
		s.cluster.Put(node(fields[0], options(fields[1:])))
	case "namespace":
		s.cluster.Put(&corev1.Namespace{ObjectMeta: objectMeta(fields[0], options(fields[1:]))})
	case "event":
		s.cluster.Put(event(fields[0], options(fields[1:])))
	case "compat":
		compat, err := proto.CompatFor(fields[0])
		if err != nil {
			s.Fatal(err)
		}
		s.compat = compat
	case "pass":
		time.Sleep(duration(fields[0]))
	case "offline":
		s.offline = true
	default:
		s.Fatalf("setup %q: what is a %s?", line, word)
	}
}

func options(fields []string) map[string]string {
	set := map[string]string{}
	for _, field := range fields {
		name, value, _ := strings.Cut(field, "=")
		set[name] = strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\e`, "\x1b", `\u202e`, "\u202e").Replace(value)
	}
	return set
}

func duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0
	}
	return d
}

func objectMeta(name string, o map[string]string) metav1.ObjectMeta {
	meta := metav1.ObjectMeta{
		Name: name, UID: types.UID(o["uid"]),
		CreationTimestamp: metav1.NewTime(time.Now().Add(-duration(o["age"]))),
	}
	for key, value := range o {
		if label, ok := strings.CutPrefix(key, "label."); ok {
			metav1.SetMetaDataLabel(&meta, label, value)
		}
		if annotation, ok := strings.CutPrefix(key, "annotation."); ok {
			metav1.SetMetaDataAnnotation(&meta, annotation, value)
		}
	}
	return meta
}

// pod is a pod of one container on node n1 that is running, unless o says otherwise.
func pod(name string, o map[string]string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: objectMeta(name, o)}
	p.Namespace = or(o["ns"], "default")
	p.Generation = 1
	p.Spec.NodeName = or(o["node"], "n1")
	if p.Spec.NodeName == "none" {
		p.Spec.NodeName = ""
	}
	p.Spec.Containers = []corev1.Container{{
		Name: "app", Image: "nginx:1.27",
		Resources: corev1.ResourceRequirements{Requests: quantities("cpu", "100m")},
	}}
	p.Status.Phase = corev1.PodPhase(or(o["phase"], "Running"))
	p.Status.Message, p.Status.Reason = o["message"], o["reason"]
	p.Status.PodIP = "10.0.0.7"
	p.Status.PodIPs = []corev1.PodIP{{IP: "10.0.0.7"}}
	status := corev1.ContainerStatus{Name: "app", Image: "nginx:1.27"}
	switch p.Status.Phase {
	case corev1.PodRunning:
		status.Ready = o["unready"] == ""
		status.State.Running = &corev1.ContainerStateRunning{StartedAt: p.CreationTimestamp}
	case corev1.PodSucceeded:
		status.State.Terminated = &corev1.ContainerStateTerminated{Reason: "Completed"}
	case corev1.PodFailed:
		status.State.Terminated = &corev1.ContainerStateTerminated{Reason: "Error", ExitCode: 137}
	case corev1.PodPending, corev1.PodUnknown:
		status.State.Waiting = &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}
	}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{status}
	ready := corev1.ConditionFalse
	if status.Ready {
		ready = corev1.ConditionTrue
	}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
	if grace, ok := o["deleting"]; ok {
		d := duration(grace)
		p.DeletionTimestamp = new(metav1.NewTime(time.Now().Add(d)))
		p.DeletionGracePeriodSeconds = new(int64(d / time.Second))
	}
	if since, ok := o["stuck"]; ok { // its node is done with it
		p.DeletionTimestamp = new(metav1.NewTime(time.Now().Add(-duration(since))))
		p.DeletionGracePeriodSeconds = new(int64(0))
	}
	if finalizer, ok := o["finalizer"]; ok {
		p.Finalizers = []string{finalizer}
	}
	return p
}

// quantities are names and amounts in turn.
func quantities(pairs ...string) corev1.ResourceList {
	list := make(corev1.ResourceList)
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

func node(name string, o map[string]string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: objectMeta(name, o)}
	n.Status.NodeInfo.KubeletVersion = "v1.37.0"
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionStatus(or(o["ready"], "True")), Reason: "KubeletReady"}}
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.168.0.1"}}
	n.Status.Allocatable = quantities("cpu", "4", "memory", "8Gi", "pods", "110")
	n.Status.Capacity = n.Status.Allocatable
	_, n.Spec.Unschedulable = o["cordoned"]
	return n
}

func event(name string, o map[string]string) *corev1.Event {
	seen := metav1.NewTime(time.Now().Add(-duration(o["age"])))
	e := &corev1.Event{
		ObjectMeta:     objectMeta(name, nil),
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: or(o["kind"], "Pod"), Namespace: or(o["ns"], "default"), Name: o["for"], UID: types.UID(o["foruid"])},
		Type:           or(o["type"], "Normal"),
		Reason:         o["reason"],
		Message:        o["message"],
		FirstTimestamp: seen,
		LastTimestamp:  seen,
		Count:          1,
		Source:         corev1.EventSource{Component: "kubelet"},
	}
	e.Namespace = or(o["ns"], "default")
	if n, err := strconv.Atoi(o["count"]); err == nil {
		e.Count = int32(n)
		e.FirstTimestamp = metav1.NewTime(seen.Add(-time.Minute))
	}
	return e
}
