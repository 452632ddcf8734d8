package registry

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	unversioned "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// checkAffinity checks node and pod affinity.
func (c *podValidator) checkAffinity(at *field.Path) {
	affinity := c.pod.Spec.Affinity
	if affinity == nil {
		return
	}
	if node := affinity.NodeAffinity; node != nil {
		c.checkNodeAffinity(at.Child("nodeAffinity"), node)
	}
	if pods := affinity.PodAffinity; pods != nil {
		c.checkPodAffinity(at.Child("podAffinity"), pods.RequiredDuringSchedulingIgnoredDuringExecution,
			pods.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if pods := affinity.PodAntiAffinity; pods != nil {
		c.checkPodAffinity(at.Child("podAntiAffinity"), pods.RequiredDuringSchedulingIgnoredDuringExecution,
			pods.PreferredDuringSchedulingIgnoredDuringExecution)
	}
}

// The two strengths of a wish.
const (
	// requiredAffinity and preferredAffinity are the names of the two kinds of affinity terms.
	requiredAffinity  = "requiredDuringSchedulingIgnoredDuringExecution"
	preferredAffinity = "preferredDuringSchedulingIgnoredDuringExecution"
)

func (f *findings) checkNodeAffinity(at *field.Path, affinity *corev1.NodeAffinity) {
	if selector := affinity.RequiredDuringSchedulingIgnoredDuringExecution; selector != nil {
		terms := at.Child(requiredAffinity, "nodeSelectorTerms")
		if len(selector.NodeSelectorTerms) == 0 {
			f.required(terms, "must have at least one node selector term")
		}
		for i := range selector.NodeSelectorTerms {
			f.checkNodeTerm(terms.Index(i), &selector.NodeSelectorTerms[i])
		}
	}
	for i, term := range affinity.PreferredDuringSchedulingIgnoredDuringExecution {
		item := at.Child(preferredAffinity).Index(i)
		f.checkWeight(item.Child("weight"), term.Weight)
		f.checkNodeTerm(item.Child("preference"), &term.Preference)
	}
}

func (f *findings) checkWeight(at *field.Path, weight int32) {
	if weight <= 0 || weight > 100 {
		f.invalid(at, weight, "must be in the range 1-100")
	}
}

func (f *findings) checkNodeTerm(at *field.Path, term *corev1.NodeSelectorTerm) {
	for i, expression := range term.MatchExpressions {
		item := at.Child("matchExpressions").Index(i)
		f.checkNodeExpression(item, expression)
		f.add(unversioned.ValidateLabelName(expression.Key, item.Child("key"))...)
	}
	for i, expression := range term.MatchFields {
		f.checkNodeField(at.Child("matchFields").Index(i), expression)
	}
}

func (f *findings) checkNodeExpression(at *field.Path, expression corev1.NodeSelectorRequirement) {
	values := at.Child("values")
	switch expression.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		if len(expression.Values) == 0 {
			f.required(values, "must be specified when `operator` is 'In' or 'NotIn'")
		}
	case corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist:
		if len(expression.Values) > 0 {
			f.forbidden(values, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
		}
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		if len(expression.Values) != 1 {
			f.required(values, "must be specified single value when `operator` is 'Lt' or 'Gt'")
		}
	default:
		f.invalid(at.Child("operator"), expression.Operator, "not a valid selector operator")
	}
}

// checkNodeField checks a term about a field of the node. Only its name can be selected by.
func (f *findings) checkNodeField(at *field.Path, expression corev1.NodeSelectorRequirement) {
	if operator := expression.Operator; operator != corev1.NodeSelectorOpIn && operator != corev1.NodeSelectorOpNotIn {
		f.invalid(at.Child("operator"), operator, "not a valid selector operator")
	} else if len(expression.Values) != 1 {
		f.required(at.Child("values"), "must be only one value when `operator` is 'In' or 'NotIn' for node field selector")
	}
	if expression.Key != "metadata.name" {
		f.invalid(at.Child("key"), expression.Key, "not a valid field selector key")
		return
	}
	for i, name := range expression.Values {
		f.invalid(at.Child("values").Index(i), name, validation.IsDNS1123Subdomain(name)...)
	}
}

// checkPodAffinity checks the terms of pod affinity or anti-affinity.
func (f *findings) checkPodAffinity(at *field.Path, must []corev1.PodAffinityTerm, should []corev1.WeightedPodAffinityTerm) {
	for i := range must {
		f.checkPodAffinityTerm(at.Child(requiredAffinity).Index(i), &must[i])
	}
	for i := range should {
		item := at.Child(preferredAffinity).Index(i)
		f.checkWeight(item.Child("weight"), should[i].Weight)
		f.checkPodAffinityTerm(item.Child("podAffinityTerm"), &should[i].PodAffinityTerm)
	}
}

func (f *findings) checkPodAffinityTerm(at *field.Path, term *corev1.PodAffinityTerm) {
	f.checkSelector(at.Child("labelSelector"), term.LabelSelector)
	f.checkSelector(at.Child("namespaceSelector"), term.NamespaceSelector)
	for _, name := range term.Namespaces {
		f.invalid(at.Child("namespace"), name, validation.IsDNS1123Label(name)...)
	}
	if term.TopologyKey == "" {
		f.required(at.Child("topologyKey"), "can not be empty")
	}
	f.add(unversioned.ValidateLabelName(term.TopologyKey, at.Child("topologyKey"))...)
}

// checkTopologySpread checks the topology spread constraints.
func (c *podValidator) checkTopologySpread(at *field.Path) {
	seen := map[[2]string]bool{}
	for i, constraint := range c.pod.Spec.TopologySpreadConstraints {
		item := at.Index(i)
		if constraint.MaxSkew <= 0 {
			c.invalid(item.Child("maxSkew"), constraint.MaxSkew, "must be greater than zero")
		}
		if constraint.TopologyKey == "" {
			c.required(item.Child("topologyKey"), "can not be empty")
		}
		actions := []corev1.UnsatisfiableConstraintAction{corev1.DoNotSchedule, corev1.ScheduleAnyway}
		if !slices.Contains(actions, constraint.WhenUnsatisfiable) {
			c.add(field.NotSupported(item.Child("whenUnsatisfiable"), constraint.WhenUnsatisfiable, actions))
		}
		key := [2]string{constraint.TopologyKey, string(constraint.WhenUnsatisfiable)}
		if seen[key] {
			c.add(field.Duplicate(item.Child("{topologyKey, whenUnsatisfiable}"), fmt.Sprintf("{%v, %v}", key[0], key[1])))
		}
		seen[key] = true
		c.checkMinDomains(item.Child("minDomains"), constraint)
		c.checkSelector(item.Child("labelSelector"), constraint.LabelSelector)
	}
}

func (f *findings) checkMinDomains(at *field.Path, constraint corev1.TopologySpreadConstraint) {
	least := constraint.MinDomains
	if least == nil {
		return
	}
	if *least <= 0 {
		f.invalid(at, *least, "must be greater than zero")
	}
	if constraint.WhenUnsatisfiable != corev1.DoNotSchedule {
		f.invalid(at, *least, fmt.Sprintf("can only use minDomains if whenUnsatisfiable=%s, not %s",
			corev1.DoNotSchedule, constraint.WhenUnsatisfiable))
	}
}

// checkPodSecurity checks the user and group ids of a Pod.
func (c *podValidator) checkPodSecurity(at *field.Path) {
	context := c.pod.Spec.SecurityContext
	if context == nil {
		return
	}
	c.checkID(at.Child("fsGroup"), context.FSGroup)
	c.checkID(at.Child("runAsUser"), context.RunAsUser)
	c.checkID(at.Child("runAsGroup"), context.RunAsGroup)
	for i := range context.SupplementalGroups {
		c.checkID(at.Child("supplementalGroups").Index(i), &context.SupplementalGroups[i])
	}
}

// checkContainerSecurity checks the ids and privileges of a container.
func (f *findings) checkContainerSecurity(at *field.Path, context *corev1.SecurityContext) {
	if context == nil {
		return
	}
	f.checkID(at.Child("runAsUser"), context.RunAsUser)
	f.checkID(at.Child("runAsGroup"), context.RunAsGroup)
	escalates := context.AllowPrivilegeEscalation
	if escalates == nil || *escalates {
		return
	}
	if context.Privileged != nil && *context.Privileged {
		f.invalid(at, context, "cannot set `allowPrivilegeEscalation` to false and `privileged` to true")
	}
	if context.Capabilities != nil && slices.Contains(context.Capabilities.Add, "CAP_SYS_ADMIN") {
		f.invalid(at, context, "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN")
	}
}

// checkID checks the number of a user or of a group.
func (f *findings) checkID(at *field.Path, id *int64) {
	if id != nil {
		f.invalid(at, *id, validation.IsValidUserID(*id)...)
	}
}
