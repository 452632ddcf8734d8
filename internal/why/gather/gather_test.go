package gather_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/internal/why"
	"github.com/podfall/podfall/internal/why/gather"
	"github.com/podfall/podfall/proto/kinds"
)

// cluster is one pod on one node.
type cluster struct {
	pod  *corev1.Pod
	node *corev1.Node
}

func (c cluster) Get(_ context.Context, target podapi.Target, _ metav1.GetOptions) (kinds.Object, error) {
	switch target.Kind.Resource {
	case "pods":
		return c.pod, nil
	case "nodes":
		return c.node, nil
	}
	return nil, apierrors.NewNotFound(target.Kind.GroupResource(), target.Name)
}

func (cluster) List(context.Context, podapi.Target, metav1.ListOptions) (*podapi.List, error) {
	return &podapi.List{}, nil
}

// overdue has a pod whose grace period ended a minute ago, on a node of which nothing is heard.
func overdue(now time.Time) cluster {
	return cluster{
		pod: &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Name: "web", Namespace: "default", UID: "u", CreationTimestamp: metav1.NewTime(now.Add(-time.Hour)),
				DeletionTimestamp: &metav1.Time{Time: now.Add(-time.Minute)}, DeletionGracePeriodSeconds: new(int64(30)),
			},
			Spec:   corev1.PodSpec{NodeName: "n1"},
			Status: corev1.PodStatus{Phase: corev1.PodRunning},
		},
		node: &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "n1"},
			Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}},
		},
	}
}

// TestSilence takes a kubelet that does not answer for one that does not run, unless nobody
// answers, as while the bus stands still.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pods, _ := kinds.ByResource("pods")
		for _, c := range []struct {
			answers string
			want    string
		}{
			{"apiserver", "stk-05"},
			{"", "stk-06"},
		} {
			o := gather.Observer{
				API: overdue(time.Now()), Clock: clock.Clock{},
				Ask: gather.JSON(func(_ context.Context, process string) ([]byte, error) {
					if process == c.answers {
						return []byte(`{}`), nil
					}
					return nil, errors.New("no answer in time")
				}),
			}
			report, err := o.Why(t.Context(), podapi.Target{Kind: pods, Namespace: "default", Name: "web"})
			silent := slices.ContainsFunc(report.Sources, func(s why.Source) bool { return s.Name == "kubelet" && s.Err != "" })
			if err != nil || !slices.Contains(report.IDs(), c.want) || !silent || report.Unheard() != (c.answers == "") {
				t.Errorf("%q answers: %v, %v of %v; want %s", c.answers, err, report.IDs(), report.Sources, c.want)
			}
		}
	})
}
