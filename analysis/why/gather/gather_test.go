package gather_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podfall/podfall/analysis/why"
	"github.com/podfall/podfall/analysis/why/gather"
	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto/kinds"
)

// cluster is an API with one pod on one node, perhaps of a Job.
type cluster struct {
	pod  *corev1.Pod
	node *corev1.Node
	job  *batchv1.Job
	// refuses is the API's answer to a get of the Job.
	refuses error
}

func (c cluster) Get(_ context.Context, target podapi.Target, _ metav1.GetOptions) (kinds.Object, error) {
	switch target.Kind.Resource {
	case "pods":
		return c.pod, nil
	case "nodes":
		return c.node, nil
	case "jobs":
		if c.refuses != nil {
			return nil, c.refuses
		}
		if c.job != nil {
			return c.job, nil
		}
	}
	return nil, apierrors.NewNotFound(target.Kind.GroupResource(), target.Name)
}

func (cluster) List(context.Context, podapi.Target, metav1.ListOptions) (*podapi.List, error) {
	return &podapi.List{}, nil
}

// overduePod is an API with a pod whose grace period ended a minute ago, on a silent node.
func overduePod(now time.Time) cluster {
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

// TestSilence takes a silent kubelet for a stopped one, unless nobody answers, for example while
// the bus is paused.
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
				API: overduePod(time.Now()), Clock: clock.Clock{},
				Ask: gather.JSON(func(_ context.Context, process string) ([]byte, error) {
					if process == c.answers {
						return []byte(`{}`), nil
					}
					return nil, errors.New("no answer in time")
				}),
			}
			report, err := o.Why(t.Context(), podapi.Target{Kind: pods, Namespace: "default", Name: "web"})
			silent := slices.ContainsFunc(report.Sources, func(s why.Source) bool { return s.Name == "kubelet" && s.Err != "" })
			if err != nil || !slices.Contains(report.IDs(), c.want) || !silent || report.AllSilent() != (c.answers == "") {
				t.Errorf("%q answers: %v, %v of %v; want %s", c.answers, err, report.IDs(), report.Sources, c.want)
			}
		}
	})
}

// podKeptByJob is an API with a failed pod that only a Job's finalizer keeps.
func podKeptByJob(now time.Time, job *batchv1.Job) cluster {
	api := overduePod(now)
	api.pod.DeletionGracePeriodSeconds, api.pod.Status.Phase = new(int64(0)), corev1.PodFailed
	api.pod.Finalizers = []string{batchv1.JobTrackingFinalizer}
	api.pod.Annotations = map[string]string{batchv1.JobCompletionIndexAnnotation: "0"}
	api.pod.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Name: job.Name, UID: job.UID, Controller: new(true)}}
	return api
}

// TestJob reads the Job that a deleted pod is kept for, and tells it from another Job of the name.
// If the Job cannot be read, the report goes on without it and says so.
func TestJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pods, _ := kinds.ByResource("pods")
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "index", UID: "its"}, Spec: batchv1.JobSpec{BackoffLimitPerIndex: new(int32(3))}}
		otherJob := job.DeepCopy()
		otherJob.UID = "another"
		jobs := schema.GroupResource{Group: "batch", Resource: "jobs"}
		for _, c := range []struct {
			what    string
			job     *batchv1.Job
			refuses error
			want    string
		}{
			{"its Job", job, nil, "job-keeps-pod"},
			{"another Job", otherJob, nil, "stk-04"},
			{"no Job", nil, nil, "stk-04"},
			{"a Job that nobody may read", job, apierrors.NewForbidden(jobs, "index", errors.New("no right")), "stk-04"},
			{"a Job that is read for too long", job, context.DeadlineExceeded, "stk-04"},
		} {
			api := podKeptByJob(time.Now(), job)
			api.job, api.refuses = c.job, c.refuses
			report, err := gather.Observer{API: api, Clock: clock.Clock{}}.Why(t.Context(), podapi.Target{Kind: pods, Namespace: "default", Name: "web"})
			if err != nil || !slices.Equal(report.IDs(), []string{c.want}) {
				t.Errorf("%s: %v, %v; want %s", c.what, err, report.IDs(), c.want)
				continue
			}
			said := c.refuses == nil || strings.Contains(strings.Join(report.Findings[0].Evidence, "; "), c.refuses.Error())
			if !said || report.AllSilent() {
				t.Errorf("%s: the evidence is %q of %v, want what has refused it", c.what, report.Findings[0].Evidence, report.Sources)
			}
		}
	})
}
