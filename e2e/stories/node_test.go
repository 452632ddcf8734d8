package stories

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/podfall/podfall/internal/fault"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto/kinds"
)

// create creates what the lines below describe: create, then YAML without a namespace, of a
// pod unless it says otherwise.
func (p *player) create(args arguments) string {
	var of metav1.TypeMeta
	if err := yaml.Unmarshal([]byte(args.body), &of); err != nil {
		p.t.Fatal(err)
	}
	switch of.Kind {
	case "ConfigMap":
		return p.put(args.body, "configmaps", &corev1.ConfigMap{})
	case "PersistentVolumeClaim":
		return p.put(args.body, "persistentvolumeclaims", &corev1.PersistentVolumeClaim{})
	}
	pod := &corev1.Pod{}
	if err := yaml.UnmarshalStrict([]byte(args.body), pod); err != nil {
		p.t.Fatal(err)
	}
	pod.Namespace = metav1.NamespaceDefault
	_, err := p.cluster.API().Create(p.ctx, p.target(pod.Name), pod, metav1.CreateOptions{})
	return p.answer(err)
}

// put creates an object of another kind, or replaces the one of its name.
func (p *player) put(body, resource string, obj kinds.Object) string {
	if err := yaml.UnmarshalStrict([]byte(body), obj); err != nil {
		p.t.Fatal(err)
	}
	kind, _ := kinds.ByResource(resource)
	obj.SetNamespace(metav1.NamespaceDefault)
	target := podapi.Target{Kind: kind, Namespace: metav1.NamespaceDefault}
	_, err := p.cluster.API().Create(p.ctx, target, obj, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		target.Name = obj.GetName()
		_, err = p.cluster.API().Update(p.ctx, target, obj, metav1.UpdateOptions{})
	}
	return p.answer(err)
}

// manifest writes a static pod's file: manifest node-1 web.yaml, then YAML; without lines
// below it removes the file.
func (p *player) manifest(args arguments) string {
	p.cluster.Manifest(args.name, args.word, args.body)
	return ""
}

// breaks makes something go wrong: break NAME point=P type=T [value=V] [message=M] [code=C]
// [delay=D] [pod=P] [node=N] [count=N]. mend NAME ends it.
func (p *player) breaks(args arguments) string {
	spec := fault.Spec{
		Point: fault.Point(args.named["point"]), Where: fault.Attributes{Pod: args.named["pod"], Node: args.named["node"]},
		Effect: fault.Effect{
			Kind: fault.Kind(args.named["type"]), Value: args.named["value"], Message: args.named["message"], Code: args.named["code"],
		},
		Count: uint64(args.number("count", 0)),
	}
	if delay := args.named["delay"]; delay != "" {
		d, err := time.ParseDuration(delay)
		if err != nil {
			p.t.Fatal(err)
		}
		spec.Effect.Delay = metav1.Duration{Duration: d}
	}
	p.cluster.Break(args.name, spec)
	return ""
}

func (p *player) mend(args arguments) string {
	p.cluster.Mend(args.name)
	return ""
}

// node prints what is not well with a node: node node-1.
func (p *player) node(args arguments) string { return p.cluster.NodeState(args.name) }

// show prints a pod's end: show NAME.
func (p *player) show(args arguments) string {
	obj, err := p.cluster.API().Get(p.ctx, p.target(args.name), metav1.GetOptions{})
	if err != nil {
		return p.answer(err)
	}
	pod, _ := obj.(*corev1.Pod)
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s: %s\n", pod.Status.Phase, pod.Status.Reason, masked(pod.Status.Message))
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.DisruptionTarget {
			fmt.Fprintf(&b, "%s=%s %s: %s\n", c.Type, c.Status, c.Reason, c.Message)
		}
	}
	for _, list := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for _, c := range list {
			fmt.Fprintf(&b, "%s restarts=%d %s", c.Name, c.RestartCount, masked(state(c.State)))
			if c.StopSignal != nil {
				fmt.Fprintf(&b, " by %s", *c.StopSignal)
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

// state is a container's, in words.
func state(s corev1.ContainerState) string {
	switch {
	case s.Running != nil:
		return "running"
	case s.Terminated != nil:
		return fmt.Sprintf("ended %d %s", s.Terminated.ExitCode, s.Terminated.Reason)
	case s.Waiting != nil:
		return strings.TrimSpace(fmt.Sprintf("waits %s: %s", s.Waiting.Reason, s.Waiting.Message))
	}
	return "nothing"
}
