package volumeprotection

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/services/controllers/control"
)

// listPods lists the pods of a namespace from the API.
func listPods(ctx context.Context, api control.API, namespace string) ([]*corev1.Pod, error) {
	kind := control.Of[*corev1.Pod](api, "pods").Kind()
	page, err := api.List(ctx, podapi.Target{Kind: kind, Namespace: namespace}, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var pods []*corev1.Pod
	for _, item := range page.Items {
		if pod, ok := item.(*corev1.Pod); ok {
			pods = append(pods, pod)
		}
	}
	return pods, nil
}
