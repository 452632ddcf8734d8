package sim

import (
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/podapi"
)

// User actions on CronJobs.
const (
	CreateCronJob  ActionKind = "create cronjob"
	DeleteCronJob  ActionKind = "delete cronjob"
	SuspendCronJob ActionKind = "suspend cronjob"
	ResumeCronJob  ActionKind = "resume cronjob"
)

// CronJobOptions holds a CronJob's schedule and limits.
type CronJobOptions struct {
	Schedule string                    `json:"schedule,omitempty"`
	Policy   batchv1.ConcurrencyPolicy `json:"policy,omitempty"`
	// Good and Bad are its history limits.
	Good *int32 `json:"good,omitempty"`
	Bad  *int32 `json:"bad,omitempty"`
	// Late is its startingDeadlineSeconds.
	Late *int64 `json:"late,omitempty"`
}

// cronJobRequest returns the request of an action on a CronJob.
func cronJobRequest(action Action, within string) Ask {
	if action.Kind == CreateCronJob {
		return createRequest(cronJobsResource, within, cronJobFor(action))
	}
	if action.Kind == DeleteCronJob {
		return deleteRequest(cronJobsResource, within, action)
	}
	its := podapi.Target{Kind: kindOfResource(cronJobsResource), Namespace: within, Name: action.Name}
	return mergeRequest(its, map[string]any{"spec": map[string]any{"suspend": action.Kind == SuspendCronJob}})
}

// cronJobFor returns the CronJob of an action.
func cronJobFor(action Action) *batchv1.CronJob {
	times := action.Shape.CronJob
	return &batchv1.CronJob{
		ObjectMeta: metav1.ObjectMeta{Name: action.Name},
		Spec: batchv1.CronJobSpec{
			Schedule: times.Schedule, ConcurrencyPolicy: times.Policy, StartingDeadlineSeconds: times.Late,
			SuccessfulJobsHistoryLimit: times.Good, FailedJobsHistoryLimit: times.Bad,
			JobTemplate: batchv1.JobTemplateSpec{Spec: jobFor(action).Spec},
		},
	}
}
