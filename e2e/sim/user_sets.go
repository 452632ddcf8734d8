package sim

import (
	"cmp"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto"
)

// What users do with sets whose pods have names that nobody knows before.
const (
	CreateDaemons ActionKind = "create daemonset"
	CreateJob     ActionKind = "create job"
	DeleteJob     ActionKind = "delete job"
	SuspendJob    ActionKind = "suspend job"
	ResumeJob     ActionKind = "resume job"
	CreateBudget  ActionKind = "create budget"
	ChangeBudget  ActionKind = "change budget"
	DeleteBudget  ActionKind = "delete budget"
	// DeletePodOf deletes the Count-th pod of a set by name, or the last.
	DeletePodOf ActionKind = "delete pod of"
	EvictPodOf  ActionKind = "evict pod of"
)

func daemonsFor(deed Action) *appsv1.DaemonSet {
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: deed.Name},
		Spec:       appsv1.DaemonSetSpec{Selector: selector(deed.Name), Template: templateFor(deed)},
	}
}

// setRequest returns the request of an action on one of these sets.
func setRequest(deed Action, within string) Ask {
	if deed.Kind == CreateDaemons {
		return createRequest("daemonsets.apps", within, daemonsFor(deed))
	}
	if deed.Kind == DeleteDaemons {
		return deleteRequest("daemonsets.apps", within, deed)
	}
	if deed.Kind == CreateJob {
		return createRequest("jobs.batch", within, jobFor(deed))
	}
	if deed.Kind == DeleteJob {
		deed.Policy = cmp.Or(deed.Policy, metav1.DeletePropagationBackground)
		return deleteRequest("jobs.batch", within, deed)
	}
	its := podapi.Target{Kind: kindOfResource("jobs.batch"), Namespace: within, Name: deed.Name}
	return mergeRequest(its, map[string]any{"spec": map[string]any{"suspend": deed.Kind == SuspendJob}})
}

// jobFor is a Job of Count completions, of which half are tried at once.
func jobFor(deed Action) *batchv1.Job {
	its := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: deed.Name},
		Spec:       batchv1.JobSpec{Completions: new(deed.Count), Parallelism: new((deed.Count + 1) / 2), Template: templateFor(deed)},
	}
	deed.Shape.Job.apply(&its.Spec, deed.Name)
	return its
}

// second is what the name of a set's second budget ends in.
const second = "-too"

// setOfBudget returns the set whose pods a budget selects.
func setOfBudget(budget string) string { return strings.TrimSuffix(budget, second) }

// budgetFor is the budget of a set, of which Count pods at least are to be healthy, or all
// but one when that is zero.
func budgetFor(deed Action) *policyv1.PodDisruptionBudget {
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: deed.Name}, Spec: policyv1.PodDisruptionBudgetSpec{Selector: selector(setOfBudget(deed.Name))},
	}
	if deed.Count > 0 {
		budget.Spec.MinAvailable = new(intstr.FromInt32(deed.Count))
	} else {
		budget.Spec.MaxUnavailable = new(intstr.FromInt32(1))
	}
	return budget
}

// budgetRequest creates or deletes a budget, or changes its minimum and, by Detail, its unhealthy
// pod eviction policy.
func budgetRequest(deed Action, within string) Ask {
	const budgets = "poddisruptionbudgets.policy"
	if deed.Kind == CreateBudget {
		return createRequest(budgets, within, budgetFor(deed))
	}
	if deed.Kind == DeleteBudget {
		deed.Policy = metav1.DeletePropagationBackground
		return deleteRequest(budgets, within, deed)
	}
	spec := map[string]any{"minAvailable": nil, "maxUnavailable": 1, "unhealthyPodEvictionPolicy": nil}
	if deed.Count > 0 {
		spec["minAvailable"], spec["maxUnavailable"] = deed.Count, nil
	}
	if deed.Detail != "" {
		spec["unhealthyPodEvictionPolicy"] = deed.Detail
	}
	target := podapi.Target{Kind: kindOfResource(budgets), Namespace: within, Name: deed.Name}
	return mergeRequest(target, map[string]any{"spec": spec})
}

// labelApp is what sets select their pods by, and labelWas has its value where it was taken off.
const (
	labelApp = "app"
	labelWas = "was"
)

// doToPods asks which pods a set has, and does to one of them what a deed says, or to all that
// it once had.
func (u *user) doToPods(now time.Time, out Out, deed Action, then Then) {
	within, set := deed.namespacedName()
	pods := podapi.Target{Kind: kindOfResource("pods"), Namespace: within}
	of := labelApp + "=" + set
	if deed.Kind == Relabel {
		of = labelWas + "=" + set
	}
	list := Ask{Verb: proto.VerbList, Target: pods, Options: &metav1.ListOptions{LabelSelector: of}}
	u.ask(now, out, list, func(now time.Time, got Outcome, out Out) {
		found, _, err := listItems(got, u.client.Decoded)
		if got.Err != nil || err != nil || len(found) == 0 {
			then(now, got, out)
			return
		}
		if deed.Kind == DeleteReadyAhead {
			found = readyAhead(found, now)
		} else if deed.Kind != Relabel {
			found = found[int(deed.Count)%len(found):][:1]
		}
		for _, pod := range found {
			pods.Name = pod.GetName()
			u.ask(now, out, podRequest(deed, pods, set), then)
		}
	})
}

// podRequest returns the request of an action on one pod of a set.
func podRequest(deed Action, pod podapi.Target, set string) Ask {
	options := &metav1.DeleteOptions{GracePeriodSeconds: deed.Grace}
	labels := func(app, was any) Ask {
		return mergeRequest(pod, map[string]any{"metadata": map[string]any{"labels": map[string]any{labelApp: app, labelWas: was}}})
	}
	if deed.Kind == Unlabel {
		return labels(nil, set)
	}
	if deed.Kind == Relabel {
		return labels(set, nil)
	}
	if deed.Kind == EvictPodOf {
		pod.Subresource = "eviction"
		eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}, DeleteOptions: options}
		return Ask{Verb: proto.VerbCreate, Target: pod, Object: eviction}
	}
	return Ask{Verb: proto.VerbDelete, Target: pod, Options: options}
}
