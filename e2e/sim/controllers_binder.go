package sim

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/podfall/podfall/services/controllers/persistentvolume"
)

const (
	binderController = "persistentvolume-binder-controller"
	lookClaim        = "claim"
)

func (c *controllers) claimChanged(old, now *corev1.PersistentVolumeClaim) {
	c.out.Wake(lookAttach, c.now)
	c.out.Wake(lookSchedule, c.now)
	if now == nil {
		c.scheduling.RemoveClaim(old)
		return
	}
	c.scheduling.SetClaim(now)
	c.enqueue(lookClaim, nameOf(now))
}

func (c *controllers) volumeChanged(old, now *corev1.PersistentVolume) {
	c.out.Wake(lookAttach, c.now)
	c.out.Wake(lookSchedule, c.now)
	if now == nil {
		c.scheduling.RemoveVolume(old)
		return
	}
	c.scheduling.SetVolume(now)
	if ref := now.Spec.ClaimRef; ref != nil {
		c.enqueue(lookClaim, name{ref.Namespace, ref.Name})
	}
}

// syncClaim binds a claim to the volume that is meant for it. There are no classes: none is
// made for it.
func (c *controllers) syncClaim(key string, of name) {
	claim, known := c.disks.claims.get(of)
	if !known {
		return
	}
	decision := persistentvolume.Decide(persistentvolume.View{Claim: claim, Volumes: c.disks.volumes.all()})
	volume := decision.VolumeBound
	runInOrder([]func(func(error)){
		func(then func(error)) {
			if decision.Volume == nil {
				then(nil)
				return
			}
			c.write(binderController, updateOf(volumesResource, decision.Volume, ""), decision.Volume, func(got Outcome) {
				if stored, is := got.Object.(*corev1.PersistentVolume); is && volume != nil {
					volume = stored
				}
				then(got.Err)
			})
		},
		func(then func(error)) {
			if volume == nil {
				then(nil)
				return
			}
			updated := volume.DeepCopy()
			updated.Status.Phase = corev1.VolumeBound
			c.write(binderController, updateOf(volumesResource, updated, "status"), volume, func(got Outcome) { then(got.Err) })
		},
		func(then func(error)) {
			if decision.Claim == nil {
				then(nil)
				return
			}
			c.write(binderController, updateOf(claimsResource, decision.Claim, ""), decision.Claim, func(got Outcome) {
				if stored, is := got.Object.(*corev1.PersistentVolumeClaim); is {
					claim = stored
				}
				then(got.Err)
			})
		},
		func(then func(error)) {
			if decision.Status == nil {
				then(nil)
				return
			}
			updated := claim.DeepCopy()
			updated.Status = *decision.Status
			c.write(binderController, updateOf(claimsResource, updated, "status"), claim, func(got Outcome) { then(got.Err) })
		},
	}, c.start(key))
}
