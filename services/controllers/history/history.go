// Package history keeps the templates that a StatefulSet or a DaemonSet had, as
// ControllerRevisions. It is pure except for [Keep] and [Truncate].
package history

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/podfall/podfall/services/controllers/control"
)

// HashLabel is the label with a revision's hash.
const HashLabel = "controller.kubernetes.io/hash"

// maxNamePrefix is the longest part of the owner's name in a revision's name.
const maxNamePrefix = 223

// Owner is the owner of the templates.
type Owner struct {
	Object   metav1.Object
	Kind     schema.GroupVersionKind
	Template *corev1.PodTemplateSpec
	// Labels are the labels of the revisions besides the hash.
	Labels map[string]string
	// Collisions is how often a name was taken; nil means never.
	Collisions *int32
}

// Data returns a template as stored in a revision: a patch that replaces the template.
func Data(template *corev1.PodTemplateSpec) ([]byte, error) {
	encoded, err := json.Marshal(template)
	if err != nil {
		return nil, err
	}
	var content map[string]any
	if err := utiljson.Unmarshal(encoded, &content); err != nil { // keeps integers whole
		return nil, err
	}
	content["$patch"] = "replace"
	return json.Marshal(map[string]any{"spec": map[string]any{"template": content}})
}

// Template returns the template in a revision.
func Template(revision *appsv1.ControllerRevision) (*corev1.PodTemplateSpec, error) {
	var content struct {
		Spec struct {
			Template corev1.PodTemplateSpec `json:"template"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(revision.Data.Raw, &content); err != nil {
		return nil, fmt.Errorf("ControllerRevision %s/%s: %w", revision.Namespace, revision.Name, err)
	}
	return &content.Spec.Template, nil
}

// New returns the revision of the owner's template (NewControllerRevision).
func New(owner Owner, number int64) (*appsv1.ControllerRevision, error) {
	data, err := Data(owner.Template)
	if err != nil {
		return nil, err
	}
	sum := fnv.New32()
	_, _ = sum.Write(data)
	if owner.Collisions != nil {
		_, _ = fmt.Fprint(sum, *owner.Collisions)
	}
	hash := rand.SafeEncodeString(fmt.Sprint(sum.Sum32()))
	prefix := owner.Object.GetName()
	if len(prefix) > maxNamePrefix {
		prefix = prefix[:maxNamePrefix]
	}
	labels := maps.Clone(owner.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[HashLabel] = hash
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: owner.Object.GetNamespace(), Name: prefix + "-" + hash, Labels: labels,
			Annotations:     maps.Clone(owner.Object.GetAnnotations()),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner.Object, owner.Kind)},
		},
		Data: runtime.RawExtension{Raw: data}, Revision: number,
	}, nil
}

// Sort orders revisions by number, creation time and name.
func Sort(revisions []*appsv1.ControllerRevision) {
	slices.SortStableFunc(revisions, func(a, b *appsv1.ControllerRevision) int {
		return cmp.Or(cmp.Compare(a.Revision, b.Revision), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
}

// Equal reports whether two revisions have the same template.
func Equal(a, b *appsv1.ControllerRevision) bool {
	if bytes.Equal(a.Data.Raw, b.Data.Raw) {
		return true
	}
	var left, right any
	if utiljson.Unmarshal(a.Data.Raw, &left) != nil || utiljson.Unmarshal(b.Data.Raw, &right) != nil {
		return false
	}
	x, _ := json.Marshal(left)
	y, _ := json.Marshal(right)
	return bytes.Equal(x, y)
}

// Next returns the number after those of sorted revisions.
func Next(revisions []*appsv1.ControllerRevision) int64 {
	if len(revisions) == 0 {
		return 1
	}
	return revisions[len(revisions)-1].Revision + 1
}

// Excess returns the oldest unused ones of sorted revisions, beyond limit.
func Excess(revisions []*appsv1.ControllerRevision, limit int32, used func(*appsv1.ControllerRevision) bool) []*appsv1.ControllerRevision {
	var idle []*appsv1.ControllerRevision
	for _, revision := range revisions {
		if !used(revision) {
			idle = append(idle, revision)
		}
	}
	return idle[:max(len(idle)-int(limit), 0)]
}

// Kept is the result of Keep.
type Kept struct {
	// Update is the revision of the template; Revisions are all revisions including it, sorted.
	Update    *appsv1.ControllerRevision
	Revisions []*appsv1.ControllerRevision
	// Collisions is Owner.Collisions, or more if names were taken.
	Collisions *int32
}

// Keep returns the revision of the owner's template. It stores a new one, or gives an existing one
// the highest number (getStatefulSetRevisions).
func Keep(ctx context.Context, writes control.Resource[*appsv1.ControllerRevision], owner Owner, revisions []*appsv1.ControllerRevision) (Kept, error) {
	Sort(revisions)
	wanted, err := New(owner, Next(revisions))
	if err != nil {
		return Kept{}, err
	}
	last := len(revisions) - 1
	at := last
	for at >= 0 && !Equal(revisions[at], wanted) {
		at--
	}
	if at >= 0 && at == last {
		return Kept{Update: revisions[at], Revisions: revisions, Collisions: owner.Collisions}, nil
	}
	if at >= 0 {
		raised := revisions[at].DeepCopy()
		raised.Revision = wanted.Revision
		if raised, err = writes.Update(ctx, raised); err != nil {
			return Kept{}, err
		}
		revisions = append(slices.Delete(slices.Clone(revisions), at, at+1), raised)
		return Kept{Update: raised, Revisions: revisions, Collisions: owner.Collisions}, nil
	}
	made, err := store(ctx, writes, &owner, wanted)
	if err != nil {
		return Kept{}, err
	}
	return Kept{Update: made, Revisions: append(slices.Clone(revisions), made), Collisions: owner.Collisions}, nil
}

// store stores a new revision. If its name is taken by another template, it tries another name. If
// the same revision exists already, which the view does not show yet, it returns that.
func store(ctx context.Context, writes control.Resource[*appsv1.ControllerRevision], owner *Owner, wanted *appsv1.ControllerRevision) (*appsv1.ControllerRevision, error) {
	for {
		made, err := writes.Create(ctx, wanted)
		if !apierrors.IsAlreadyExists(err) {
			return made, err
		}
		made, err = writes.Get(ctx, wanted.Namespace, wanted.Name)
		if err != nil || Equal(made, wanted) {
			return made, err
		}
		collisions := int32(1)
		if owner.Collisions != nil {
			collisions += *owner.Collisions
		}
		owner.Collisions = &collisions
		if wanted, err = New(*owner, wanted.Revision); err != nil {
			return nil, err
		}
	}
}

// defaultLimit is how many old revisions are kept by default.
const defaultLimit = 10

// Truncate deletes the oldest unused revisions, beyond a limit.
func Truncate(
	ctx context.Context, writes control.Resource[*appsv1.ControllerRevision], revisions []*appsv1.ControllerRevision, limit *int32,
	used func(*appsv1.ControllerRevision) bool,
) error {
	keep := int32(defaultLimit)
	if limit != nil {
		keep = *limit
	}
	for _, revision := range Excess(revisions, keep, used) {
		if err := writes.Delete(ctx, revision, metav1.DeleteOptions{}); err != nil && !control.IsGone(err) {
			return err
		}
	}
	return nil
}
