package describe

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// volumes writes the sources that podfall's nodes can mount in full, and the type of
// the others.
func (p *page) volumes(volumes []corev1.Volume) {
	if len(volumes) == 0 {
		p.field(0, "Volumes", none)
		return
	}
	p.line(0, "Volumes:")
	for _, volume := range volumes {
		p.line(1, "%s:", volume.Name)
		p.volume(volume.VolumeSource)
	}
}

func (p *page) volume(source corev1.VolumeSource) {
	switch {
	case source.HostPath != nil:
		kind := none
		if source.HostPath.Type != nil {
			kind = string(*source.HostPath.Type)
		}
		p.field(2, "Type", "HostPath (bare host directory volume)")
		p.field(2, "Path", source.HostPath.Path)
		p.field(2, "HostPathType", kind)
	case source.EmptyDir != nil:
		limit := "<unset>"
		if size := source.EmptyDir.SizeLimit; size != nil && size.Cmp(resource.Quantity{}) > 0 {
			limit = size.String()
		}
		p.field(2, "Type", "EmptyDir (a temporary directory that shares a pod's lifetime)")
		p.field(2, "Medium", source.EmptyDir.Medium)
		p.field(2, "SizeLimit", limit)
	case source.Secret != nil:
		p.field(2, "Type", "Secret (a volume populated by a Secret)")
		p.field(2, "SecretName", source.Secret.SecretName)
		p.field(2, "Optional", isTrue(source.Secret.Optional))
	case source.ConfigMap != nil:
		p.field(2, "Type", "ConfigMap (a volume populated by a ConfigMap)")
		p.field(2, "Name", source.ConfigMap.Name)
		p.field(2, "Optional", isTrue(source.ConfigMap.Optional))
	case source.PersistentVolumeClaim != nil:
		p.field(2, "Type", "PersistentVolumeClaim (a reference to a PersistentVolumeClaim in the same namespace)")
		p.field(2, "ClaimName", source.PersistentVolumeClaim.ClaimName)
		p.field(2, "ReadOnly", source.PersistentVolumeClaim.ReadOnly)
	case source.NFS != nil:
		p.field(2, "Type", "NFS (an NFS mount that lasts the lifetime of a pod)")
		p.field(2, "Server", source.NFS.Server)
		p.field(2, "Path", source.NFS.Path)
		p.field(2, "ReadOnly", source.NFS.ReadOnly)
	case source.DownwardAPI != nil:
		p.field(2, "Type", "DownwardAPI (a volume populated by information about the pod)")
		p.line(2, "Items:")
		for _, item := range source.DownwardAPI.Items {
			if item.FieldRef != nil {
				p.line(3, "%s -> %s", item.FieldRef.FieldPath, item.Path)
			}
			if item.ResourceFieldRef != nil {
				p.line(3, "%s -> %s", item.ResourceFieldRef.Resource, item.Path)
			}
		}
	case source.Projected != nil:
		p.projected(source.Projected)
	default:
		p.line(1, "<unknown>")
	}
}

func (p *page) projected(volume *corev1.ProjectedVolumeSource) {
	p.field(2, "Type", "Projected (a volume that contains injected data from multiple sources)")
	for _, source := range volume.Sources {
		switch {
		case source.Secret != nil:
			p.field(2, "SecretName", source.Secret.Name)
			p.field(2, "Optional", isTrue(source.Secret.Optional))
		case source.DownwardAPI != nil:
			p.field(2, "DownwardAPI", true)
		case source.ConfigMap != nil:
			p.field(2, "ConfigMapName", source.ConfigMap.Name)
			p.field(2, "Optional", isTrue(source.ConfigMap.Optional))
		case source.ServiceAccountToken != nil && source.ServiceAccountToken.ExpirationSeconds != nil:
			p.field(2, "TokenExpirationSeconds", *source.ServiceAccountToken.ExpirationSeconds)
		}
	}
}
