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
func (c *podCheck) checkVolumes(at *field.Path) {
	c.volumes = map[string]corev1.VolumeSource{}
	for i := range c.pod.Spec.Volumes {
		volume, item := &c.pod.Spec.Volumes[i], at.Index(i)
		before := len(c.errs)
		c.volume(volume, item)
		c.label(item.Child("name"), volume.Name)
		if _, taken := c.volumes[volume.Name]; taken {
			c.add(field.Duplicate(item.Child("name"), volume.Name))
		}
		if len(c.errs) == before {
			c.volumes[volume.Name] = volume.VolumeSource
		}
	}
}

// checkVolume requires one source, and checks the sources that podfall knows.
func (c *podCheck) volume(volume *corev1.Volume, at *field.Path) {
	s := &sources{found: &c.findings, tooMany: "may not specify more than 1 volume type"}
	if source := volume.EmptyDir; source != nil {
		s.one(at.Child("emptyDir"), func(at *field.Path) {
			if limit := source.SizeLimit; limit != nil && limit.Sign() < 0 {
				c.forbidden(at.Child("sizeLimit"), "SizeLimit field must be a valid resource quantity")
			}
		})
	}
	if source := volume.HostPath; source != nil {
		s.one(at.Child("hostPath"), func(at *field.Path) { c.hostPath(source, at) })
	}
	if source := volume.Secret; source != nil {
		s.one(at.Child("secret"), func(at *field.Path) {
			c.notEmpty(at.Child("secretName"), source.SecretName)
			c.files(source.DefaultMode, source.Items, at)
		})
	}
	if source := volume.PersistentVolumeClaim; source != nil {
		s.one(at.Child("persistentVolumeClaim"), func(at *field.Path) {
			c.notEmpty(at.Child("claimName"), source.ClaimName)
		})
	}
	if source := volume.DownwardAPI; source != nil {
		s.one(at.Child("downwardAPI"), func(at *field.Path) {
			c.fileMode(at.Child("defaultMode"), source.DefaultMode)
			c.downwardFiles(source.Items, at)
		})
	}
	if source := volume.ConfigMap; source != nil {
		s.one(at.Child("configMap"), func(at *field.Path) {
			c.notEmpty(at.Child("name"), source.Name)
			c.files(source.DefaultMode, source.Items, at)
		})
	}
	if source := volume.Projected; source != nil {
		s.one(at.Child("projected"), func(at *field.Path) { c.projected(source, at) })
	}
	if source := volume.Ephemeral; source != nil {
		s.one(at.Child("ephemeral"), func(at *field.Path) { c.claimTemplate(volume.Name, source, at) })
	}
	for _, name := range otherSources(&volume.VolumeSource) {
		s.one(at.Child(name), unchecked)
	}
	if s.count == 0 {
		c.required(at, "must specify a volume type")
	}
}

// uncheckedSources returns the names of the sources that are set and whose content is not checked.
func otherSources(v *corev1.VolumeSource) []string {
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

func (c *podCheck) hostPath(source *corev1.HostPathVolumeSource, at *field.Path) {
	if !c.notEmpty(at.Child("path"), source.Path) {
		return
	}
	c.noWayUp(at.Child("path"), source.Path)
	supported := []corev1.HostPathType{
		corev1.HostPathUnset, corev1.HostPathBlockDev, corev1.HostPathCharDev, corev1.HostPathDirectory,
		corev1.HostPathDirectoryOrCreate, corev1.HostPathFile, corev1.HostPathFileOrCreate, corev1.HostPathSocket,
	}
	if kind := source.Type; kind != nil && !slices.Contains(supported, *kind) {
		c.add(field.NotSupported(at.Child("type"), *kind, supported))
	}
}

// checkFiles checks the keys of a Secret or a ConfigMap that become files.
func (c *podCheck) files(mode *int32, items []corev1.KeyToPath, at *field.Path) {
	c.fileMode(at.Child("defaultMode"), mode)
	for i, item := range items {
		itemAt := at.Child("items").Index(i)
		c.notEmpty(itemAt.Child("key"), item.Key)
		c.notEmpty(itemAt.Child("path"), item.Path)
		c.fileInside(itemAt.Child("path"), item.Path)
		c.fileMode(itemAt.Child("mode"), item.Mode)
	}
}

// checkDownwardFiles checks the fields of the Pod that become files. Upstream's paths have no
// index.
func (c *podCheck) downwardFiles(items []corev1.DownwardAPIVolumeFile, at *field.Path) {
	for _, item := range items {
		c.notEmpty(at.Child("path"), item.Path)
		c.fileInside(at.Child("path"), item.Path)
		switch {
		case item.FieldRef != nil:
			c.fieldRef(item.FieldRef, at.Child("fieldRef"), fieldsOfFiles()...)
			if item.ResourceFieldRef != nil {
				c.invalid(at, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously")
			}
		case item.ResourceFieldRef != nil:
			c.notEmpty(at.Child("resourceFieldRef", "containerName"), item.ResourceFieldRef.ContainerName)
			c.notEmpty(at.Child("resourceFieldRef", "resource"), item.ResourceFieldRef.Resource)
		default:
			c.required(at, "one of fieldRef and resourceFieldRef is required")
		}
		c.fileMode(at.Child("mode"), item.Mode)
	}
}

func (c *podCheck) projected(source *corev1.ProjectedVolumeSource, at *field.Path) {
	c.fileMode(at.Child("defaultMode"), source.DefaultMode)
	for i, part := range source.Sources {
		item := at.Child("sources").Index(i)
		s := &sources{found: &c.findings}
		if part.Secret != nil {
			s.count++
			c.notEmpty(item.Child("secret", "name"), part.Secret.Name)
			c.files(nil, part.Secret.Items, item.Child("secret"))
		}
		if part.ConfigMap != nil {
			s.count++
			c.notEmpty(item.Child("configMap", "name"), part.ConfigMap.Name)
			c.files(nil, part.ConfigMap.Items, item.Child("configMap"))
		}
		if part.DownwardAPI != nil {
			s.count++
			c.downwardFiles(part.DownwardAPI.Items, item.Child("downwardAPI"))
		}
		if token := part.ServiceAccountToken; token != nil {
			s.count++
			c.notEmpty(item.Child("serviceAccountToken", "path"), token.Path)
			c.fileInside(item.Child("serviceAccountToken", "path"), token.Path)
		}
		if s.count > 1 {
			c.forbidden(item, "may not specify more than 1 volume type per source")
		}
	}
}

// checkClaimTemplate checks the template of a claim, and the claim's name, which is made from the
// Pod's.
func (c *podCheck) claimTemplate(volume string, source *corev1.EphemeralVolumeSource, at *field.Path) {
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
func (c *podCheck) fieldRef(ref *corev1.ObjectFieldSelector, at *field.Path, supported ...string) {
	if !c.notEmpty(at.Child("apiVersion"), ref.APIVersion) || !c.notEmpty(at.Child("fieldPath"), ref.FieldPath) {
		return
	}
	name, key, subscripted := strings.Cut(strings.TrimSuffix(ref.FieldPath, "']"), "['")
	switch {
	case subscripted && name == "metadata.annotations":
		c.qualifiedName(at, strings.ToLower(key))
	case subscripted && name == "metadata.labels":
		c.qualifiedName(at, key)
	case subscripted:
		c.invalid(at, name, "does not support subscript")
	case !slices.Contains(fieldsOfPod(), name):
		c.invalid(at.Child("fieldPath"), ref.FieldPath,
			fmt.Sprintf("error converting fieldPath: field label not supported: %s", ref.FieldPath))
	case !slices.Contains(supported, name):
		c.add(field.NotSupported(at.Child("fieldPath"), name, supported))
	}
}

// envFields, fileFields and podFields are the fields that can be shown in variables, in files, and
// in either.
func fieldsOfEnv() []string {
	return []string{
		"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
		"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
	}
}

func fieldsOfFiles() []string {
	return []string{"metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"}
}

func fieldsOfPod() []string {
	return append(fieldsOfEnv(), "metadata.annotations", "metadata.labels", "spec.restartPolicy", "spec.schedulerName", "status.phase")
}
