package registry

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// checkVolumes checks the Pod's volumes and remembers the valid ones for the mounts.
func (c *podValidator) checkVolumes(at *field.Path) {
	c.volumes = map[string]corev1.VolumeSource{}
	for i := range c.pod.Spec.Volumes {
		volume, item := &c.pod.Spec.Volumes[i], at.Index(i)
		before := len(c.errs)
		c.checkVolume(volume, item)
		c.checkLabel(item.Child("name"), volume.Name)
		if _, taken := c.volumes[volume.Name]; taken {
			c.add(field.Duplicate(item.Child("name"), volume.Name))
		}
		if len(c.errs) == before {
			c.volumes[volume.Name] = volume.VolumeSource
		}
	}
}

// checkVolume requires one source, and checks the sources that podfall knows.
func (c *podValidator) checkVolume(volume *corev1.Volume, at *field.Path) {
	s := &exclusiveFields{findings: &c.findings, tooMany: "may not specify more than 1 volume type"}
	if source := volume.EmptyDir; source != nil {
		s.add(at.Child("emptyDir"), func(at *field.Path) {
			if limit := source.SizeLimit; limit != nil && limit.Sign() < 0 {
				c.forbidden(at.Child("sizeLimit"), "SizeLimit field must be a valid resource quantity")
			}
		})
	}
	if source := volume.HostPath; source != nil {
		s.add(at.Child("hostPath"), func(at *field.Path) { c.checkHostPath(source, at) })
	}
	if source := volume.Secret; source != nil {
		s.add(at.Child("secret"), func(at *field.Path) {
			c.checkNotEmpty(at.Child("secretName"), source.SecretName)
			c.checkFiles(source.DefaultMode, source.Items, at)
		})
	}
	if source := volume.PersistentVolumeClaim; source != nil {
		s.add(at.Child("persistentVolumeClaim"), func(at *field.Path) {
			c.checkNotEmpty(at.Child("claimName"), source.ClaimName)
		})
	}
	if source := volume.DownwardAPI; source != nil {
		s.add(at.Child("downwardAPI"), func(at *field.Path) {
			c.checkFileMode(at.Child("defaultMode"), source.DefaultMode)
			c.checkDownwardFiles(source.Items, at)
		})
	}
	if source := volume.ConfigMap; source != nil {
		s.add(at.Child("configMap"), func(at *field.Path) {
			c.checkNotEmpty(at.Child("name"), source.Name)
			c.checkFiles(source.DefaultMode, source.Items, at)
		})
	}
	if source := volume.Projected; source != nil {
		s.add(at.Child("projected"), func(at *field.Path) { c.checkProjected(source, at) })
	}
	if source := volume.Ephemeral; source != nil {
		s.add(at.Child("ephemeral"), func(at *field.Path) { c.checkClaimTemplate(volume.Name, source, at) })
	}
	for _, name := range uncheckedSources(&volume.VolumeSource) {
		s.add(at.Child(name), noCheck)
	}
	if s.count == 0 {
		c.required(at, "must specify a volume type")
	}
}

// uncheckedSources returns the names of the sources that are set and whose content is not checked.
func uncheckedSources(v *corev1.VolumeSource) []string {
	var names []string
	for name, set := range map[string]bool{
		"awsElasticBlockStore": v.AWSElasticBlockStore != nil, "azureDisk": v.AzureDisk != nil,
		"azureFile": v.AzureFile != nil, "cephFS": v.CephFS != nil, "cinder": v.Cinder != nil, "csi": v.CSI != nil,
		"fc": v.FC != nil, "flexVolume": v.FlexVolume != nil, "flocker": v.Flocker != nil,
		"gcePersistentDisk": v.GCEPersistentDisk != nil, "gitRepo": v.GitRepo != nil, "glusterfs": v.Glusterfs != nil,
		"image": v.Image != nil, "iscsi": v.ISCSI != nil, "nfs": v.NFS != nil,
		"photonPersistentDisk": v.PhotonPersistentDisk != nil, "portworxVolume": v.PortworxVolume != nil,
		"quobyte": v.Quobyte != nil, "rbd": v.RBD != nil, "scaleIO": v.ScaleIO != nil, "storageos": v.StorageOS != nil,
		"vsphereVolume": v.VsphereVolume != nil,
	} {
		if set {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (c *podValidator) checkHostPath(source *corev1.HostPathVolumeSource, at *field.Path) {
	if !c.checkNotEmpty(at.Child("path"), source.Path) {
		return
	}
	c.checkNoDotDot(at.Child("path"), source.Path)
	supported := []corev1.HostPathType{
		corev1.HostPathUnset, corev1.HostPathBlockDev, corev1.HostPathCharDev, corev1.HostPathDirectory,
		corev1.HostPathDirectoryOrCreate, corev1.HostPathFile, corev1.HostPathFileOrCreate, corev1.HostPathSocket,
	}
	if kind := source.Type; kind != nil && !slices.Contains(supported, *kind) {
		c.add(field.NotSupported(at.Child("type"), *kind, supported))
	}
}

// checkFiles checks the keys of a Secret or a ConfigMap that become files.
func (c *podValidator) checkFiles(mode *int32, items []corev1.KeyToPath, at *field.Path) {
	c.checkFileMode(at.Child("defaultMode"), mode)
	for i, item := range items {
		itemAt := at.Child("items").Index(i)
		c.checkNotEmpty(itemAt.Child("key"), item.Key)
		c.checkNotEmpty(itemAt.Child("path"), item.Path)
		c.checkFilePath(itemAt.Child("path"), item.Path)
		c.checkFileMode(itemAt.Child("mode"), item.Mode)
	}
}

// checkDownwardFiles checks the fields of the Pod that become files. Upstream's paths have no
// index.
func (c *podValidator) checkDownwardFiles(items []corev1.DownwardAPIVolumeFile, at *field.Path) {
	for _, item := range items {
		c.checkNotEmpty(at.Child("path"), item.Path)
		c.checkFilePath(at.Child("path"), item.Path)
		switch {
		case item.FieldRef != nil:
			c.checkFieldRef(item.FieldRef, at.Child("fieldRef"), fileFields()...)
			if item.ResourceFieldRef != nil {
				c.invalid(at, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously")
			}
		case item.ResourceFieldRef != nil:
			c.checkNotEmpty(at.Child("resourceFieldRef", "containerName"), item.ResourceFieldRef.ContainerName)
			c.checkNotEmpty(at.Child("resourceFieldRef", "resource"), item.ResourceFieldRef.Resource)
		default:
			c.required(at, "one of fieldRef and resourceFieldRef is required")
		}
		c.checkFileMode(at.Child("mode"), item.Mode)
	}
}

func (c *podValidator) checkProjected(source *corev1.ProjectedVolumeSource, at *field.Path) {
	c.checkFileMode(at.Child("defaultMode"), source.DefaultMode)
	for i, part := range source.Sources {
		item := at.Child("sources").Index(i)
		s := &exclusiveFields{findings: &c.findings}
		if part.Secret != nil {
			s.count++
			c.checkNotEmpty(item.Child("secret", "name"), part.Secret.Name)
			c.checkFiles(nil, part.Secret.Items, item.Child("secret"))
		}
		if part.ConfigMap != nil {
			s.count++
			c.checkNotEmpty(item.Child("configMap", "name"), part.ConfigMap.Name)
			c.checkFiles(nil, part.ConfigMap.Items, item.Child("configMap"))
		}
		if part.DownwardAPI != nil {
			s.count++
			c.checkDownwardFiles(part.DownwardAPI.Items, item.Child("downwardAPI"))
		}
		if token := part.ServiceAccountToken; token != nil {
			s.count++
			c.checkNotEmpty(item.Child("serviceAccountToken", "path"), token.Path)
			c.checkFilePath(item.Child("serviceAccountToken", "path"), token.Path)
		}
		if s.count > 1 {
			c.forbidden(item, "may not specify more than 1 volume type per source")
		}
	}
}

// checkClaimTemplate checks the template of a claim, and the claim's name, which is made from the
// Pod's.
func (c *podValidator) checkClaimTemplate(volume string, source *corev1.EphemeralVolumeSource, at *field.Path) {
	if source.VolumeClaimTemplate == nil {
		c.required(at.Child("volumeClaimTemplate"), "")
	}
	if c.pod.Name == "" || volume == "" {
		return
	}
	claim := c.pod.Name + "-" + volume
	for _, wrong := range validation.IsDNS1123Subdomain(claim) {
		c.invalid(at.Child("name"), volume, fmt.Sprintf("PVC name %q: %v", claim, wrong))
	}
}

// checkFieldRef checks a reference to a field of the Pod, for a variable or a file.
func (c *podValidator) checkFieldRef(ref *corev1.ObjectFieldSelector, at *field.Path, supported ...string) {
	if !c.checkNotEmpty(at.Child("apiVersion"), ref.APIVersion) || !c.checkNotEmpty(at.Child("fieldPath"), ref.FieldPath) {
		return
	}
	name, key, subscripted := strings.Cut(strings.TrimSuffix(ref.FieldPath, "']"), "['")
	switch {
	case subscripted && name == "metadata.annotations":
		c.checkQualifiedName(at, strings.ToLower(key))
	case subscripted && name == "metadata.labels":
		c.checkQualifiedName(at, key)
	case subscripted:
		c.invalid(at, name, "does not support subscript")
	case !slices.Contains(podFields(), name):
		c.invalid(at.Child("fieldPath"), ref.FieldPath,
			fmt.Sprintf("error converting fieldPath: field label not supported: %s", ref.FieldPath))
	case !slices.Contains(supported, name):
		c.add(field.NotSupported(at.Child("fieldPath"), name, supported))
	}
}

// envFields, fileFields and podFields are the fields that can be shown in variables, in files, and
// in either.
func envFields() []string {
	return []string{
		"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
		"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
	}
}

func fileFields() []string {
	return []string{"metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"}
}

func podFields() []string {
	return append(envFields(), "metadata.annotations", "metadata.labels", "spec.restartPolicy", "spec.schedulerName", "status.phase")
}
