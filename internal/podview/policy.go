package podview

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podfall/podfall/proto/kinds"
)

// policyPrinter prints policies, classes, quotas and role bindings.
func policyPrinter(gvk schema.GroupVersionKind) (printer, bool) {
	if showsCreationTime(gvk.GroupKind()) {
		return newPrinter(func(_ View, obj kinds.Object) []any {
			return []any{obj.GetName(), formatDate(obj.GetCreationTimestamp().Time)}
		}, nameColumn(), createdAtColumn()), true
	}
	switch gvk {
	case autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"):
		docs := autoscalingv2.HorizontalPodAutoscalerSpec{}.SwaggerDoc()
		return newPrinter(
			View.autoscalerCells,
			nameColumn(), textColumn("Reference", docs["scaleTargetRef"]), textColumn("Targets", docs["metrics"]), textColumn("MinPods", docs["minReplicas"]),
			textColumn("MaxPods", docs["maxReplicas"]),
			textColumn("Replicas", autoscalingv2.HorizontalPodAutoscalerStatus{}.SwaggerDoc()["currentReplicas"]), ageColumn(),
		), true
	case networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy"):
		return newPrinter(func(v View, policy *networkingv1.NetworkPolicy) []any {
			return []any{policy.Name, selectorText(&policy.Spec.PodSelector), v.objectAge(policy)}
		}, nameColumn(), textColumn("Pod-Selector", networkingv1.NetworkPolicySpec{}.SwaggerDoc()["podSelector"]), ageColumn()), true
	case schedulingv1.SchemeGroupVersion.WithKind("PriorityClass"):
		docs := schedulingv1.PriorityClass{}.SwaggerDoc()
		return newPrinter(
			func(v View, class *schedulingv1.PriorityClass) []any {
				policy := string(valueOr(class.PreemptionPolicy, corev1.PreemptLowerPriority))
				return []any{class.Name, int64(class.Value), class.GlobalDefault, v.objectAge(class), policy}
			},
			nameColumn(), numberColumn("Value", docs["value"]), boolColumn("Global-Default", docs["globalDefault"]), ageColumn(),
			textColumn("PreemptionPolicy", docs["preemptionPolicy"]),
		), true
	case nodev1.SchemeGroupVersion.WithKind("RuntimeClass"):
		return newPrinter(func(v View, class *nodev1.RuntimeClass) []any {
			return []any{class.Name, class.Handler, v.objectAge(class)}
		}, nameColumn(), textColumn("Handler", nodev1.RuntimeClass{}.SwaggerDoc()["handler"]), ageColumn()), true
	case corev1.SchemeGroupVersion.WithKind("ResourceQuota"):
		return newPrinter(
			View.quotaCells,
			nameColumn(),
			textColumn("Request", "Request represents a minimum amount of cpu/memory that a container may consume."),
			textColumn("Limit", "Limits control the maximum amount of cpu/memory that a container may use independent of contention on the node."),
			ageColumn(),
		), true
	case corev1.SchemeGroupVersion.WithKind("PodTemplate"):
		return newPrinter(func(_ View, template *corev1.PodTemplate) []any {
			cells := append([]any{template.Name}, templateCells(template.Template.Spec)...)
			return append(cells, labels.FormatLabels(template.Template.Labels))
		}, nameColumn(), textColumn("Containers", "Names of each container in the template."),
			textColumn("Images", "Images referenced by each container in the template."),
			textColumn("Pod Labels", "The labels for the pod template.")), true
	case appsv1.SchemeGroupVersion.WithKind("ControllerRevision"):
		return newPrinter(
			View.revisionCells,
			nameColumn(), textColumn("Controller", "Controller of the object"),
			numberColumn("Revision", appsv1.ControllerRevision{}.SwaggerDoc()["revision"]), ageColumn(),
		), true
	case rbacv1.SchemeGroupVersion.WithKind("RoleBinding"):
		return newPrinter(func(v View, b *rbacv1.RoleBinding) []any {
			return v.roleBindingCells(b, b.RoleRef, b.Subjects)
		}, bindingColumns(rbacv1.RoleBinding{}.SwaggerDoc())...), true
	case rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"):
		return newPrinter(func(v View, b *rbacv1.ClusterRoleBinding) []any {
			return v.roleBindingCells(b, b.RoleRef, b.Subjects)
		}, bindingColumns(rbacv1.ClusterRoleBinding{}.SwaggerDoc())...), true
	}
	return printer{}, false
}

// showsCreationTime reports whether upstream prints the creation time of a kind instead of its age.
func showsCreationTime(kind schema.GroupKind) bool {
	switch kind {
	case schema.GroupKind{Group: "rbac.authorization.k8s.io", Kind: "Role"},
		schema.GroupKind{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"},
		schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"},
		schema.GroupKind{Kind: "LimitRange"}:
		return true
	}
	return false
}

func createdAtColumn() metav1.TableColumnDefinition {
	column := ageColumn()
	column.Name, column.Type = "Created At", "date"
	return column
}

func (v View) quotaCells(quota *corev1.ResourceQuota) []any {
	var requests, limits []string
	for name := range quota.Status.Hard {
		hard, used := quota.Status.Hard[name], quota.Status.Used[name]
		line := fmt.Sprintf("%s: %s/%s", name, used.String(), hard.String())
		if strings.HasPrefix(string(name), "limits.") {
			limits = append(limits, line)
		} else {
			requests = append(requests, line)
		}
	}
	slices.Sort(requests)
	slices.Sort(limits)
	return []any{quota.Name, strings.Join(requests, ", "), strings.Join(limits, ", "), v.objectAge(quota)}
}

func (v View) revisionCells(revision *appsv1.ControllerRevision) []any {
	controller := none
	if owner := metav1.GetControllerOf(revision); owner != nil {
		group := schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind)
		controller = strings.ToLower(group.Kind) + "/" + owner.Name
		if group.Group != "" {
			controller = strings.ToLower(group.Kind) + "." + group.Group + "/" + owner.Name
		}
	}
	return []any{revision.Name, controller, revision.Revision, v.objectAge(revision)}
}

func bindingColumns(docs map[string]string) []metav1.TableColumnDefinition {
	return []metav1.TableColumnDefinition{
		nameColumn(), textColumn("Role", docs["roleRef"]), ageColumn(),
		wideOnly(textColumn("Users", "Users in the roleBinding")), wideOnly(textColumn("Groups", "Groups in the roleBinding")),
		wideOnly(textColumn("ServiceAccounts", "ServiceAccounts in the roleBinding")),
	}
}

func (v View) roleBindingCells(binding kinds.Object, role rbacv1.RoleRef, subjects []rbacv1.Subject) []any {
	of := func(kind string) string {
		var names []string
		for _, subject := range subjects {
			switch {
			case subject.Kind != kind:
			case kind == rbacv1.ServiceAccountKind:
				names = append(names, subject.Namespace+"/"+subject.Name)
			default:
				names = append(names, subject.Name)
			}
		}
		return strings.Join(names, ", ")
	}
	return []any{
		binding.GetName(), role.Kind + "/" + role.Name, v.objectAge(binding),
		of(rbacv1.UserKind), of(rbacv1.GroupKind), of(rbacv1.ServiceAccountKind),
	}
}

func (v View) autoscalerCells(hpa *autoscalingv2.HorizontalPodAutoscaler) []any {
	minimum := "<unset>"
	if hpa.Spec.MinReplicas != nil {
		minimum = fmt.Sprint(*hpa.Spec.MinReplicas)
	}
	return []any{
		hpa.Name,
		fmt.Sprintf("%s/%s", hpa.Spec.ScaleTargetRef.Kind, hpa.Spec.ScaleTargetRef.Name),
		metricTargets(hpa),
		minimum,
		int64(hpa.Spec.MaxReplicas),
		int64(hpa.Status.CurrentReplicas),
		v.objectAge(hpa),
	}
}

// metricTargets shows current and target values of the first two metrics.
func metricTargets(hpa *autoscalingv2.HorizontalPodAutoscaler) string {
	const most = 2
	var list []string
	for i, metric := range hpa.Spec.Metrics {
		now := autoscalingv2.MetricStatus{}
		if i < len(hpa.Status.CurrentMetrics) {
			now = hpa.Status.CurrentMetrics[i]
		}
		list = append(list, metricTarget(metric, now))
	}
	switch {
	case len(list) == 0:
		return none
	case len(list) > most:
		return fmt.Sprintf("%s + %d more...", strings.Join(list[:most], ", "), len(list)-most)
	}
	return strings.Join(list, ", ")
}

func metricTarget(metric autoscalingv2.MetricSpec, now autoscalingv2.MetricStatus) string {
	label := ""
	var target autoscalingv2.MetricTarget
	var current *autoscalingv2.MetricValueStatus
	switch {
	case metric.Resource != nil:
		label, target = string(metric.Resource.Name)+": ", metric.Resource.Target
		if now.Resource != nil {
			current = &now.Resource.Current
		}
	case metric.ContainerResource != nil:
		label, target = string(metric.ContainerResource.Name)+": ", metric.ContainerResource.Target
		if now.ContainerResource != nil {
			current = &now.ContainerResource.Current
		}
	case metric.Pods != nil:
		target = metric.Pods.Target
		if now.Pods != nil {
			current = &now.Pods.Current
		}
	case metric.Object != nil:
		target = metric.Object.Target
		if now.Object != nil {
			current = &now.Object.Current
		}
	case metric.External != nil:
		target = metric.External.Target
		if now.External != nil {
			current = &now.External.Current
		}
	default:
		return "<unknown type>"
	}
	return label + formatTarget(target, current)
}

// formatTarget returns "current/target", in the target's unit.
func formatTarget(target autoscalingv2.MetricTarget, now *autoscalingv2.MetricValueStatus) string {
	have, want := unknown, "<auto>"
	switch {
	case target.AverageUtilization != nil:
		want = fmt.Sprintf("%d%%", *target.AverageUtilization)
		if now != nil && now.AverageUtilization != nil {
			have = fmt.Sprintf("%d%%", *now.AverageUtilization)
		}
	case target.AverageValue != nil:
		want = target.AverageValue.String()
		if now != nil && now.AverageValue != nil {
			have = now.AverageValue.String()
		}
		want += " (avg)"
	case target.Value != nil:
		want = target.Value.String()
		if now != nil && now.Value != nil {
			have = now.Value.String()
		}
	}
	return have + "/" + want
}
