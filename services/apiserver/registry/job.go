package registry

import (
	"fmt"
	"math"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The labels of a Job's Pods in the spelling of before there were domains.
const (
	legacyControllerUID = "controller-uid"
	legacyJobName       = "job-name"
)

// jobRules returns the rules of Jobs.
func jobRules() rules[*batchv1.Job] {
	return rules[*batchv1.Job]{
		defaults:       defaultJob,
		create:         selectOwnPods,
		validate:       validateJob,
		validateUpdate: validateJobUpdate,
		validateStatus: validateJobStatus,
	}
}

// defaultJob is upstream's SetDefaults_Job.
func defaultJob(job *batchv1.Job) {
	spec := &job.Spec
	if spec.Completions == nil && spec.Parallelism == nil {
		spec.Completions = new(int32(1))
	}
	fillPointer(&spec.Parallelism, 1)
	if spec.BackoffLimitPerIndex != nil {
		fillPointer(&spec.BackoffLimit, math.MaxInt32)
	}
	fillPointer(&spec.BackoffLimit, 6)
	copyPodLabels(job)
	fillPointer(&spec.CompletionMode, batchv1.NonIndexedCompletion)
	fillPointer(&spec.Suspend, false)
	if spec.PodFailurePolicy != nil {
		fillPointer(&spec.PodReplacementPolicy, batchv1.Failed)
		for i := range spec.PodFailurePolicy.Rules {
			conditions := spec.PodFailurePolicy.Rules[i].OnPodConditions
			for j := range conditions {
				fill(&conditions[j].Status, corev1.ConditionTrue)
			}
		}
	}
	fillPointer(&spec.PodReplacementPolicy, batchv1.TerminatingOrFailed)
}

// copyPodLabels gives a Job without labels those of its Pods.
func copyPodLabels(job *batchv1.Job) {
	if len(job.Labels) == 0 && len(job.Spec.Template.Labels) > 0 {
		job.Labels = labels.Merge(job.Spec.Template.Labels, nil)
	}
}

// selectOwnPods generates the labels and the selector by which a Job finds its Pods by UID, unless
// manualSelector is set. Labels and selectors of the client stay, to be validated.
func selectOwnPods(job *batchv1.Job) {
	if job.Spec.ManualSelector != nil && *job.Spec.ManualSelector {
		return
	}
	template := &job.Spec.Template
	if template.Labels == nil {
		template.Labels = map[string]string{}
	}
	for label, value := range map[string]string{
		legacyJobName: job.Name, batchv1.JobNameLabel: job.Name,
		legacyControllerUID: string(job.UID), batchv1.ControllerUidLabel: string(job.UID),
	} {
		if _, exists := template.Labels[label]; !exists {
			template.Labels[label] = value
		}
	}
	fillPointer(&job.Spec.Selector, metav1.LabelSelector{})
	if job.Spec.Selector.MatchLabels == nil {
		job.Spec.Selector.MatchLabels = map[string]string{}
	}
	if _, exists := job.Spec.Selector.MatchLabels[batchv1.ControllerUidLabel]; !exists {
		job.Spec.Selector.MatchLabels[batchv1.ControllerUidLabel] = string(job.UID)
	}
	copyPodLabels(job)
}

func validateJob(job *batchv1.Job) field.ErrorList {
	f := &findings{}
	at, spec := field.NewPath("spec"), &job.Spec
	f.checkGeneratedLabels(job, at)
	f.checkJobSpec(at, spec)
	if spec.Selector == nil {
		f.required(at.Child("selector"), "")
		return f.errs
	}
	f.checkSelector(at.Child("selector"), spec.Selector)
	if selector, err := metav1.LabelSelectorAsSelector(spec.Selector); err == nil {
		f.checkTemplateSelected(at.Child("template"), &spec.Template, selector)
	}
	return f.errs
}

// checkGeneratedLabels refuses labels and selectors that contradict those that the server
// generates.
func (f *findings) checkGeneratedLabels(job *batchv1.Job, at *field.Path) {
	if manual := job.Spec.ManualSelector; manual != nil && *manual {
		return
	}
	labelsAt := at.Child("template", "metadata", "labels")
	for _, want := range [][2]string{{batchv1.ControllerUidLabel, string(job.UID)}, {batchv1.JobNameLabel, job.Name}} {
		if got := job.Spec.Template.Labels[want[0]]; got != want[1] {
			f.invalid(labelsAt, job.Spec.Template.Labels, fmt.Sprintf("must be '%s'", want[1]))
		}
	}
	selector, err := metav1.LabelSelectorAsSelector(job.Spec.Selector)
	own := labels.Set{
		batchv1.ControllerUidLabel: string(job.UID), batchv1.JobNameLabel: job.Name,
		legacyControllerUID: string(job.UID), legacyJobName: job.Name,
	}
	if err == nil && !selector.Matches(own) {
		f.invalid(at.Child("selector"), job.Spec.Selector, "`selector` not auto-generated")
	}
}

// checkJobSpec checks what Jobs and the templates of CronJobs have in common.
func (f *findings) checkJobSpec(at *field.Path, spec *batchv1.JobSpec) {
	checkNotNegatives(f, at, namedNumber[int32]{"parallelism", spec.Parallelism}, namedNumber[int32]{"completions", spec.Completions})
	checkNotNegatives(f, at, namedNumber[int64]{"activeDeadlineSeconds", spec.ActiveDeadlineSeconds})
	checkNotNegatives(f, at, namedNumber[int32]{"backoffLimit", spec.BackoffLimit},
		namedNumber[int32]{"ttlSecondsAfterFinished", spec.TTLSecondsAfterFinished},
		namedNumber[int32]{"backoffLimitPerIndex", spec.BackoffLimitPerIndex},
		namedNumber[int32]{"maxFailedIndexes", spec.MaxFailedIndexes})
	if mode := spec.CompletionMode; mode != nil {
		checkOneOf(f, at.Child("completionMode"), *mode, batchv1.IndexedCompletion, batchv1.NonIndexedCompletion)
	}
	f.checkIndexedJob(at, spec)
	f.checkManagedBy(at.Child("managedBy"), spec.ManagedBy)
	f.checkFailurePolicy(at.Child("podFailurePolicy"), spec)
	f.checkReplacementPolicy(at.Child("podReplacementPolicy"), spec)
	templateAt := at.Child("template")
	f.checkTemplate(templateAt, &spec.Template)
	restart := templateAt.Child("spec", "restartPolicy")
	switch policy := spec.Template.Spec.RestartPolicy; policy {
	case corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever:
		if policy == corev1.RestartPolicyOnFailure && spec.PodFailurePolicy != nil {
			f.invalid(restart, policy, fmt.Sprintf("only %q is supported when podFailurePolicy is specified", corev1.RestartPolicyNever))
		}
	case corev1.RestartPolicyAlways, "":
		f.required(restart, fmt.Sprintf("valid values: %q, %q", corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever))
	default:
		f.add(field.NotSupported(restart, policy, []corev1.RestartPolicy{corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever}))
	}
}

// validateJobUpdate refuses changes of what the existing Pods were made from. A suspended Job that
// has not started may change its scheduling.
func validateJobUpdate(job, old *batchv1.Job) field.ErrorList {
	f := &findings{}
	at, spec, was := field.NewPath("spec"), &job.Spec, &old.Spec
	elastic := was.CompletionMode != nil && *was.CompletionMode == batchv1.IndexedCompletion &&
		spec.Completions != nil && spec.Parallelism != nil && *spec.Completions == *spec.Parallelism
	if !elastic {
		f.checkImmutable(spec.Completions, was.Completions, at.Child("completions"))
	}
	f.checkImmutable(spec.Selector, was.Selector, at.Child("selector"))
	template := was.Template.DeepCopy()
	if was.Suspend != nil && *was.Suspend && old.Status.StartTime == nil {
		now := spec.Template.DeepCopy()
		template.Spec.NodeSelector, template.Spec.Affinity = now.Spec.NodeSelector, now.Spec.Affinity
		template.Spec.Tolerations, template.Spec.SchedulingGates = now.Spec.Tolerations, now.Spec.SchedulingGates
		template.Annotations, template.Labels = now.Annotations, now.Labels
	}
	f.checkImmutable(spec.Template, *template, at.Child("template"))
	f.checkImmutable(spec.CompletionMode, was.CompletionMode, at.Child("completionMode"))
	f.checkImmutable(spec.PodFailurePolicy, was.PodFailurePolicy, at.Child("podFailurePolicy"))
	f.checkImmutable(spec.BackoffLimitPerIndex, was.BackoffLimitPerIndex, at.Child("backoffLimitPerIndex"))
	f.checkImmutable(spec.ManagedBy, was.ManagedBy, at.Child("managedBy"))
	f.checkImmutable(spec.SuccessPolicy, was.SuccessPolicy, at.Child("successPolicy"))
	return f.errs
}

// checkImmutable refuses a changed field.
func (f *findings) checkImmutable(now, was any, at *field.Path) {
	f.add(validation.ValidateImmutableField(now, was, at)...)
}
