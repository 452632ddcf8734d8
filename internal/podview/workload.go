package podview

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	extensionsv1beta1 "k8s.io/api/extensions/v1beta1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// workloadPrinter prints workloads, scales and disruption budgets.
func workloadPrinter(gvk schema.GroupVersionKind) (printer, bool) {
	switch gvk {
	case appsv1.SchemeGroupVersion.WithKind("Deployment"):
		return newPrinter(View.deploymentCells, append([]metav1.TableColumnDefinition{
			nameColumn(), textColumn("Ready", "Number of the pod with ready state"), textColumn("Up-to-date", extensionsv1beta1.DeploymentStatus{}.SwaggerDoc()["updatedReplicas"]), textColumn("Available", extensionsv1beta1.DeploymentStatus{}.SwaggerDoc()["availableReplicas"]), ageColumn(),
		}, templateColumns(extensionsv1beta1.DeploymentSpec{}.SwaggerDoc()["selector"])...)...), true
	case appsv1.SchemeGroupVersion.WithKind("ReplicaSet"):
		return newPrinter(View.replicaSetCells, replicaColumns(
			extensionsv1beta1.ReplicaSetSpec{}.SwaggerDoc(), extensionsv1beta1.ReplicaSetStatus{}.SwaggerDoc(),
		)...), true
	case corev1.SchemeGroupVersion.WithKind("ReplicationController"):
		return newPrinter(View.replicationControllerCells, replicaColumns(
			corev1.ReplicationControllerSpec{}.SwaggerDoc(), corev1.ReplicationControllerStatus{}.SwaggerDoc(),
		)...), true
	case appsv1.SchemeGroupVersion.WithKind("StatefulSet"):
		return newPrinter(View.statefulSetCells, append([]metav1.TableColumnDefinition{
			nameColumn(), textColumn("Ready", "Number of the pod with ready state"), ageColumn(),
		}, templateColumns()...)...), true
	case appsv1.SchemeGroupVersion.WithKind("DaemonSet"):
		return newPrinter(View.daemonSetCells, append([]metav1.TableColumnDefinition{
			nameColumn(), numberColumn("Desired", extensionsv1beta1.DaemonSetStatus{}.SwaggerDoc()["desiredNumberScheduled"]), numberColumn("Current", extensionsv1beta1.DaemonSetStatus{}.SwaggerDoc()["currentNumberScheduled"]), numberColumn("Ready", extensionsv1beta1.DaemonSetStatus{}.SwaggerDoc()["numberReady"]), numberColumn("Up-to-date", extensionsv1beta1.DaemonSetStatus{}.SwaggerDoc()["updatedNumberScheduled"]),
			numberColumn("Available", extensionsv1beta1.DaemonSetStatus{}.SwaggerDoc()["numberAvailable"]), textColumn("Node Selector", corev1.PodSpec{}.SwaggerDoc()["nodeSelector"]), ageColumn(),
		}, templateColumns(extensionsv1beta1.DaemonSetSpec{}.SwaggerDoc()["selector"])...)...), true
	case batchv1.SchemeGroupVersion.WithKind("Job"):
		return newPrinter(View.jobCells, append([]metav1.TableColumnDefinition{
			nameColumn(), textColumn("Status", "Status of the job."), textColumn("Completions", batchv1.JobStatus{}.SwaggerDoc()["succeeded"]), textColumn("Duration", "Time required to complete the job."), ageColumn(),
		}, templateColumns(batchv1.JobSpec{}.SwaggerDoc()["selector"])...)...), true
	case batchv1.SchemeGroupVersion.WithKind("CronJob"):
		return newPrinter(View.cronJobCells, append([]metav1.TableColumnDefinition{
			nameColumn(), textColumn("Schedule", batchv1.CronJobSpec{}.SwaggerDoc()["schedule"]), textColumn("Timezone", batchv1.CronJobSpec{}.SwaggerDoc()["timeZone"]), boolColumn("Suspend", batchv1.CronJobSpec{}.SwaggerDoc()["suspend"]), numberColumn("Active", batchv1.CronJobStatus{}.SwaggerDoc()["active"]),
			textColumn("Last Schedule", batchv1.CronJobStatus{}.SwaggerDoc()["lastScheduleTime"]), ageColumn(),
		}, templateColumns(batchv1.JobSpec{}.SwaggerDoc()["selector"])...)...), true
	case autoscalingv1.SchemeGroupVersion.WithKind("Scale"):
		return newPrinter(
			func(v View, scale *autoscalingv1.Scale) []any {
				return []any{scale.Name, int64(scale.Spec.Replicas), int64(scale.Status.Replicas), v.objectAge(scale)}
			},
			nameColumn(), numberColumn("Desired", autoscalingv1.ScaleSpec{}.SwaggerDoc()["replicas"]),
			numberColumn("Available", autoscalingv1.ScaleStatus{}.SwaggerDoc()["replicas"]), ageColumn(),
		), true
	case policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"):
		return newPrinter(
			View.disruptionBudgetCells,
			nameColumn(), textColumn("Min Available", "The minimum number of pods that must be available."), textColumn("Max Unavailable", "The maximum number of pods that may be unavailable."), numberColumn("Allowed Disruptions", "Calculated number of pods that may be disrupted at this time."), ageColumn(),
		), true
	default:
		return printer{}, false
	}
}

// replicaColumns returns the columns of a ReplicaSet and similar kinds, with their documentation.
func replicaColumns(spec, status map[string]string) []metav1.TableColumnDefinition {
	return append([]metav1.TableColumnDefinition{
		nameColumn(), numberColumn("Desired", spec["replicas"]), numberColumn("Current", status["replicas"]),
		numberColumn("Ready", status["readyReplicas"]), ageColumn(),
	}, templateColumns(spec["selector"])...)
}

// templateColumns returns the wide columns of a pod template, with one for the selector if it is
// documented.
func templateColumns(selector ...string) []metav1.TableColumnDefinition {
	columns := []metav1.TableColumnDefinition{
		wideOnly(textColumn("Containers", "Names of each container in the template.")),
		wideOnly(textColumn("Images", "Images referenced by each container in the template.")),
	}
	for _, about := range selector {
		columns = append(columns, wideOnly(textColumn("Selector", about)))
	}
	return columns
}

// templateCells returns a pod template's container names and images.
func templateCells(spec corev1.PodSpec) []any {
	names := make([]string, len(spec.Containers))
	images := make([]string, len(spec.Containers))
	for i, c := range spec.Containers {
		names[i], images[i] = c.Name, c.Image
	}
	return []any{strings.Join(names, ","), strings.Join(images, ",")}
}

func (v View) deploymentCells(d *appsv1.Deployment) []any {
	selector := "<invalid>"
	if parsed, err := metav1.LabelSelectorAsSelector(d.Spec.Selector); err == nil {
		selector = parsed.String()
	}
	cells := []any{
		d.Name,
		fmt.Sprintf("%d/%d", d.Status.ReadyReplicas, valueOr(d.Spec.Replicas, 1)),
		int64(d.Status.UpdatedReplicas),
		int64(d.Status.AvailableReplicas),
		v.objectAge(d),
	}
	return append(append(cells, templateCells(d.Spec.Template.Spec)...), selector)
}

func (v View) replicaSetCells(rs *appsv1.ReplicaSet) []any {
	cells := []any{
		rs.Name,
		int64(valueOr(rs.Spec.Replicas, 1)),
		int64(rs.Status.Replicas),
		int64(rs.Status.ReadyReplicas),
		v.objectAge(rs),
	}
	return append(append(cells, templateCells(rs.Spec.Template.Spec)...), selectorText(rs.Spec.Selector))
}

func (v View) replicationControllerCells(rc *corev1.ReplicationController) []any {
	cells := []any{
		rc.Name,
		int64(valueOr(rc.Spec.Replicas, 1)),
		int64(rc.Status.Replicas),
		int64(rc.Status.ReadyReplicas),
		v.objectAge(rc),
	}
	var template corev1.PodSpec
	if rc.Spec.Template != nil {
		template = rc.Spec.Template.Spec
	}
	return append(append(cells, templateCells(template)...), labels.FormatLabels(rc.Spec.Selector))
}

func (v View) statefulSetCells(set *appsv1.StatefulSet) []any {
	ready := fmt.Sprintf("%d/%d", set.Status.ReadyReplicas, valueOr(set.Spec.Replicas, 1))
	return append([]any{set.Name, ready, v.objectAge(set)}, templateCells(set.Spec.Template.Spec)...)
}

func (v View) daemonSetCells(set *appsv1.DaemonSet) []any {
	cells := []any{
		set.Name,
		int64(set.Status.DesiredNumberScheduled),
		int64(set.Status.CurrentNumberScheduled),
		int64(set.Status.NumberReady),
		int64(set.Status.UpdatedNumberScheduled),
		int64(set.Status.NumberAvailable),
		labels.FormatLabels(set.Spec.Template.Spec.NodeSelector),
		v.objectAge(set),
	}
	return append(append(cells, templateCells(set.Spec.Template.Spec)...), selectorText(set.Spec.Selector))
}

func (v View) jobCells(job *batchv1.Job) []any {
	took := ""
	if started := job.Status.StartTime; started != nil {
		took = v.Since(started.Time)
		if ended := job.Status.CompletionTime; ended != nil {
			took = duration.HumanDuration(ended.Sub(started.Time))
		}
	}
	cells := []any{job.Name, jobStatus(job), jobCompletions(job), took, v.objectAge(job)}
	return append(append(cells, templateCells(job.Spec.Template.Spec)...), selectorText(job.Spec.Selector))
}

func jobCompletions(job *batchv1.Job) string {
	done, wanted := job.Status.Succeeded, job.Spec.Completions
	switch workers := valueOr(job.Spec.Parallelism, 0); {
	case wanted != nil:
		return fmt.Sprintf("%d/%d", done, *wanted)
	case workers > 1:
		return fmt.Sprintf("%d/1 of %d", done, workers)
	default:
		return fmt.Sprintf("%d/1", done)
	}
}

// jobStatus returns the first of these words that applies.
func jobStatus(job *batchv1.Job) string {
	has := func(kind batchv1.JobConditionType) bool {
		for _, c := range job.Status.Conditions {
			if c.Type == kind {
				return c.Status == corev1.ConditionTrue
			}
		}
		return false
	}
	switch {
	case has(batchv1.JobComplete):
		return "Complete"
	case has(batchv1.JobFailed):
		return "Failed"
	case job.DeletionTimestamp != nil:
		return terminating
	case has(batchv1.JobSuspended):
		return "Suspended"
	case has(batchv1.JobFailureTarget):
		return "FailureTarget"
	case has(batchv1.JobSuccessCriteriaMet):
		return "SuccessCriteriaMet"
	default:
		return "Running"
	}
}

func (v View) cronJobCells(job *batchv1.CronJob) []any {
	last := none
	if job.Status.LastScheduleTime != nil {
		last = v.Since(job.Status.LastScheduleTime.Time)
	}
	suspended := "<unset>"
	if job.Spec.Suspend != nil {
		suspended = map[bool]string{true: "True", false: "False"}[*job.Spec.Suspend]
	}
	cells := []any{
		job.Name,
		job.Spec.Schedule,
		valueOr(job.Spec.TimeZone, none),
		suspended,
		int64(len(job.Status.Active)),
		last,
		v.objectAge(job),
	}
	template := job.Spec.JobTemplate.Spec
	return append(append(cells, templateCells(template.Template.Spec)...), selectorText(template.Selector))
}

func (v View) disruptionBudgetCells(pdb *policyv1.PodDisruptionBudget) []any {
	limit := func(n *intstr.IntOrString) string {
		if n == nil {
			return "N/A"
		}
		return n.String()
	}
	return []any{
		pdb.Name,
		limit(pdb.Spec.MinAvailable),
		limit(pdb.Spec.MaxUnavailable),
		int64(pdb.Status.DisruptionsAllowed),
		v.objectAge(pdb),
	}
}
