package registry

import (
	"math"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	unversioned "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/podfall/podfall/proto/kinds"
)

// podValidator validates one Pod, with what its parts need to know of each other.
type podValidator struct {
	findings
	pod *corev1.Pod
	// volumes are the valid volumes, which containers may mount.
	volumes map[string]corev1.VolumeSource
}

// validatePod returns everything that is wrong with a Pod as a whole, new or updated. Its order and
// its texts are those of upstream's validatePodMetadataAndSpec. It leaves out the fields that
// nothing in podfall reads: most of the security contexts, resource claims and the sources of
// volumes that need a cloud.
func validatePod(kind kinds.Kind, pod *corev1.Pod) field.ErrorList {
	c := &podValidator{pod: pod}
	c.add(ValidateMeta(kind, pod)...)
	c.checkAnnotations(field.NewPath("metadata", "annotations"))
	c.checkSpec(field.NewPath("spec"))
	return c.errs
}

// validateNewPod returns what only a new Pod may not have.
func validateNewPod(pod *corev1.Pod) field.ErrorList {
	f := &findings{}
	at := field.NewPath("spec")
	if len(pod.Spec.EphemeralContainers) > 0 {
		f.forbidden(at.Child("ephemeralContainers"), "cannot be set on create")
	}
	if pod.Spec.NodeName != "" && len(pod.Spec.SchedulingGates) > 0 {
		f.forbidden(at.Child("nodeName"), "cannot be set until all schedulingGates have been cleared")
	}
	return f.errs
}

func (c *podValidator) checkAnnotations(at *field.Path) {
	mirror, ok := c.pod.Annotations[corev1.MirrorPodAnnotationKey]
	if ok && c.pod.Spec.NodeName == "" {
		c.invalid(at.Key(corev1.MirrorPodAnnotationKey), mirror, "must set spec.nodeName if mirror pod annotation is set")
	}
}

func (c *podValidator) checkSpec(at *field.Path) {
	c.checkSharedSpec(at)
	c.checkPodOnly(at)
}

// checkSharedSpec checks what Pods and the templates of workloads have in common.
func (c *podValidator) checkSharedSpec(at *field.Path) {
	spec := &c.pod.Spec
	if spec.TerminationGracePeriodSeconds == nil {
		c.required(at.Child("terminationGracePeriodSeconds"), "")
	}
	c.checkVolumes(at.Child("volumes"))
	c.checkContainers(at)
	if spec.HostNetwork {
		c.checkHostNetworkPorts(at.Child("containers"))
	}
	checkOneOf(&c.findings, at.Child("restartPolicy"), spec.RestartPolicy,
		corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever)
	checkOneOf(&c.findings, at.Child("dnsPolicy"), spec.DNSPolicy,
		corev1.DNSClusterFirstWithHostNet, corev1.DNSClusterFirst, corev1.DNSDefault, corev1.DNSNone)
	c.add(sortPerField(unversioned.ValidateLabels(spec.NodeSelector, at.Child("nodeSelector")))...)
	c.checkProcessSharing(at)
	c.checkPodSecurity(at.Child("securityContext"))
	c.checkAffinity(at.Child("affinity"))
	c.checkDNS(at.Child("dnsConfig"))
	for i, gate := range spec.ReadinessGates {
		c.checkQualifiedName(at.Child("readinessGates").Index(i).Child("conditionType"), string(gate.ConditionType))
	}
	c.checkSchedulingGates(at.Child("schedulingGates"))
	c.checkTopologySpread(at.Child("topologySpreadConstraints"))
	c.checkReferences(at)
	c.checkActiveDeadline(at.Child("activeDeadlineSeconds"))
	c.checkHostnames(at)
	c.add(validateTolerations(spec.Tolerations, at.Child("tolerations"))...)
	c.checkClasses(at)
	c.checkOS(at.Child("os"))
}

// checkPodOnly checks what upstream does not check in the templates of workloads.
func (c *podValidator) checkPodOnly(at *field.Path) {
	spec := &c.pod.Spec
	if grace := spec.TerminationGracePeriodSeconds; grace != nil {
		c.checkNotNegative(at.Child("terminationGracePeriodSeconds"), *grace)
	}
	for i := range spec.Containers {
		c.checkImageSpaces(at.Child("containers").Index(i), spec.Containers[i].Image)
	}
	for i := range spec.InitContainers {
		c.checkImageSpaces(at.Child("initContainers").Index(i), spec.InitContainers[i].Image)
	}
}

func (f *findings) checkImageSpaces(at *field.Path, image string) {
	if strings.TrimSpace(image) != image {
		f.invalid(at.Child("image"), image, "must not have leading or trailing whitespace")
	}
}

func (c *podValidator) checkHostNetworkPorts(at *field.Path) {
	for i := range c.pod.Spec.Containers {
		for j, port := range c.pod.Spec.Containers[i].Ports {
			if port.HostPort != port.ContainerPort {
				c.invalid(at.Index(i).Child("ports").Index(j).Child("hostPort"), port.HostPort,
					"must match `containerPort` when `hostNetwork` is true")
			}
		}
	}
}

func (c *podValidator) checkProcessSharing(at *field.Path) {
	spec := &c.pod.Spec
	if shared := spec.ShareProcessNamespace; shared != nil && *shared && spec.HostPID {
		c.invalid(at.Child("shareProcessNamespace"), *shared, "ShareProcessNamespace and HostPID cannot both be enabled")
	}
}

// The sizes that a resolver accepts.
const (
	maxNameservers = 3
	maxSearches    = 32
	maxSearchChars = 2048
)

func (c *podValidator) checkDNS(at *field.Path) {
	config := c.pod.Spec.DNSConfig
	if c.pod.Spec.DNSPolicy == corev1.DNSNone {
		switch {
		case config == nil:
			c.required(at, "must provide `dnsConfig` when `dnsPolicy` is None")
		case len(config.Nameservers) == 0:
			c.required(at.Child("nameservers"), "must provide at least one DNS nameserver when `dnsPolicy` is None")
			return
		}
	}
	if config == nil {
		return
	}
	if len(config.Nameservers) > maxNameservers {
		c.invalid(at.Child("nameservers"), config.Nameservers, "must not have more than 3 nameservers")
	}
	for i, server := range config.Nameservers {
		c.add(utilvalidation.IsValidIPForLegacyField(at.Child("nameservers").Index(i), server, false, nil)...)
	}
	if len(config.Searches) > maxSearches {
		c.invalid(at.Child("searches"), config.Searches, "must not have more than 32 search paths")
	}
	if len(strings.Join(config.Searches, " ")) > maxSearchChars {
		c.invalid(at.Child("searches"), config.Searches,
			"must not have more than 2048 characters (including spaces) in the search list")
	}
	for i, option := range config.Options {
		if option.Name == "" {
			c.required(at.Child("options").Index(i), "must not be empty")
		}
	}
}

func (c *podValidator) checkSchedulingGates(at *field.Path) {
	seen := map[string]bool{}
	for i, gate := range c.pod.Spec.SchedulingGates {
		c.checkQualifiedName(at.Index(i), gate.Name)
		if seen[gate.Name] {
			c.add(field.Duplicate(at.Index(i), gate.Name))
		}
		seen[gate.Name] = true
	}
}

// checkReferences checks the names of other objects in the spec.
func (c *podValidator) checkReferences(at *field.Path) {
	spec := &c.pod.Spec
	if name := spec.ServiceAccountName; name != "" {
		c.invalid(at.Child("serviceAccountName"), name, validation.ValidateServiceAccountName(name, false)...)
	}
	if name := spec.NodeName; name != "" {
		c.invalid(at.Child("nodeName"), name, validation.NameIsDNSSubdomain(name, false)...)
	}
}

func (c *podValidator) checkActiveDeadline(at *field.Path) {
	if seconds := c.pod.Spec.ActiveDeadlineSeconds; seconds != nil && (*seconds < 1 || *seconds > math.MaxInt32) {
		c.invalid(at, *seconds, utilvalidation.InclusiveRangeError(1, math.MaxInt32))
	}
}

func (c *podValidator) checkHostnames(at *field.Path) {
	spec := &c.pod.Spec
	if spec.Hostname != "" {
		c.checkLabel(at.Child("hostname"), spec.Hostname)
	}
	if spec.Subdomain != "" {
		c.checkLabel(at.Child("subdomain"), spec.Subdomain)
	}
}

// checkClasses checks host aliases, priority, preemption, runtime class and overhead.
func (c *podValidator) checkClasses(at *field.Path) {
	spec := &c.pod.Spec
	for i, alias := range spec.HostAliases {
		item := at.Child("hostAliases").Index(i)
		c.add(utilvalidation.IsValidIPForLegacyField(item.Child("ip"), alias.IP, false, nil)...)
		for j, name := range alias.Hostnames {
			c.invalid(item.Child("hostnames").Index(j), name, utilvalidation.IsDNS1123Subdomain(name)...)
		}
	}
	if name := spec.PriorityClassName; name != "" {
		c.invalid(at.Child("priorityClassName"), name, validation.NameIsDNSSubdomain(name, false)...)
	}
	if name := spec.RuntimeClassName; name != nil {
		c.invalid(at.Child("runtimeClassName"), *name, validation.NameIsDNSSubdomain(*name, false)...)
	}
	if policy := spec.PreemptionPolicy; policy != nil {
		checkOneOf(&c.findings, at.Child("preemptionPolicy"), *policy, corev1.PreemptLowerPriority, corev1.PreemptNever)
	}
	if spec.Overhead != nil {
		c.add(validateResources(corev1.ResourceRequirements{Limits: spec.Overhead}, at.Child("overhead"))...)
	}
}

func (c *podValidator) checkOS(at *field.Path) {
	system := c.pod.Spec.OS
	if system == nil {
		return
	}
	switch system.Name {
	case "":
		c.required(at.Child("name"), "")
	case corev1.Linux, corev1.Windows:
	default:
		c.add(field.NotSupported(at, system.Name, []corev1.OSName{corev1.Linux, corev1.Windows}))
	}
}
