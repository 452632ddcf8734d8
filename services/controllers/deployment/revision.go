package deployment

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/controllers/workload"
)

// The annotations that a rollout keeps on its Deployment and ReplicaSets.
const (
	RevisionAnnotation        = "deployment.kubernetes.io/revision"
	historyAnnotation         = "deployment.kubernetes.io/revision-history"
	desiredReplicasAnnotation = "deployment.kubernetes.io/desired-replicas"
	maxReplicasAnnotation     = "deployment.kubernetes.io/max-replicas"
	lastAppliedAnnotation     = "kubectl.kubernetes.io/last-applied-configuration"
)

// maxHistoryLength is the largest length, in bytes, of the list of a set's former revisions.
const maxHistoryLength = 2000

// sortSets finds the set of the current template: the oldest of those that are equal to it but for
// the hash. The others are old.
func (s *planning) sortSets() {
	s.oldSets = slices.Clone(s.Sets)
	slices.SortFunc(s.oldSets, byAge)
	i := slices.IndexFunc(s.oldSets, func(set *appsv1.ReplicaSet) bool {
		return SameTemplate(&set.Spec.Template, &s.Deployment.Spec.Template)
	})
	if i >= 0 {
		s.newSet = s.oldSets[i]
		s.oldSets = slices.Delete(s.oldSets, i, i+1)
	}
}

// SameTemplate reports whether two templates are equal but for their hash label (EqualIgnoreHash).
func SameTemplate(a, b *corev1.PodTemplateSpec) bool {
	a, b = a.DeepCopy(), b.DeepCopy()
	delete(a.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
	delete(b.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
	return kinds.Equal(a, b)
}

func byAge(a, b *appsv1.ReplicaSet) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// syncRevision updates the revisions if there is a set of the current template: the newest revision
// is its, and the Deployment's (getNewReplicaSet).
func (s *planning) syncRevision() {
	if s.newSet == nil {
		return
	}
	set := s.newSet.DeepCopy()
	changed := s.annotate(set, s.nextRevision())
	if changed || set.Spec.MinReadySeconds != s.Deployment.Spec.MinReadySeconds {
		set.Spec.MinReadySeconds = s.Deployment.Spec.MinReadySeconds
		s.Scale = append(s.Scale, Scaling{Set: set})
		s.newSet = set
	}
	s.setRevision(set.Annotations[RevisionAnnotation])
	if s.hasTimeout() && s.progressingCondition() == nil {
		s.setCondition(appsv1.DeploymentProgressing, corev1.ConditionTrue, "FoundNewReplicaSet", fmt.Sprintf("Found new replica set %q", set.Name))
	}
}

// planNewSet plans to create the set of the current template.
func (s *planning) planNewSet() {
	template := s.Deployment.Spec.Template.DeepCopy()
	hash := workload.TemplateHash(&s.Deployment.Spec.Template, s.Deployment.Status.CollisionCount)
	template.Labels = withHashLabel(template.Labels, hash)
	selector := s.Deployment.Spec.Selector.DeepCopy()
	if selector == nil {
		selector = &metav1.LabelSelector{MatchLabels: s.Deployment.Spec.Template.Labels}
	}
	selector.MatchLabels = withHashLabel(selector.MatchLabels, hash)
	set := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Deployment.Namespace, Name: s.Deployment.Name + "-" + hash, Labels: maps.Clone(template.Labels),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(s.Deployment, appsv1.SchemeGroupVersion.WithKind("Deployment"))},
		},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: new(int32(0)), MinReadySeconds: s.Deployment.Spec.MinReadySeconds, Selector: selector, Template: *template,
		},
	}
	*set.Spec.Replicas = s.newSetReplicas(set)
	s.annotate(set, s.nextRevision())
	s.setSizeAnnotations(set)
	s.Create = set
}

// AfterCreate returns the view after a set was created at now.
func AfterCreate(v View, set *appsv1.ReplicaSet, now time.Time) View {
	if v.Stored == nil {
		v.Stored = v.Deployment
	}
	s := &planning{View: View{Deployment: v.Deployment.DeepCopy()}, now: now}
	s.setDefaults()
	s.setRevision(set.Annotations[RevisionAnnotation])
	if s.hasTimeout() {
		s.setCondition(appsv1.DeploymentProgressing, corev1.ConditionTrue, "NewReplicaSetCreated", fmt.Sprintf("Created new replica set %q", set.Name))
	}
	v.Deployment, v.Sets = s.Deployment, append(slices.Clone(v.Sets), set)
	return v
}

// AfterCreateFailed returns the Deployment after a set could not be created at now.
func AfterCreateFailed(v View, set *appsv1.ReplicaSet, cause error, now time.Time) (*appsv1.Deployment, Event) {
	s := &planning{View: View{Deployment: v.Deployment.DeepCopy()}, now: now}
	s.setDefaults()
	message := fmt.Sprintf("Failed to create new replica set %q: %v", set.Name, cause)
	if s.hasTimeout() {
		s.setCondition(appsv1.DeploymentProgressing, corev1.ConditionFalse, "ReplicaSetCreateError", message)
	}
	return s.Deployment, Event{corev1.EventTypeWarning, "ReplicaSetCreateError", message}
}

// IsNewSetOf reports whether a set that has the name of the one to be created is that very one,
// which the view does not show yet.
func IsNewSetOf(d *appsv1.Deployment, existing *appsv1.ReplicaSet) bool {
	return metav1.IsControlledBy(existing, d) && SameTemplate(&existing.Spec.Template, &d.Spec.Template)
}

// WithCollision returns the Deployment after the name of its set was found to be taken by another.
func WithCollision(d *appsv1.Deployment) *appsv1.Deployment {
	d = d.DeepCopy()
	if d.Status.CollisionCount == nil {
		d.Status.CollisionCount = new(int32(0))
	}
	*d.Status.CollisionCount++
	return d
}

func withHashLabel(labels map[string]string, hash string) map[string]string {
	labels = maps.Clone(labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[appsv1.DefaultDeploymentUniqueLabelKey] = hash
	return labels
}

// nextRevision returns the revision for the set of the current template: one more than that of any
// other set.
func (s *planning) nextRevision() int64 {
	var most int64
	for _, set := range s.oldSets {
		most = max(most, revisionOf(set))
	}
	return most + 1
}

// revisionOf returns the revision of a set; 0 if it has none that can be parsed.
func revisionOf(set *appsv1.ReplicaSet) int64 {
	number, err := strconv.ParseInt(set.Annotations[RevisionAnnotation], 10, 64)
	if err != nil {
		return 0
	}
	return number
}

func (s *planning) setRevision(revision string) {
	if s.Deployment.Annotations[RevisionAnnotation] != revision {
		if s.Deployment.Annotations == nil {
			s.Deployment.Annotations = map[string]string{}
		}
		s.Deployment.Annotations[RevisionAnnotation] = revision
	}
}

// annotate copies the Deployment's annotations to a set and sets its revision. It reports whether
// that changed anything (SetNewReplicaSetAnnotations).
func (s *planning) annotate(set *appsv1.ReplicaSet, next int64) bool {
	if set.Annotations == nil {
		set.Annotations = map[string]string{}
	}
	changed := false
	for key, value := range s.Deployment.Annotations {
		if kept, exists := set.Annotations[key]; !isCopiedAnnotation(key) || (exists && kept == value) {
			continue
		}
		set.Annotations[key] = value
		changed = true
	}
	old := set.Annotations[RevisionAnnotation]
	number, err := strconv.ParseInt(old, 10, 64)
	if err != nil && old != "" {
		return changed
	}
	if number < next {
		set.Annotations[RevisionAnnotation] = strconv.FormatInt(next, 10)
		changed = true
		if old != "" {
			appendRevisionHistory(set, old)
		}
	}
	return changed
}

// isCopiedAnnotation reports whether a Deployment's annotation is copied to its ReplicaSets.
func isCopiedAnnotation(key string) bool {
	switch key {
	case lastAppliedAnnotation, RevisionAnnotation, historyAnnotation, desiredReplicasAnnotation, maxReplicasAnnotation, appsv1.DeprecatedRollbackTo:
		return false
	}
	return true
}

// appendRevisionHistory adds a revision to a set's former ones. The oldest are dropped if the list
// gets too long.
func appendRevisionHistory(set *appsv1.ReplicaSet, old string) {
	history := set.Annotations[historyAnnotation]
	if history == "" {
		set.Annotations[historyAnnotation] = old
		return
	}
	all := append(strings.Split(history, ","), old)
	for len(all) > 1 && len(strings.Join(all, ",")) > maxHistoryLength {
		all = all[1:]
	}
	set.Annotations[historyAnnotation] = strings.Join(all, ",")
}

// setSizeAnnotations notes on a set how many pods the Deployment wants and how many it may have at
// most. It reports whether that changed anything (SetReplicasAnnotations).
func (s *planning) setSizeAnnotations(set *appsv1.ReplicaSet) bool {
	desired, most := fmt.Sprint(s.replicas()), fmt.Sprint(s.replicas()+s.maxSurge())
	if set.Annotations[desiredReplicasAnnotation] == desired && set.Annotations[maxReplicasAnnotation] == most {
		return false
	}
	if set.Annotations == nil {
		set.Annotations = map[string]string{}
	}
	set.Annotations[desiredReplicasAnnotation], set.Annotations[maxReplicasAnnotation] = desired, most
	return true
}

// intAnnotation returns an annotation that holds a number.
func intAnnotation(set *appsv1.ReplicaSet, annotation string) (int32, bool) {
	text, ok := set.Annotations[annotation]
	if !ok {
		return 0, false
	}
	value, err := strconv.ParseInt(text, 10, 32)
	return int32(value), err == nil
}

// cleanUp plans to delete the oldest empty sets beyond the history limit (cleanupDeployment). It
// spares sets that this very step has scaled; upstream deletes such a set if a Deployment is
// paused, has no pods, and is scaled.
func (s *planning) cleanUp() {
	limit := *s.Deployment.Spec.RevisionHistoryLimit
	if limit == math.MaxInt32 {
		return
	}
	alive := slices.DeleteFunc(slices.Clone(s.oldSets), func(set *appsv1.ReplicaSet) bool { return set.DeletionTimestamp != nil })
	excess := len(alive) - int(limit)
	if excess <= 0 {
		return
	}
	slices.SortStableFunc(alive, func(a, b *appsv1.ReplicaSet) int { return cmp.Compare(revisionOf(a), revisionOf(b)) })
	for _, set := range alive[:excess] {
		if set.Status.Replicas == 0 && replicasOf(set) == 0 && set.Generation <= set.Status.ObservedGeneration && s.scaleIndex(set) < 0 {
			s.Delete = append(s.Delete, set)
		}
	}
}

// rollBack plans to restore an old template, as the annotation of extensions/v1beta1 asks.
func (s *planning) rollBack() {
	wanted, err := strconv.ParseInt(s.Deployment.Annotations[appsv1.DeprecatedRollbackTo], 10, 64)
	delete(s.Deployment.Annotations, appsv1.DeprecatedRollbackTo)
	s.RolledBack = s.Deployment
	if wanted == 0 && err == nil {
		if wanted = s.previousRevision(); wanted == 0 {
			s.Events = append(s.Events, Event{corev1.EventTypeWarning, "DeploymentRollbackRevisionNotFound", "Unable to find last revision."})
			return
		}
	}
	for _, set := range s.allSets() {
		if revisionOf(set) != wanted {
			continue
		}
		if SameTemplate(&set.Spec.Template, &s.Deployment.Spec.Template) {
			s.Events = append(s.Events, Event{
				corev1.EventTypeWarning, "DeploymentRollbackTemplateUnchanged",
				fmt.Sprintf("The rollback revision contains the same template as current deployment %q", s.Deployment.Name),
			})
			return
		}
		template := set.Spec.Template.DeepCopy()
		delete(template.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
		s.Deployment.Spec.Template = *template
		s.Events = append(s.Events, Event{
			corev1.EventTypeNormal, "DeploymentRollback",
			fmt.Sprintf("Rolled back deployment %q to revision %d", s.Deployment.Name, wanted),
		})
		return
	}
	s.Events = append(s.Events, Event{corev1.EventTypeWarning, "DeploymentRollbackRevisionNotFound", "Unable to find the revision to rollback to."})
}

// previousRevision returns the revision before the newest; 0 if there is none.
func (s *planning) previousRevision() int64 {
	var newest, second int64
	for _, set := range s.allSets() {
		if number := revisionOf(set); number >= newest {
			newest, second = number, newest
		} else {
			second = max(second, number)
		}
	}
	return second
}
