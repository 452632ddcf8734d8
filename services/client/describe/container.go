package describe

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// sortedBy is a sorted copy.
func sortedBy[T any](items []T, key func(T) string) []T {
	sorted := slices.Clone(items)
	slices.SortStableFunc(sorted, func(a, b T) int { return cmp.Compare(key(a), key(b)) })
	return sorted
}

func (p *page) containers(heading string, containers []corev1.Container, statuses []corev1.ContainerStatus, pod *corev1.Pod) {
	if len(containers) == 0 {
		p.line(0, "%s: %s", heading, none)
		return
	}
	p.line(0, "%s:", heading)
	for _, c := range containers {
		i := slices.IndexFunc(statuses, func(s corev1.ContainerStatus) bool { return s.Name == c.Name })
		var status *corev1.ContainerStatus
		if i >= 0 {
			status = &statuses[i]
		}
		p.container(c, status, pod)
	}
}

func (p *page) container(c corev1.Container, status *corev1.ContainerStatus, pod *corev1.Pod) {
	p.line(1, "%s:", c.Name)
	if status != nil {
		p.field(2, "Container ID", status.ContainerID)
	}
	p.field(2, "Image", c.Image)
	if status != nil {
		p.field(2, "Image ID", status.ImageID)
	}
	p.ports("Port", c.Ports, func(port corev1.ContainerPort) int32 { return port.ContainerPort })
	p.ports("Host Port", c.Ports, func(port corev1.ContainerPort) int32 { return port.HostPort })
	if c.SecurityContext != nil {
		p.seccomp(2, 3, c.SecurityContext.SeccompProfile)
	}
	p.block(2, "Command", c.Command)
	p.block(2, "Args", c.Args)
	if status != nil {
		p.state("State", status.State)
		if status.LastTerminationState.Terminated != nil {
			p.state("Last State", status.LastTerminationState)
		}
		p.field(2, "Ready", map[bool]string{true: "True", false: "False"}[status.Ready])
		p.field(2, "Restart Count", status.RestartCount)
	}
	p.resources(2, &c.Resources)
	p.probe("Liveness", c.LivenessProbe)
	p.probe("Readiness", c.ReadinessProbe)
	p.probe("Startup", c.StartupProbe)
	p.environment(c, pod)
	p.mounts(c)
}

// ports writes one line; its name is in the plural when there is more than one.
func (p *page) ports(name string, ports []corev1.ContainerPort, number func(corev1.ContainerPort) int32) {
	texts := make([]string, len(ports))
	for i, port := range ports {
		texts[i] = fmt.Sprintf("%d/%s", number(port), port.Protocol)
		if port.Name != "" {
			texts[i] += " (" + port.Name + ")"
		}
	}
	if len(ports) > 1 {
		name += "s"
	}
	p.field(2, name, orNone(strings.Join(texts, ", ")))
}

func (p *page) state(name string, state corev1.ContainerState) {
	switch {
	case state.Running != nil:
		p.field(2, name, "Running")
		p.field(3, "Started", stamp(state.Running.StartedAt))
	case state.Terminated != nil:
		ended := state.Terminated
		p.field(2, name, "Terminated")
		p.optional(3, "Reason", ended.Reason)
		p.optional(3, "Message", ended.Message)
		p.field(3, "Exit Code", ended.ExitCode)
		if ended.Signal > 0 {
			p.field(3, "Signal", ended.Signal)
		}
		p.field(3, "Started", stamp(ended.StartedAt))
		p.field(3, "Finished", stamp(ended.FinishedAt))
	default:
		p.field(2, name, "Waiting")
		if state.Waiting != nil {
			p.optional(3, "Reason", state.Waiting.Reason)
		}
	}
}

func (p *page) resources(depth int, resources *corev1.ResourceRequirements) {
	for _, part := range []struct {
		name string
		list corev1.ResourceList
	}{{"Limits", resources.Limits}, {"Requests", resources.Requests}} {
		if len(part.list) > 0 {
			p.line(depth, "%s:", part.name)
		}
		for _, name := range resourceNames(part.list) {
			quantity := part.list[name]
			p.field(depth+1, string(name), quantity.String())
		}
	}
}

func resourceNames(list corev1.ResourceList) []corev1.ResourceName {
	names := make([]corev1.ResourceName, 0, len(list))
	for name := range list {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (p *page) probe(name string, probe *corev1.Probe) {
	if probe == nil {
		return
	}
	timing := fmt.Sprintf("delay=%ds timeout=%ds period=%ds successThreshold=%d failureThreshold=%d",
		probe.InitialDelaySeconds, probe.TimeoutSeconds, probe.PeriodSeconds, probe.SuccessThreshold, probe.FailureThreshold)
	p.field(2, name, probeAction(probe.ProbeHandler)+" "+timing)
}

func probeAction(action corev1.ProbeHandler) string {
	switch {
	case action.Exec != nil:
		return fmt.Sprintf("exec %v", action.Exec.Command)
	case action.HTTPGet != nil:
		get := action.HTTPGet
		where := url.URL{Scheme: strings.ToLower(string(get.Scheme)), Host: get.Host, Path: get.Path}
		if port := get.Port.String(); port != "" {
			where.Host = net.JoinHostPort(get.Host, port)
		}
		return "http-get " + where.String()
	case action.TCPSocket != nil:
		return fmt.Sprintf("tcp-socket %s:%s", action.TCPSocket.Host, action.TCPSocket.Port.String())
	case action.GRPC != nil:
		service := ""
		if action.GRPC.Service != nil {
			service = *action.GRPC.Service
		}
		return fmt.Sprintf("grpc <pod>:%d %s", action.GRPC.Port, service)
	default:
		return "unknown"
	}
}

func (p *page) environment(c corev1.Container, pod *corev1.Pod) {
	if len(c.EnvFrom) > 0 {
		p.line(2, "Environment Variables from:")
		for _, from := range c.EnvFrom {
			p.environmentFrom(from)
		}
	}
	if len(c.Env) == 0 {
		p.field(2, "Environment", none)
		return
	}
	p.line(2, "Environment:")
	for _, variable := range c.Env {
		p.variable(variable, c, pod)
	}
}

func (p *page) environmentFrom(from corev1.EnvFromSource) {
	name, kind, optional := "", "ConfigMap", false
	switch {
	case from.ConfigMapRef != nil:
		name, optional = from.ConfigMapRef.Name, isTrue(from.ConfigMapRef.Optional)
	case from.SecretRef != nil:
		name, kind, optional = from.SecretRef.Name, "Secret", isTrue(from.SecretRef.Optional)
	}
	prefix := ""
	if from.Prefix != "" {
		prefix = fmt.Sprintf(" with prefix '%s'", from.Prefix)
	}
	p.line(3, "%s\t%s%s\tOptional: %t", name, kind, prefix, optional)
}

func isTrue(p *bool) bool { return p != nil && *p }

// variable writes one variable; a value of several lines is indented under its name.
func (p *page) variable(variable corev1.EnvVar, c corev1.Container, pod *corev1.Pod) {
	from := variable.ValueFrom
	switch {
	case from == nil:
		for i, line := range strings.Split(variable.Value, "\n") {
			if i == 0 {
				p.line(3, "%s:\t%s", variable.Name, line)
			} else {
				p.line(3, "\t%s", line)
			}
		}
	case from.FieldRef != nil:
		p.line(3, "%s:\t%s (%s:%s)", variable.Name, fieldValue(pod, from.FieldRef.FieldPath), from.FieldRef.APIVersion, from.FieldRef.FieldPath)
	case from.ResourceFieldRef != nil:
		p.line(3, "%s:\t%s (%s)", variable.Name, resourceValue(c, from.ResourceFieldRef), from.ResourceFieldRef.Resource)
	case from.SecretKeyRef != nil:
		ref := from.SecretKeyRef
		p.line(3, "%s:\t<set to the key '%s' in secret '%s'>\tOptional: %t", variable.Name, ref.Key, ref.Name, isTrue(ref.Optional))
	case from.ConfigMapKeyRef != nil:
		ref := from.ConfigMapKeyRef
		p.line(3, "%s:\t<set to the key '%s' of config map '%s'>\tOptional: %t", variable.Name, ref.Key, ref.Name, isTrue(ref.Optional))
	}
}

// fieldValue is what the downward API gives for a pod's field, as far as the API object
// holds it.
func fieldValue(pod *corev1.Pod, path string) string {
	switch path {
	case "metadata.name":
		return pod.Name
	case "metadata.namespace":
		return pod.Namespace
	case "metadata.uid":
		return string(pod.UID)
	default:
		return ""
	}
}

// resourceValue is what the downward API gives for a container's resource: a whole
// number of the divisor, rounded up.
func resourceValue(c corev1.Container, ref *corev1.ResourceFieldSelector) string {
	part, name, _ := strings.Cut(ref.Resource, ".")
	list := c.Resources.Requests
	if part == "limits" {
		list = c.Resources.Limits
	}
	quantity, divisor := list[corev1.ResourceName(name)], ref.Divisor
	if quantity.IsZero() && part == "limits" && (name == "cpu" || name == "memory") {
		return "node allocatable"
	}
	if divisor.IsZero() {
		divisor = resource.MustParse("1")
	}
	if name == "cpu" {
		return fmt.Sprint((quantity.MilliValue() + divisor.MilliValue() - 1) / divisor.MilliValue())
	}
	return fmt.Sprint((quantity.Value() + divisor.Value() - 1) / divisor.Value())
}

func (p *page) mounts(c corev1.Container) {
	if len(c.VolumeMounts) == 0 {
		p.field(2, "Mounts", none)
	} else {
		p.line(2, "Mounts:")
	}
	for _, mount := range sortedBy(c.VolumeMounts, func(m corev1.VolumeMount) string { return m.MountPath }) {
		how := "rw"
		if mount.ReadOnly {
			how = "ro"
		}
		if mount.SubPath != "" {
			how += fmt.Sprintf(",path=%q", mount.SubPath)
		}
		p.line(3, "%s from %s (%s)", mount.MountPath, mount.Name, how)
	}
	if len(c.VolumeDevices) == 0 {
		return
	}
	p.line(2, "Devices:")
	for _, device := range sortedBy(c.VolumeDevices, func(d corev1.VolumeDevice) string { return d.DevicePath }) {
		p.line(3, "%s from %s", device.DevicePath, device.Name)
	}
}
