package kinds

import (
	"slices"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// isAutoscaler reports whether a kind is the HorizontalPodAutoscaler. Its first version has one
// metric, CPU utilization, in fields of its own.
func isAutoscaler(gk schema.GroupKind) bool {
	return gk == schema.GroupKind{Group: autoscalingv2.GroupName, Kind: "HorizontalPodAutoscaler"}
}

// autoscalerV1ToV2 converts an autoscaler, including its CPU metric, to the second version.
func autoscalerV1ToV2(old *autoscalingv1.HorizontalPodAutoscaler) *autoscalingv2.HorizontalPodAutoscaler {
	old = old.DeepCopy()
	hpa := &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: old.ObjectMeta,
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference(old.Spec.ScaleTargetRef),
			MinReplicas:    old.Spec.MinReplicas, MaxReplicas: old.Spec.MaxReplicas,
		},
		Status: autoscalingv2.HorizontalPodAutoscalerStatus{
			ObservedGeneration: old.Status.ObservedGeneration, LastScaleTime: old.Status.LastScaleTime,
			CurrentReplicas: old.Status.CurrentReplicas, DesiredReplicas: old.Status.DesiredReplicas,
		},
	}
	if wanted := old.Spec.TargetCPUUtilizationPercentage; wanted != nil {
		hpa.Spec.Metrics = []autoscalingv2.MetricSpec{{
			Type: autoscalingv2.ResourceMetricSourceType,
			Resource: &autoscalingv2.ResourceMetricSource{
				Name:   corev1.ResourceCPU,
				Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: wanted},
			},
		}}
	}
	if have := old.Status.CurrentCPUUtilizationPercentage; have != nil {
		hpa.Status.CurrentMetrics = []autoscalingv2.MetricStatus{{
			Type: autoscalingv2.ResourceMetricSourceType,
			Resource: &autoscalingv2.ResourceMetricStatus{
				Name: corev1.ResourceCPU, Current: autoscalingv2.MetricValueStatus{AverageUtilization: have},
			},
		}}
	}
	hpa.SetGroupVersionKind(autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"))
	return hpa
}

// autoscalerV2ToV1 converts an autoscaler to the first version. It returns in lost the fields other
// than CPU utilization.
func autoscalerV2ToV1(hpa *autoscalingv2.HorizontalPodAutoscaler) (older *autoscalingv1.HorizontalPodAutoscaler, lost []string) {
	hpa = hpa.DeepCopy()
	older = &autoscalingv1.HorizontalPodAutoscaler{
		ObjectMeta: hpa.ObjectMeta,
		Spec: autoscalingv1.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv1.CrossVersionObjectReference(hpa.Spec.ScaleTargetRef),
			MinReplicas:    hpa.Spec.MinReplicas, MaxReplicas: hpa.Spec.MaxReplicas,
		},
		Status: autoscalingv1.HorizontalPodAutoscalerStatus{
			ObservedGeneration: hpa.Status.ObservedGeneration, LastScaleTime: hpa.Status.LastScaleTime,
			CurrentReplicas: hpa.Status.CurrentReplicas, DesiredReplicas: hpa.Status.DesiredReplicas,
		},
	}
	others := slices.DeleteFunc(slices.Clone(hpa.Spec.Metrics), func(metric autoscalingv2.MetricSpec) bool {
		cpu := metric.Resource != nil && metric.Resource.Name == corev1.ResourceCPU && metric.Resource.Target.AverageUtilization != nil
		if cpu {
			older.Spec.TargetCPUUtilizationPercentage = metric.Resource.Target.AverageUtilization
		}
		return cpu
	})
	if len(others) > 0 {
		lost = append(lost, `unknown field "spec.metrics"`)
	}
	if hpa.Spec.Behavior != nil {
		lost = append(lost, `unknown field "spec.behavior"`)
	}
	for _, metric := range hpa.Status.CurrentMetrics {
		if metric.Resource != nil && metric.Resource.Name == corev1.ResourceCPU {
			older.Status.CurrentCPUUtilizationPercentage = metric.Resource.Current.AverageUtilization
		}
	}
	older.SetGroupVersionKind(autoscalingv1.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"))
	return older, lost
}
