package registry

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	unversioned "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/podfall/podfall/proto/kinds"
)

// nodeStrategy is the strategy of Nodes. A Node may be created with its status, because a kubelet
// registers with one.
type nodeStrategy struct{ generic }

func (nodeStrategy) PrepareForCreate(obj kinds.Object, _ time.Time) {
	defaultNode(as[*corev1.Node](obj))
}

// defaultNode sets allocatable to capacity, unless the node says otherwise.
func defaultNode(node *corev1.Node) {
	if node.Status.Allocatable == nil && node.Status.Capacity != nil {
		node.Status.Allocatable = node.Status.Capacity.DeepCopy()
	}
	if node.Spec.PodCIDR != "" && len(node.Spec.PodCIDRs) == 0 {
		node.Spec.PodCIDRs = []string{node.Spec.PodCIDR}
	}
}

func (s nodeStrategy) Validate(obj kinds.Object) field.ErrorList {
	return append(ValidateMeta(s.kind, obj), validateNode(as[*corev1.Node](obj))...)
}

func (s nodeStrategy) PrepareForUpdate(obj, old kinds.Object, subresource string) {
	s.generic.PrepareForUpdate(obj, old, subresource)
	defaultNode(as[*corev1.Node](obj))
}

func (s nodeStrategy) ValidateUpdate(obj, old kinds.Object, _ string) field.ErrorList {
	node, before := as[*corev1.Node](obj), as[*corev1.Node](old)
	errs := append(validateKindMetaUpdate(obj, old), validateNode(node)...)
	f := &findings{errs: errs}
	seen := map[corev1.NodeAddress]bool{}
	for i, address := range node.Status.Addresses {
		if seen[address] {
			f.add(field.Duplicate(field.NewPath("status", "addresses").Index(i), address))
		}
		seen[address] = true
	}
	if was := before.Spec.PodCIDRs; len(was) > 0 && !slices.Equal(was, node.Spec.PodCIDRs) {
		f.forbidden(field.NewPath("spec", "podCIDRs"), `node updates may not change podCIDR except from "" to valid`)
	}
	at := field.NewPath("spec", "providerID")
	switch was, now := before.Spec.ProviderID, node.Spec.ProviderID; {
	case was == "" || was == now:
	case now == "":
		f.add(field.Invalid(at, nil, "field cannot be cleared once set"))
	default:
		f.add(field.Invalid(at, nil, "field cannot be modified once set"))
	}
	return f.errs
}

func (s nodeStrategy) Fields(obj kinds.Object) fields.Set {
	set := s.generic.Fields(obj)
	set["spec.unschedulable"] = strconv.FormatBool(as[*corev1.Node](obj).Spec.Unschedulable)
	return set
}

// validateNode returns what is wrong with a Node besides its metadata. Upstream's path of the
// taints is below metadata.
func validateNode(node *corev1.Node) field.ErrorList {
	f := &findings{}
	f.checkTaints(node.Spec.Taints, field.NewPath("metadata", "taints"))
	for _, name := range slices.Sorted(maps.Keys(node.Status.Capacity)) {
		f.checkNodeResource(name, node.Status.Capacity, field.NewPath("status", "capacity", string(name)))
	}
	for _, name := range slices.Sorted(maps.Keys(node.Status.Allocatable)) {
		f.checkNodeResource(name, node.Status.Allocatable, field.NewPath("status", "allocatable", string(name)))
	}
	cidrs := field.NewPath("spec", "podCIDRs")
	for i, cidr := range node.Spec.PodCIDRs {
		f.add(validation.IsValidCIDRForLegacyField(cidrs.Index(i), cidr, false, nil)...)
	}
	if len(node.Spec.PodCIDRs) > 2 {
		f.invalid(cidrs, node.Spec.PodCIDRs, "may specify no more than one CIDR for each IP family")
	}
	return f.errs
}

// checkNodeResource checks one of a node's resources.
func (f *findings) checkNodeResource(name corev1.ResourceName, list corev1.ResourceList, at *field.Path) {
	quantity := list[name]
	f.checkQuantity(at, quantity)
	if (name == corev1.ResourcePods || !isNativeResource(name)) && quantity.MilliValue()%1000 != 0 {
		f.invalid(at, quantity, "must be an integer")
	}
}

// checkTaints requires taints to be well formed, and unique by key and effect.
func (f *findings) checkTaints(taints []corev1.Taint, at *field.Path) {
	type identity struct {
		key    string
		effect corev1.TaintEffect
	}
	seen := map[identity]bool{}
	for i, taint := range taints {
		item := at.Index(i)
		f.add(unversioned.ValidateLabelName(taint.Key, item.Child("key"))...)
		if wrong := validation.IsValidLabelValue(taint.Value); len(wrong) > 0 {
			f.invalid(item.Child("value"), taint.Value, strings.Join(wrong, ";"))
		}
		f.checkTaintEffect(item.Child("effect"), taint.Effect)
		id := identity{taint.Key, taint.Effect}
		if seen[id] {
			duplicate := field.Duplicate(item, taint)
			duplicate.Detail = "taints must be unique by key and effect pair"
			f.add(duplicate)
		}
		seen[id] = true
	}
}
