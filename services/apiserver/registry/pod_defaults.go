package registry

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// defaultPod sets a Pod's defaults: first those that upstream gives a Pod and not its template,
// then the common ones.
func defaultPod(pod *corev1.Pod) {
	spec := &pod.Spec
	// A template keeps its negative grace; a Pod never has one (API-14).
	if grace := spec.TerminationGracePeriodSeconds; grace != nil && *grace < 0 {
		spec.TerminationGracePeriodSeconds = new(int64(1))
	}
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			defaultRequests(&containers[i].Resources)
			if spec.HostNetwork {
				defaultHostPorts(containers[i].Ports)
			}
		}
	}
	fillPointer(&spec.EnableServiceLinks, corev1.DefaultEnableServiceLinks)
	defaultPodSpec(spec)
}

// defaultPodSpec sets the defaults that Pods and the templates of workloads have in common.
func defaultPodSpec(spec *corev1.PodSpec) {
	fill(&spec.ServiceAccountName, spec.DeprecatedServiceAccount)
	spec.DeprecatedServiceAccount = spec.ServiceAccountName
	fill(&spec.DNSPolicy, corev1.DNSClusterFirst)
	fill(&spec.RestartPolicy, corev1.RestartPolicyAlways)
	fill(&spec.SchedulerName, corev1.DefaultSchedulerName)
	fillPointer(&spec.SecurityContext, corev1.PodSecurityContext{})
	fillPointer(&spec.TerminationGracePeriodSeconds, int64(corev1.DefaultTerminationGracePeriodSeconds))
	for i := range spec.Volumes {
		defaultVolume(&spec.Volumes[i])
	}
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			defaultContainer(&containers[i])
		}
	}
	for i := range spec.EphemeralContainers {
		common := corev1.Container(spec.EphemeralContainers[i].EphemeralContainerCommon)
		defaultContainer(&common)
		spec.EphemeralContainers[i].EphemeralContainerCommon = corev1.EphemeralContainerCommon(common)
	}
	roundUp(spec.Overhead)
}

// admitPod names the service account that a new Pod runs as, as upstream's admission does; a mirror pod
// has none. The volume of the account's token is left out. The other defaults of admission are in
// admission/defaults.go.
func admitPod(pod *corev1.Pod) {
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return
	}
	fill(&pod.Spec.ServiceAccountName, "default")
	pod.Spec.DeprecatedServiceAccount = pod.Spec.ServiceAccountName
}

func defaultContainer(c *corev1.Container) {
	fill(&c.ImagePullPolicy, pullPolicy(c.Image))
	fill(&c.TerminationMessagePath, corev1.TerminationMessagePathDefault)
	fill(&c.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
	for i := range c.Ports {
		fill(&c.Ports[i].Protocol, corev1.ProtocolTCP)
	}
	for i := range c.Env {
		if from := c.Env[i].ValueFrom; from != nil {
			defaultFieldRef(from.FieldRef)
			if from.FileKeyRef != nil {
				fillPointer(&from.FileKeyRef.Optional, false)
			}
		}
	}
	roundUp(c.Resources.Limits)
	roundUp(c.Resources.Requests)
	for _, probe := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		defaultProbe(probe)
	}
	if hooks := c.Lifecycle; hooks != nil {
		for _, hook := range []*corev1.LifecycleHandler{hooks.PostStart, hooks.PreStop} {
			if hook != nil {
				defaultHTTPGet(hook.HTTPGet)
			}
		}
	}
}

// pullPolicy returns Always for an image that may change under its name: one tagged latest, or not
// tagged at all.
func pullPolicy(image string) corev1.PullPolicy {
	name, _, pinned := strings.Cut(image, "@")
	repository, tag := name, ""
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		repository, tag = name[:i], name[i+1:]
	}
	if tag == "latest" || tag == "" && !pinned && repository != "" {
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}

func defaultProbe(probe *corev1.Probe) {
	if probe == nil {
		return
	}
	fill(&probe.TimeoutSeconds, 1)
	fill(&probe.PeriodSeconds, 10)
	fill(&probe.SuccessThreshold, 1)
	fill(&probe.FailureThreshold, 3)
	defaultHTTPGet(probe.HTTPGet)
	if probe.GRPC != nil {
		fillPointer(&probe.GRPC.Service, "")
	}
}

func defaultHTTPGet(get *corev1.HTTPGetAction) {
	if get != nil {
		fill(&get.Path, "/")
		fill(&get.Scheme, corev1.URISchemeHTTP)
	}
}

func defaultFieldRef(ref *corev1.ObjectFieldSelector) {
	if ref != nil {
		fill(&ref.APIVersion, "v1")
	}
}

// defaultRequests sets missing requests to the limits.
func defaultRequests(r *corev1.ResourceRequirements) {
	for name, limit := range r.Limits {
		if _, asked := r.Requests[name]; asked {
			continue
		}
		if r.Requests == nil {
			r.Requests = make(corev1.ResourceList)
		}
		r.Requests[name] = limit.DeepCopy()
	}
}

func defaultHostPorts(ports []corev1.ContainerPort) {
	for i := range ports {
		fill(&ports[i].HostPort, ports[i].ContainerPort)
	}
}

// roundUp rounds every quantity up to a thousandth.
func roundUp(quantities corev1.ResourceList) {
	for name, quantity := range quantities {
		quantity.RoundUp(resource.Milli)
		quantities[name] = quantity
	}
}

// defaultVolume makes a volume without a source an emptyDir, and sets the defaults of its source.
// The default mode of files is 0644.
func defaultVolume(v *corev1.Volume) {
	const mode = int32(0o644)
	if v.VolumeSource == (corev1.VolumeSource{}) {
		v.EmptyDir = &corev1.EmptyDirVolumeSource{}
	}
	if v.HostPath != nil {
		fillPointer(&v.HostPath.Type, corev1.HostPathUnset)
	}
	if v.Secret != nil {
		fillPointer(&v.Secret.DefaultMode, mode)
	}
	if v.ConfigMap != nil {
		fillPointer(&v.ConfigMap.DefaultMode, mode)
	}
	if v.DownwardAPI != nil {
		fillPointer(&v.DownwardAPI.DefaultMode, mode)
		defaultDownwardFiles(v.DownwardAPI.Items)
	}
	if v.Projected != nil {
		fillPointer(&v.Projected.DefaultMode, mode)
		for i := range v.Projected.Sources {
			source := &v.Projected.Sources[i]
			if source.DownwardAPI != nil {
				defaultDownwardFiles(source.DownwardAPI.Items)
			}
			if source.ServiceAccountToken != nil {
				fillPointer(&source.ServiceAccountToken.ExpirationSeconds, 3600)
			}
		}
	}
	if v.Image != nil {
		fill(&v.Image.PullPolicy, pullPolicy(v.Image.Reference))
	}
	if v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil {
		claim := &v.Ephemeral.VolumeClaimTemplate.Spec
		fillPointer(&claim.VolumeMode, corev1.PersistentVolumeFilesystem)
		roundUp(claim.Resources.Limits)
		roundUp(claim.Resources.Requests)
	}
}

func defaultDownwardFiles(files []corev1.DownwardAPIVolumeFile) {
	for i := range files {
		defaultFieldRef(files[i].FieldRef)
	}
}

// fill sets a field to value if the field is zero.
func fill[T comparable](at *T, value T) {
	var none T
	if *at == none {
		*at = value
	}
}

// fillPointer sets an optional field to value if the field is nil.
func fillPointer[T any](at **T, value T) {
	if *at == nil {
		*at = &value
	}
}
