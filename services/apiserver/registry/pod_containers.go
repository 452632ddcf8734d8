package registry

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// checkContainers checks the three lists of containers. Names are unique over all of them.
func (c *podValidator) checkContainers(at *field.Path) {
	spec := &c.pod.Spec
	taken := map[string]bool{}
	if len(spec.Containers) == 0 {
		c.required(at.Child("containers"), "")
	}
	for i := range spec.Containers {
		container, item := &spec.Containers[i], at.Child("containers").Index(i)
		c.checkContainer(container, item)
		c.checkUnique(taken, container.Name, item.Child("name"))
		c.checkHooksAndProbes(container, item)
		c.checkRestartRules(container, item)
	}
	c.checkHostPorts(spec.Containers, at.Child("containers"))
	for i := range spec.InitContainers {
		container, item := &spec.InitContainers[i], at.Child("initContainers").Index(i)
		c.checkContainer(container, item)
		c.checkRestartRules(container, item)
		if container.Name != "" {
			c.checkUnique(taken, container.Name, item.Child("name"))
		}
		c.checkHostPorts(spec.InitContainers[i:i+1], at.Child("initContainers"))
		if isSidecar(container) {
			c.checkHooksAndProbes(container, item)
		} else {
			c.forbidHooksAndProbes(container, item)
		}
	}
	for i := range spec.EphemeralContainers {
		ephemeral, item := &spec.EphemeralContainers[i], at.Child("ephemeralContainers").Index(i)
		container := corev1.Container(ephemeral.EphemeralContainerCommon)
		c.checkContainer(&container, item)
		c.checkImageSpaces(item, container.Image)
		target := ephemeral.TargetContainerName
		if target != "" && !taken[target] {
			c.add(field.NotFound(item.Child("targetContainerName"), target))
		}
		c.checkUnique(taken, container.Name, item.Child("name"))
	}
}

// isSidecar reports whether an init container keeps running beside the others.
func isSidecar(container *corev1.Container) bool {
	return container.RestartPolicy != nil && *container.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

func (f *findings) checkUnique(taken map[string]bool, name string, at *field.Path) {
	if taken[name] {
		f.add(field.Duplicate(at, name))
	}
	taken[name] = true
}

// checkContainer checks what all containers have in common.
func (c *podValidator) checkContainer(container *corev1.Container, at *field.Path) {
	c.checkLabel(at.Child("name"), container.Name)
	c.checkNotEmpty(at.Child("image"), container.Image)
	checkOneOf(&c.findings, at.Child("terminationMessagePolicy"), container.TerminationMessagePolicy,
		corev1.TerminationMessageReadFile, corev1.TerminationMessageFallbackToLogsOnError)
	c.checkPorts(container.Ports, at.Child("ports"))
	c.checkEnv(container.Env, at.Child("env"))
	c.checkEnvFrom(container.EnvFrom, at.Child("envFrom"))
	c.checkMounts(container, at.Child("volumeMounts"))
	c.checkDevices(container, at.Child("volumeDevices"))
	checkOneOf(&c.findings, at.Child("imagePullPolicy"), container.ImagePullPolicy,
		corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)
	c.add(validateResources(container.Resources, at.Child("resources"))...)
	c.checkContainerSecurity(at.Child("securityContext"), container.SecurityContext)
}

// checkRestartRules checks a container's own restart policy and rules.
func (c *podValidator) checkRestartRules(container *corev1.Container, at *field.Path) {
	policy, rules := container.RestartPolicy, container.RestartPolicyRules
	switch {
	case policy == nil && len(rules) > 0:
		c.required(at.Child("restartPolicy"), "must specify restartPolicy when restart rules are used")
	case policy == nil:
		return
	default:
		supported := []corev1.ContainerRestartPolicy{
			corev1.ContainerRestartPolicyAlways, corev1.ContainerRestartPolicyNever, corev1.ContainerRestartPolicyOnFailure,
		}
		if !slices.Contains(supported, *policy) {
			c.add(field.NotSupported(at.Child("restartPolicy"), *policy, supported))
		}
	}
	const maxRules = 20
	if len(rules) > maxRules {
		c.add(field.TooMany(at.Child("restartPolicyRules"), len(rules), maxRules))
	}
	for i, rule := range rules {
		if rule.ExitCodes == nil {
			c.required(at.Child("restartPolicyRules").Index(i).Child("exitCodes"), "must be specified")
		}
	}
}

func (c *podValidator) checkPorts(ports []corev1.ContainerPort, at *field.Path) {
	taken := map[string]bool{}
	for i, port := range ports {
		item := at.Index(i)
		if port.Name != "" {
			if wrong := validation.IsValidPortName(port.Name); len(wrong) > 0 {
				c.invalid(item.Child("name"), port.Name, wrong...)
			} else {
				c.checkUnique(taken, port.Name, item.Child("name"))
			}
		}
		if port.ContainerPort == 0 {
			c.required(item.Child("containerPort"), "")
		} else {
			c.invalid(item.Child("containerPort"), port.ContainerPort, validation.IsValidPortNum(int(port.ContainerPort))...)
		}
		if port.HostPort != 0 {
			c.invalid(item.Child("hostPort"), port.HostPort, validation.IsValidPortNum(int(port.HostPort))...)
		}
		checkOneOf(&c.findings, item.Child("protocol"), port.Protocol, corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP)
	}
}

// checkHostPorts refuses two containers that run together and use the same port of the node.
func (c *podValidator) checkHostPorts(containers []corev1.Container, at *field.Path) {
	taken := map[string]bool{}
	for i := range containers {
		for j, port := range containers[i].Ports {
			if port.HostPort == 0 {
				continue
			}
			key := fmt.Sprintf("%s/%s/%d", port.Protocol, port.HostIP, port.HostPort)
			c.checkUnique(taken, key, at.Index(i).Child("ports").Index(j).Child("hostPort"))
		}
	}
}

func (c *podValidator) checkEnv(vars []corev1.EnvVar, at *field.Path) {
	for i, v := range vars {
		item := at.Index(i)
		if c.checkNotEmpty(item.Child("name"), v.Name) {
			c.invalid(item.Child("name"), v.Name, validation.IsRelaxedEnvVarName(v.Name)...)
		}
		if v.ValueFrom != nil {
			c.checkEnvSource(v, item.Child("valueFrom"))
		}
	}
}

func (c *podValidator) checkEnvSource(v corev1.EnvVar, at *field.Path) {
	from, count := v.ValueFrom, 0
	if ref := from.FieldRef; ref != nil {
		count++
		c.checkFieldRef(ref, at.Child("fieldRef"), envFields()...)
	}
	if ref := from.ResourceFieldRef; ref != nil {
		count++
		c.checkNotEmpty(at.Child("resourceFieldRef", "resource"), ref.Resource)
	}
	if ref := from.ConfigMapKeyRef; ref != nil {
		count++
		c.checkKeyRef(ref.Name, ref.Key, at.Child("configMapKeyRef"))
	}
	if ref := from.SecretKeyRef; ref != nil {
		count++
		c.checkKeyRef(ref.Name, ref.Key, at.Child("secretKeyRef"))
	}
	if from.FileKeyRef != nil {
		count++
	}
	switch {
	case count == 0:
		c.invalid(at, "", "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`")
	case v.Value != "":
		c.invalid(at, "", "may not be specified when `value` is not empty")
	case count > 1:
		c.invalid(at, "", "may not have more than one field specified at a time")
	}
}

// checkKeyRef checks a reference to a key of a ConfigMap or a Secret.
func (c *podValidator) checkKeyRef(name, key string, at *field.Path) {
	c.invalid(at.Child("name"), name, validation.IsDNS1123Subdomain(name)...)
	if c.checkNotEmpty(at.Child("key"), key) {
		c.invalid(at.Child("key"), key, validation.IsConfigMapKey(key)...)
	}
}

func (c *podValidator) checkEnvFrom(froms []corev1.EnvFromSource, at *field.Path) {
	for i, from := range froms {
		item := at.Index(i)
		if from.Prefix != "" {
			c.invalid(item.Child("prefix"), from.Prefix, validation.IsRelaxedEnvVarName(from.Prefix)...)
		}
		if ref := from.ConfigMapRef; ref != nil && c.checkNotEmpty(item.Child("configMapRef", "name"), ref.Name) {
			c.invalid(item.Child("configMapRef", "name"), ref.Name, validation.IsDNS1123Subdomain(ref.Name)...)
		}
		if ref := from.SecretRef; ref != nil && c.checkNotEmpty(item.Child("secretRef", "name"), ref.Name) {
			c.invalid(item.Child("secretRef", "name"), ref.Name, validation.IsDNS1123Subdomain(ref.Name)...)
		}
		switch {
		case from.ConfigMapRef == nil && from.SecretRef == nil:
			c.invalid(at, "", "must specify one of: `configMapRef` or `secretRef`")
		case from.ConfigMapRef != nil && from.SecretRef != nil:
			c.invalid(at, "", "may not have more than one field specified at a time")
		}
	}
}

// checkMounts checks a container's volumeMounts.
func (c *podValidator) checkMounts(container *corev1.Container, at *field.Path) {
	taken := map[string]bool{}
	for i, mount := range container.VolumeMounts {
		item := at.Index(i)
		c.checkNotEmpty(item.Child("name"), mount.Name)
		if _, ok := c.volumes[mount.Name]; !ok {
			c.add(field.NotFound(item.Child("name"), mount.Name))
		}
		c.checkNotEmpty(item.Child("mountPath"), mount.MountPath)
		if taken[mount.MountPath] {
			c.invalid(item.Child("mountPath"), mount.MountPath, "must be unique")
		}
		taken[mount.MountPath] = true
		for _, device := range container.VolumeDevices {
			if device.Name == mount.Name {
				c.invalid(item.Child("name"), mount.Name, "must not already exist in volumeDevices")
			}
		}
		if mount.SubPath != "" {
			c.checkRelativePath(at.Child("subPath"), mount.SubPath) // upstream leaves the index out
		}
		if mount.SubPathExpr != "" {
			if mount.SubPath != "" {
				c.invalid(item.Child("subPathExpr"), mount.SubPathExpr, "subPathExpr and subPath are mutually exclusive")
			}
			c.checkRelativePath(at.Child("subPathExpr"), mount.SubPathExpr)
		}
		if mode := mount.MountPropagation; mode != nil {
			c.checkPropagation(*mode, container, at.Child("mountPropagation"))
		}
	}
}

func (c *podValidator) checkPropagation(mode corev1.MountPropagationMode, container *corev1.Container, at *field.Path) {
	supported := []corev1.MountPropagationMode{
		corev1.MountPropagationBidirectional, corev1.MountPropagationHostToContainer, corev1.MountPropagationNone,
	}
	if !slices.Contains(supported, mode) {
		c.add(field.NotSupported(at, mode, supported))
	}
	security := container.SecurityContext
	privileged := security != nil && security.Privileged != nil && *security.Privileged
	if mode == corev1.MountPropagationBidirectional && !privileged {
		c.forbidden(at, "Bidirectional mount propagation is available only to privileged containers")
	}
}

func (c *podValidator) checkDevices(container *corev1.Container, at *field.Path) {
	for i, device := range container.VolumeDevices {
		item := at.Index(i)
		c.checkNotEmpty(item.Child("name"), device.Name)
		source, ok := c.volumes[device.Name]
		switch {
		case !ok:
			c.add(field.NotFound(item.Child("name"), device.Name))
		case source.PersistentVolumeClaim == nil && source.Ephemeral == nil:
			c.invalid(item.Child("name"), device.Name,
				"can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode")
		}
		c.checkNotEmpty(item.Child("devicePath"), device.DevicePath)
		c.checkNoDotDot(item.Child("devicePath"), device.DevicePath)
	}
}
