package nemesis

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// deleteCrowds creates many pods, and deletes them, or all pods, by one request.
func (c *client) deleteCrowds(ctx context.Context) {
	for n := range 6 + c.rand.IntN(8) {
		name := fmt.Sprint("crowd-", n)
		pod := c.randomPod(name)
		pod.Labels, pod.Finalizers = map[string]string{"app": "crowd"}, nil
		c.create(ctx, target("pods", name), pod)
	}
	_ = sleep(ctx, time.Duration(c.rand.IntN(2000))*time.Millisecond)
	selector := pick(c.rand, []string{"app=crowd", "app=crowd", ""})
	options := metav1.DeleteOptions{}
	if grace := c.rand.Int64N(20); grace > 0 { // 0 uses the pods' own grace
		options.GracePeriodSeconds = &grace
	}
	c.request(ctx, "deletecollection", target("pods", ""), func(ctx context.Context) (any, error) {
		return c.api.DeleteCollection(ctx, target("pods", ""), options, metav1.ListOptions{LabelSelector: selector})
	})
	_ = sleep(ctx, time.Duration(2000+c.rand.IntN(3000))*time.Millisecond)
}
