package registry

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// checkHooksAndProbes are what runs beside a container's own process.
func (c *podValidator) checkHooksAndProbes(container *corev1.Container, at *field.Path) {
	if hooks := container.Lifecycle; hooks != nil {
		hooksAt := at.Child("lifecycle")
		if hooks.PostStart != nil {
			c.checkHandler(hookHandler(hooks.PostStart), hooksAt.Child("postStart"))
		}
		if hooks.PreStop != nil {
			c.checkHandler(hookHandler(hooks.PreStop), hooksAt.Child("preStop"))
		}
		if hooks.StopSignal != nil {
			c.checkStopSignal(*hooks.StopSignal, hooksAt.Child("stopSignal"))
		}
	}
	if probe := container.LivenessProbe; probe != nil {
		c.checkProbe(probe, at.Child("livenessProbe"))
		c.checkSuccessThreshold(probe, at.Child("livenessProbe"))
	}
	if probe := container.ReadinessProbe; probe != nil {
		probeAt := at.Child("readinessProbe")
		c.checkProbe(probe, probeAt)
		if grace := probe.TerminationGracePeriodSeconds; grace != nil {
			c.invalid(probeAt.Child("terminationGracePeriodSeconds"), *grace, "must not be set for readinessProbes")
		}
	}
	if probe := container.StartupProbe; probe != nil {
		c.checkProbe(probe, at.Child("startupProbe"))
		c.checkSuccessThreshold(probe, at.Child("startupProbe"))
	}
}

// forbidHooksAndProbes is for init containers that run to their end.
func (c *podValidator) forbidHooksAndProbes(container *corev1.Container, at *field.Path) {
	const detail = "may not be set for init containers without restartPolicy=Always"
	if container.Lifecycle != nil {
		c.forbidden(at.Child("lifecycle"), detail)
	}
	if container.LivenessProbe != nil {
		c.forbidden(at.Child("livenessProbe"), detail)
	}
	if container.ReadinessProbe != nil {
		c.forbidden(at.Child("readinessProbe"), detail)
	}
	if container.StartupProbe != nil {
		c.forbidden(at.Child("startupProbe"), detail)
	}
}

func (c *podValidator) checkProbe(probe *corev1.Probe, at *field.Path) {
	c.checkHandler(probeHandler(&probe.ProbeHandler), at)
	c.checkNotNegative(at.Child("initialDelaySeconds"), int64(probe.InitialDelaySeconds))
	c.checkNotNegative(at.Child("timeoutSeconds"), int64(probe.TimeoutSeconds))
	c.checkNotNegative(at.Child("periodSeconds"), int64(probe.PeriodSeconds))
	c.checkNotNegative(at.Child("successThreshold"), int64(probe.SuccessThreshold))
	c.checkNotNegative(at.Child("failureThreshold"), int64(probe.FailureThreshold))
	if grace := probe.TerminationGracePeriodSeconds; grace != nil && *grace <= 0 {
		c.invalid(at.Child("terminationGracePeriodSeconds"), *grace, "must be greater than 0")
	}
}

// checkSuccessThreshold requires 1, for probes whose first success counts.
func (c *podValidator) checkSuccessThreshold(probe *corev1.Probe, at *field.Path) {
	if probe.SuccessThreshold != 1 {
		c.invalid(at.Child("successThreshold"), probe.SuccessThreshold, "must be 1")
	}
}

// handler is the action of a hook or a probe. Hooks have no grpc and probes no sleep.
type handler struct {
	exec  *corev1.ExecAction
	http  *corev1.HTTPGetAction
	tcp   *corev1.TCPSocketAction
	grpc  *corev1.GRPCAction
	sleep *corev1.SleepAction
}

func hookHandler(h *corev1.LifecycleHandler) handler {
	return handler{exec: h.Exec, http: h.HTTPGet, tcp: h.TCPSocket, sleep: h.Sleep}
}

func probeHandler(h *corev1.ProbeHandler) handler {
	return handler{exec: h.Exec, http: h.HTTPGet, tcp: h.TCPSocket, grpc: h.GRPC}
}

// checkHandler requires one action.
func (c *podValidator) checkHandler(h handler, at *field.Path) {
	s := &exclusiveFields{findings: &c.findings, tooMany: "may not specify more than 1 handler type"}
	if h.exec != nil {
		s.add(at.Child("exec"), func(at *field.Path) {
			if len(h.exec.Command) == 0 {
				c.required(at.Child("command"), "")
			}
		})
	}
	if h.http != nil {
		s.add(at.Child("httpGet"), func(at *field.Path) { c.checkHTTPGet(h.http, at) })
	}
	if h.tcp != nil {
		s.add(at.Child("tcpSocket"), func(at *field.Path) { c.checkPort(at.Child("port"), h.tcp.Port) })
	}
	if h.grpc != nil {
		s.add(at.Child("grpc"), func(at *field.Path) { c.checkPort(at.Child("port"), intstr.FromInt32(h.grpc.Port)) })
	}
	if h.sleep != nil {
		s.add(at.Child("sleep"), func(at *field.Path) { c.checkSleep(h.sleep.Seconds, at) })
	}
	if s.count == 0 {
		c.required(at, "must specify a handler type")
	}
}

// checkSleep requires the sleep to fit into the grace (KBL-42).
func (c *podValidator) checkSleep(seconds int64, at *field.Path) {
	grace := c.pod.Spec.TerminationGracePeriodSeconds
	if grace != nil && (seconds < 0 || seconds > *grace) {
		c.invalid(at, seconds, fmt.Sprintf("must be non-negative and less than terminationGracePeriodSeconds (%d)", *grace))
	}
}

func (c *podValidator) checkHTTPGet(get *corev1.HTTPGetAction, at *field.Path) {
	c.checkNotEmpty(at.Child("path"), get.Path)
	c.checkPort(at.Child("port"), get.Port)
	if schemes := []corev1.URIScheme{corev1.URISchemeHTTP, corev1.URISchemeHTTPS}; !slices.Contains(schemes, get.Scheme) {
		c.add(field.NotSupported(at.Child("scheme"), get.Scheme, schemes))
	}
	for _, header := range get.HTTPHeaders {
		c.invalid(at.Child("httpHeaders"), header.Name, validation.IsHTTPHeaderName(header.Name)...)
	}
}

// checkStopSignal requires the Pod's operating system, because signals depend on it.
func (c *podValidator) checkStopSignal(signal corev1.Signal, at *field.Path) {
	system := c.pod.Spec.OS
	if system == nil {
		c.forbidden(at, "may not be set for containers with empty `spec.os.name`")
		return
	}
	var supported []corev1.Signal
	switch system.Name {
	case corev1.Linux:
		supported = linuxSignals()
	case corev1.Windows:
		supported = []corev1.Signal{corev1.SIGKILL, corev1.SIGTERM}
	default:
		return // that is refused elsewhere
	}
	if !slices.Contains(supported, signal) {
		c.add(field.NotSupported(at, signal, supported))
	}
}

// linuxSignals returns the names of signals, sorted.
func linuxSignals() []corev1.Signal {
	names := []corev1.Signal{
		"SIGABRT", "SIGALRM", "SIGBUS", "SIGCHLD", "SIGCLD", "SIGCONT", "SIGFPE", "SIGHUP", "SIGILL", "SIGINT", "SIGIO",
		"SIGIOT", "SIGKILL", "SIGPIPE", "SIGPOLL", "SIGPROF", "SIGPWR", "SIGQUIT", "SIGSEGV", "SIGSTKFLT", "SIGSTOP",
		"SIGSYS", "SIGTERM", "SIGTRAP", "SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGURG", "SIGUSR1", "SIGUSR2", "SIGVTALRM",
		"SIGWINCH", "SIGXCPU", "SIGXFSZ", "SIGRTMIN", "SIGRTMAX",
	}
	for n := 1; n <= 15; n++ {
		names = append(names, corev1.Signal(fmt.Sprintf("SIGRTMIN+%d", n)))
	}
	for n := 1; n <= 14; n++ {
		names = append(names, corev1.Signal(fmt.Sprintf("SIGRTMAX-%d", n)))
	}
	slices.Sort(names)
	return names
}
