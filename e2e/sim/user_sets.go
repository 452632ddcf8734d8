package sim

import (
	"math"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto"
)

// What users do with sets whose pods have names that nobody knows before.
const (
	CreateDaemons What = "create daemonset"
	CreateJob     What = "create job"
	DeleteJob     What = "delete job"
	CreateBudget  What = "create budget"
	ChangeBudget  What = "change budget"
	DeleteBudget  What = "delete budget"
	// DeleteOneOf deletes the pod of a set that is the Count-th by name, as far as there are
	// so many.
	DeleteOneOf What = "delete pod of"
	EvictOneOf  What = "evict pod of"
)

func daemonsFor(deed Deed) *appsv1.DaemonSet {
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: deed.Name},
		Spec:       appsv1.DaemonSetSpec{Selector: selector(deed.Name), Template: templateFor(deed)},
	}
}

// jobFor is a Job of Count completions, of which half are tried at once. It goes on however
// often its pods are taken from it.
func jobFor(deed Deed) *batchv1.Job {
	template := templateFor(deed)
	template.Spec.RestartPolicy = corev1.RestartPolicyNever
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: deed.Name},
		Spec: batchv1.JobSpec{
			Completions: new(deed.Count), Parallelism: new((deed.Count + 1) / 2), BackoffLimit: new(int32(math.MaxInt32)), Template: template,
		},
	}
}

// second is what the name of a set's second budget ends in.
const second = "-too"

// guardedBy is the set whose pods a budget of that name is about.
func guardedBy(budget string) string { return strings.TrimSuffix(budget, second) }

// budgetFor is the budget of a set, of which Count pods at least are to be healthy, or all
// but one when that is zero.
func budgetFor(deed Deed) *policyv1.PodDisruptionBudget {
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: deed.Name}, Spec: policyv1.PodDisruptionBudgetSpec{Selector: selector(guardedBy(deed.Name))},
	}
	if deed.Count > 0 {
		budget.Spec.MinAvailable = new(intstr.FromInt32(deed.Count))
	} else {
		budget.Spec.MaxUnavailable = new(intstr.FromInt32(1))
	}
	return budget
}

// budgeting makes a budget, deletes it, or gives it another Count, and in Ways another policy for
// pods that are not ready.
func budgeting(deed Deed, within string) Ask {
	const budgets = "poddisruptionbudgets.policy"
	if deed.Do == CreateBudget {
		return creation(budgets, within, budgetFor(deed))
	}
	if deed.Do == DeleteBudget {
		deed.Policy = metav1.DeletePropagationBackground
		return removal(budgets, deed)
	}
	spec := map[string]any{"minAvailable": nil, "maxUnavailable": 1, "unhealthyPodEvictionPolicy": nil}
	if deed.Count > 0 {
		spec["minAvailable"], spec["maxUnavailable"] = deed.Count, nil
	}
	if deed.Ways != "" {
		spec["unhealthyPodEvictionPolicy"] = deed.Ways
	}
	target := podapi.Target{Kind: kindOfResource(budgets), Namespace: namespace, Name: deed.Name}
	return merge(target, map[string]any{"spec": spec})
}

// doToOne asks which pods a set has, and does to one of them what a deed says.
func (u *user) doToOne(now time.Time, out Out, deed Deed, then Then) {
	pods := podapi.Target{Kind: kindOfResource("pods"), Namespace: namespace}
	list := Ask{Verb: proto.VerbList, Target: pods, Options: &metav1.ListOptions{LabelSelector: "app=" + deed.Name}}
	u.ask(now, out, list, func(now time.Time, got Got, out Out) {
		found, _, err := itemsOf(got)
		if got.Err != nil || err != nil || len(found) == 0 {
			then(now, got, out)
			return
		}
		pods.Name = found[int(deed.Count)%len(found)].GetName()
		options := &metav1.DeleteOptions{GracePeriodSeconds: deed.Grace}
		if deed.Do == DeleteOneOf {
			u.ask(now, out, Ask{Verb: proto.VerbDelete, Target: pods, Options: options}, then)
			return
		}
		pods.Subresource = "eviction"
		eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: pods.Name}, DeleteOptions: options}
		u.ask(now, out, Ask{Verb: proto.VerbCreate, Target: pods, Object: eviction}, then)
	})
}
