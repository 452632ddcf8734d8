// Package persistentvolume binds claims to volumes, and provisions volumes for claims of podfall's
// class. Such a volume is a directory of the machine that all nodes share. decide.go decides about
// a claim, volume.go about a volume; controller.go reads and writes, and reclaim.go removes a
// volume's directory.
package persistentvolume

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/podfall/podfall/internal/storage"
)

// The annotations of upstream's binder and provisioner.
const (
	bindCompleted     = "pv.kubernetes.io/bind-completed"
	boundByController = "pv.kubernetes.io/bound-by-controller"
	provisionedBy     = "pv.kubernetes.io/provisioned-by"
	provisionerFor    = "volume.kubernetes.io/storage-provisioner"
	provisionerForOld = "volume.beta.kubernetes.io/storage-provisioner"
	// SelectedNode is the node of a claim's first consumer.
	SelectedNode = "volume.kubernetes.io/selected-node"
)

// Provisioner is the provisioner name of podfall's classes.
const Provisioner = "podfall.dev/directory"

// Driver is the CSI driver of those volumes. The cluster treats them as disks: attached to one node
// at a time unless their claim asks for more.
const Driver = "directory.podfall.dev"

// View is a claim and what could be bound to it.
type View struct {
	Claim   *corev1.PersistentVolumeClaim
	Volumes []*corev1.PersistentVolume
	// Class is the claim's; nil if it does not exist.
	Class *storagev1.StorageClass
	// Default is the class of claims that name none; nil if there is none.
	Default *storagev1.StorageClass
	// Node is the node of the claim's first consumer; nil if it is not chosen or does not exist.
	Node *corev1.Node
}

// Event is one event about the claim.
type Event struct{ Type, Reason, Message string }

// Decision is what to do about a claim. Write in the order of the fields.
type Decision struct {
	// Provision is a volume to create.
	Provision *corev1.PersistentVolume
	// Volume is a volume to update: the claim's volume from now on.
	Volume *corev1.PersistentVolume
	// VolumeBound is the volume whose phase becomes Bound.
	VolumeBound *corev1.PersistentVolume
	// Claim is the claim to update, without its status.
	Claim *corev1.PersistentVolumeClaim
	// Status is the claim's new status; nil if it stays.
	Status *corev1.PersistentVolumeClaimStatus
	Event  *Event
}

// Decide decides about a claim (syncClaim).
func Decide(view View) Decision {
	claim := view.Claim
	if claim.DeletionTimestamp != nil && claim.Spec.VolumeName == "" {
		return Decision{}
	}
	if _, complete := claim.Annotations[bindCompleted]; complete {
		return decideBound(view)
	}
	if claim.Spec.VolumeName != "" {
		return decideNamed(view)
	}
	if volume := FindMatch(view); volume != nil {
		return planBinding(claim, volume)
	}
	decision := Decision{Status: withPhase(claim, corev1.ClaimPending)}
	switch {
	case storage.HasNoClass(claim) && view.Default != nil: // it came after the claim (assignDefaultStorageClass)
		decision.Claim = claim.DeepCopy()
		decision.Claim.Spec.StorageClassName = &view.Default.Name
	case isDelayed(view):
		decision.Event = normalEvent("WaitForFirstConsumer", "waiting for first consumer to be created before binding")
	case ClassOf(claim) == "":
		decision.Event = normalEvent("FailedBinding", "no persistent volumes available for this claim and no storage class is set")
	case view.Class == nil:
		decision.Event = &Event{
			corev1.EventTypeWarning, "ProvisioningFailed", fmt.Sprintf("storageclass.storage.k8s.io %q not found", ClassOf(claim)),
		}
	default:
		decision.planProvisioning(view)
	}
	return decision
}

// isDelayed reports whether binding waits until a pod that uses the claim is scheduled.
func isDelayed(view View) bool {
	return view.Class != nil && view.Class.VolumeBindingMode != nil &&
		*view.Class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer && view.Claim.Annotations[SelectedNode] == ""
}

func normalEvent(reason, message string) *Event {
	return &Event{corev1.EventTypeNormal, reason, message}
}

// planProvisioning asks the class's provisioner for a volume; podfall's own volumes are created.
func (d *Decision) planProvisioning(view View) {
	claim, provisioner := view.Claim, view.Class.Provisioner
	if claim.Annotations[provisionerFor] != provisioner {
		d.Claim = claim.DeepCopy()
		annotate(&d.Claim.ObjectMeta, provisionerFor, provisioner)
		annotate(&d.Claim.ObjectMeta, provisionerForOld, provisioner)
		return // the claim comes again when it is written
	}
	if provisioner == Provisioner {
		d.Provision = newVolume(view)
		return
	}
	d.Event = normalEvent("ExternalProvisioning", fmt.Sprintf("Waiting for a volume to be created either by the external provisioner '%s' "+
		"or manually by the system administrator. If volume creation is delayed, please verify that the provisioner is running "+
		"and correctly registered.", provisioner))
}

// newVolume returns a new volume that is bound to the claim from the start.
func newVolume(view View) *corev1.PersistentVolume {
	claim := view.Claim
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name: "pvc-" + string(claim.UID), Annotations: map[string]string{provisionedBy: Provisioner},
		},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      claim.Spec.Resources.Requests.DeepCopy(),
			AccessModes:                   claim.Spec.AccessModes,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			StorageClassName:              ClassOf(claim),
			VolumeMode:                    claim.Spec.VolumeMode,
			ClaimRef:                      claimRef(claim),
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: Driver, VolumeHandle: "pvc-" + string(claim.UID),
			}},
		},
	}
	if policy := view.Class.ReclaimPolicy; policy != nil {
		volume.Spec.PersistentVolumeReclaimPolicy = *policy
	}
	if volume.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete {
		volume.Finalizers = []string{Finalizer}
	}
	return volume
}

func claimRef(claim *corev1.PersistentVolumeClaim) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
		ResourceVersion: claim.ResourceVersion,
	}
}

// decideNamed decides about a claim that asks for one volume and is not bound to it yet.
func decideNamed(view View) Decision {
	claim := view.Claim
	volume := findVolume(view.Volumes, claim.Spec.VolumeName)
	switch {
	case volume == nil:
		return Decision{Status: withPhase(claim, corev1.ClaimPending)}
	case volume.Spec.ClaimRef == nil || RefersTo(volume.Spec.ClaimRef, claim):
		if volume.Spec.ClaimRef == nil && mismatch(claim, volume) != "" {
			return Decision{
				Status: withPhase(claim, corev1.ClaimPending),
				Event:  &Event{corev1.EventTypeWarning, "VolumeMismatch", fmt.Sprintf("Cannot bind to requested volume %q: %s", volume.Name, mismatch(claim, volume))},
			}
		}
		return planBinding(claim, volume)
	}
	return Decision{
		Status: withPhase(claim, corev1.ClaimPending),
		Event:  &Event{corev1.EventTypeWarning, "FailedBinding", fmt.Sprintf("volume %q already bound to a different claim.", volume.Name)},
	}
}

// decideBound decides about a claim that was bound before.
func decideBound(view View) Decision {
	claim := view.Claim
	volume := findVolume(view.Volumes, claim.Spec.VolumeName)
	lost := func(reason, message string) Decision {
		status := withPhase(claim, corev1.ClaimLost)
		if status == nil {
			return Decision{}
		}
		return Decision{Status: status, Event: &Event{corev1.EventTypeWarning, reason, message}}
	}
	switch {
	case claim.Spec.VolumeName == "":
		return lost("ClaimLost", "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!")
	case volume == nil:
		return lost("ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!")
	case volume.Spec.ClaimRef == nil || RefersTo(volume.Spec.ClaimRef, claim):
		return planBinding(claim, volume)
	}
	return lost("ClaimMisbound", "Two claims are bound to the same volume, this one is bound incorrectly")
}

// planBinding makes volume and claim refer to each other, and writes only what differs.
func planBinding(claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) Decision {
	decision := Decision{}
	if ref := volume.Spec.ClaimRef; ref == nil || ref.UID != claim.UID {
		updated := volume.DeepCopy()
		updated.Spec.ClaimRef = claimRef(claim)
		if ref == nil {
			annotate(&updated.ObjectMeta, boundByController, "yes")
		}
		decision.Volume = updated
	}
	if volume.Status.Phase != corev1.VolumeBound {
		decision.VolumeBound = volume
	}
	if claim.Spec.VolumeName != volume.Name || claim.Annotations[bindCompleted] == "" {
		updated := claim.DeepCopy()
		if claim.Spec.VolumeName != volume.Name {
			updated.Spec.VolumeName = volume.Name
			annotate(&updated.ObjectMeta, boundByController, "yes")
		}
		annotate(&updated.ObjectMeta, bindCompleted, "yes")
		decision.Claim = updated
	}
	status := claim.Status.DeepCopy()
	status.Phase, status.AccessModes = corev1.ClaimBound, volume.Spec.AccessModes
	status.Capacity = volume.Spec.Capacity.DeepCopy()
	if claim.Status.Phase != status.Phase || !slices.Equal(claim.Status.AccessModes, status.AccessModes) || len(claim.Status.Capacity) == 0 {
		decision.Status = status
	}
	return decision
}

// withPhase is the claim's status in another phase; nil if it has that phase.
func withPhase(claim *corev1.PersistentVolumeClaim, wanted corev1.PersistentVolumeClaimPhase) *corev1.PersistentVolumeClaimStatus {
	if claim.Status.Phase == wanted {
		return nil
	}
	return &corev1.PersistentVolumeClaimStatus{Phase: wanted, Conditions: claim.Status.Conditions}
}

func annotate(meta *metav1.ObjectMeta, key, value string) {
	if meta.Annotations == nil {
		meta.Annotations = map[string]string{}
	}
	meta.Annotations[key] = value
}

func findVolume(volumes []*corev1.PersistentVolume, name string) *corev1.PersistentVolume {
	for _, volume := range volumes {
		if volume.Name == name {
			return volume
		}
	}
	return nil
}

// RefersTo reports whether a volume's reference means the claim; a reference without a UID matches
// by name.
func RefersTo(ref *corev1.ObjectReference, claim *corev1.PersistentVolumeClaim) bool {
	return ref != nil && ref.Namespace == claim.Namespace && ref.Name == claim.Name && (ref.UID == "" || ref.UID == claim.UID)
}

// ClassOf names the class of a claim; empty for none.
func ClassOf(claim *corev1.PersistentVolumeClaim) string {
	if old, ok := claim.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		return old
	}
	if claim.Spec.StorageClassName == nil {
		return ""
	}
	return *claim.Spec.StorageClassName
}

// FindMatch returns the best volume for the claim: one reserved for it, or else the smallest that
// is large enough, then the first by name (FindMatchingVolume).
func FindMatch(view View) *corev1.PersistentVolume {
	var best *corev1.PersistentVolume
	for _, volume := range view.Volumes {
		if volume.DeletionTimestamp != nil && !RefersTo(volume.Spec.ClaimRef, view.Claim) || mismatch(view.Claim, volume) != "" {
			continue
		}
		if RefersTo(volume.Spec.ClaimRef, view.Claim) {
			return volume
		}
		if volume.Spec.ClaimRef != nil || isDelayed(view) || !isSuitable(view, volume) {
			continue
		}
		if best == nil || cmp.Or(compareCapacity(volume, best), cmp.Compare(volume.Name, best.Name)) < 0 {
			best = volume
		}
	}
	return best
}

func compareCapacity(a, b *corev1.PersistentVolume) int {
	left, right := a.Spec.Capacity[corev1.ResourceStorage], b.Spec.Capacity[corev1.ResourceStorage]
	return left.Cmp(right)
}

// isSuitable reports whether an available volume has the claim's class, matches its selector, and
// is reachable from the first consumer's node.
func isSuitable(view View, volume *corev1.PersistentVolume) bool {
	claim := view.Claim
	if volume.Spec.StorageClassName != ClassOf(claim) || volume.Status.Phase != corev1.VolumeAvailable {
		return false
	}
	if claim.Spec.Selector != nil {
		selector, err := metav1.LabelSelectorAsSelector(claim.Spec.Selector)
		if err != nil || !selector.Matches(labels.Set(volume.Labels)) {
			return false
		}
	}
	return view.Node == nil || IsReachable(volume, view.Node)
}

// mismatch says why a volume cannot satisfy the claim; empty if it can.
func mismatch(claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) string {
	wanted, have := claim.Spec.Resources.Requests[corev1.ResourceStorage], volume.Spec.Capacity[corev1.ResourceStorage]
	switch {
	case have.Cmp(wanted) < 0:
		return "requested PV is too small"
	case volumeMode(claim.Spec.VolumeMode) != volumeMode(volume.Spec.VolumeMode):
		return "incompatible volumeMode"
	}
	for _, access := range claim.Spec.AccessModes {
		if !slices.Contains(volume.Spec.AccessModes, access) {
			return "incompatible accessMode"
		}
	}
	return ""
}

func volumeMode(m *corev1.PersistentVolumeMode) corev1.PersistentVolumeMode {
	if m == nil {
		return corev1.PersistentVolumeFilesystem
	}
	return *m
}
