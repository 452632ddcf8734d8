package client_test

import (
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/client/fake"
)

// set reads one line of a transcript that sets the cluster up: a word that says what,
// a name, and key=value pairs.
//
//	pod web-0 ns=other node=n1 phase=Running age=42h label.app=x stays gone=2s …
//	(in values, \n, \t, \e and \u202e stand for the characters)
//	node n1, namespace x, deployment d, event e reason=Killing …
//	compat v1.22, stdin TEXT (with \n), offline, tty, refuse VERB REASON, logs TEXT
//	process CODE TEXT (exec and attach: what it writes, after what it has read, and how
//	it ends), process {a Status} (a refusal), terminal (at standard input)
//	remove pod web-0, close (ends watches), tell (an ERROR to watchers)
//	after 5s …: any of these, while the commands that follow run
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
	case "deployment":
		o := options(fields[1:])
		meta := objectMeta(fields[0], o)
		meta.Namespace = or(o["ns"], "default")
		s.cluster.Put(&appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Replicas: new(int32(2))}})
	case "event":
		s.cluster.Put(event(fields[0], options(fields[1:])))
	case "after":
		after, change, _ := strings.Cut(rest, " ")
		s.script = append(s.script, scripted{time.Now().Add(duration(after)), change})
	case "remove":
		kind, ok := kinds.ByAlias(fields[0])
		if !ok {
			s.Fatalf("setup %q: no such kind", line)
		}
		s.cluster.Remove(podapi.Target{Kind: kind, Namespace: "default", Name: fields[1]})
	case "tell":
		status := apierrors.NewResourceExpired("too old resource version: 5 (7)").Status()
		s.cluster.Tell(watch.Event{Type: watch.Error, Object: &status})
	case "close":
		s.cluster.EndWatches()
	case "compat":
		compat, err := proto.CompatFor(fields[0])
		if err != nil {
			s.Fatal(err)
		}
		s.compat = compat
	case "stdin":
		s.stdin = strings.ReplaceAll(rest, `\n`, "\n")
	case "logs":
		s.logs.Store(strings.ReplaceAll(rest, `\n`, "\n"))
	case "process":
		s.process.text = strings.ReplaceAll(rest, `\n`, "\n")
	case "terminal":
		s.terminal = true
	case "tty":
		s.tty = true
	case "offline":
		s.offline = true
	case "refuse":
		s.refuse(fields[0], fields[1])
	default:
		s.Fatalf("setup %q: what is a %s?", line, word)
	}
}

// scripted is a change that comes later.
type scripted struct {
	at     time.Time
	change string
}

// play begins to carry out the script, in its order.
func (s *stage) play() {
	script := s.script
	s.script = nil
	s.later.Go(func() {
		for _, step := range script {
			time.Sleep(time.Until(step.at))
			s.set(step.change)
		}
	})
}

func (s *stage) refuse(verb, reason string) {
	s.cluster.Refuse = func(asked string, t podapi.Target) error {
		if asked != verb {
			return nil
		}
		resource := t.Kind.GroupResource()
		switch reason {
		case "missing":
			return apierrors.NewNotFound(resource, t.Name)
		case "forbidden":
			return apierrors.NewForbidden(resource, t.Name, nil)
		case "unsupported":
			return apierrors.NewMethodNotSupported(resource, strings.ToLower(verb))
		case "conflict":
			return apierrors.NewConflict(schema.GroupResource{Resource: "Pod"}, t.Name, textError("the UID in the precondition (A) does not match the UID in record (B). The object might have been deleted and then recreated"))
		default:
			return apierrors.NewInternalError(textError("it is broken"))
		}
	}
}

type textError string

func (e textError) Error() string { return string(e) }

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
	if gone, ok := o["gone"]; ok {
		meta.Annotations = map[string]string{fake.Gone: gone}
	}
	if _, ok := o["stays"]; ok {
		meta.Annotations = map[string]string{fake.Stays: ""}
	}
	if _, ok := o["replaced"]; ok {
		meta.Annotations = map[string]string{fake.Replaced: ""}
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
	if n, err := strconv.Atoi(o["restarts"]); err == nil {
		status.RestartCount = int32(n)
		status.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
			FinishedAt: metav1.NewTime(time.Now().Add(-duration(o["restarted"]))),
		}
	}
	if _, bare := o["bare"]; !bare {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{status}
	}
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
