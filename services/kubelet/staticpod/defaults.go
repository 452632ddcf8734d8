package staticpod

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// The defaults that the API gives a pod and a kubelet relies on.
const defaultGrace int64 = 30

// setDefaults sets what the API would default: a static pod never passes through the API.
func setDefaults(spec *corev1.PodSpec) {
	setDefault(&spec.RestartPolicy, corev1.RestartPolicyAlways)
	setDefault(&spec.DNSPolicy, corev1.DNSClusterFirst)
	setDefault(&spec.SchedulerName, corev1.DefaultSchedulerName)
	if spec.TerminationGracePeriodSeconds == nil {
		spec.TerminationGracePeriodSeconds = new(defaultGrace)
	}
	if spec.Priority == nil {
		spec.Priority = priorityOf(spec.PriorityClassName)
	}
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			setContainerDefaults(&containers[i])
		}
	}
}

// priorityOf returns the priority of the two classes that every cluster has: static pods are not
// looked up in the API.
func priorityOf(class string) *int32 {
	switch class {
	case "system-node-critical":
		return new(int32(2_000_001_000))
	case "system-cluster-critical":
		return new(int32(2_000_000_000))
	}
	return nil
}

func setContainerDefaults(c *corev1.Container) {
	setDefault(&c.ImagePullPolicy, pullPolicy(c.Image))
	setDefault(&c.TerminationMessagePath, corev1.TerminationMessagePathDefault)
	setDefault(&c.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
	for i := range c.Ports {
		setDefault(&c.Ports[i].Protocol, corev1.ProtocolTCP)
	}
	for _, probe := range []*corev1.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
		if probe != nil {
			setProbeDefaults(probe)
		}
	}
	if c.Resources.Requests == nil && len(c.Resources.Limits) > 0 {
		c.Resources.Requests = c.Resources.Limits.DeepCopy()
	}
}

func setProbeDefaults(p *corev1.Probe) {
	setDefault(&p.TimeoutSeconds, 1)
	setDefault(&p.PeriodSeconds, 10)
	setDefault(&p.SuccessThreshold, 1)
	setDefault(&p.FailureThreshold, 3)
	if p.HTTPGet != nil {
		setDefault(&p.HTTPGet.Path, "/")
		setDefault(&p.HTTPGet.Scheme, corev1.URISchemeHTTP)
	}
}

// pullPolicy returns the default policy: Always for the tag latest, which an image without a tag
// has.
func pullPolicy(image string) corev1.PullPolicy {
	name, _, digested := strings.Cut(image, "@")
	colon := strings.LastIndexByte(name, ':')
	tagged := colon > strings.LastIndexByte(name, '/')
	if !digested && (!tagged || name[colon+1:] == "latest") {
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
