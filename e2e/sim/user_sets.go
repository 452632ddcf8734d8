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

// User actions on sets whose pods have generated names.
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

func daemonsFor(action Action) *appsv1.DaemonSet {
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: action.Name},
		Spec:       appsv1.DaemonSetSpec{Selector: selector(action.Name), Template: templateFor(action)},
	}
}

// setRequest returns the request of an action on one of these sets.
func setRequest(action Action, within string) Ask {
	if action.Kind == CreateDaemons {
		return createRequest("daemonsets.apps", within, daemonsFor(action))
	}
	if action.Kind == DeleteDaemons {
		return deleteRequest("daemonsets.apps", within, action)
	}
	if action.Kind == CreateJob {
		return createRequest("jobs.batch", within, jobFor(action))
	}
	if action.Kind == DeleteJob {
		action.Policy = cmp.Or(action.Policy, metav1.DeletePropagationBackground)
		return deleteRequest("jobs.batch", within, action)
	}
	its := podapi.Target{Kind: kindOfResource("jobs.batch"), Namespace: within, Name: action.Name}
	return mergeRequest(its, map[string]any{"spec": map[string]any{"suspend": action.Kind == SuspendJob}})
}

// jobFor returns a Job of Count completions, half of them in parallel.
func jobFor(action Action) *batchv1.Job {
	its := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: action.Name},
		Spec:       batchv1.JobSpec{Completions: new(action.Count), Parallelism: new((action.Count + 1) / 2), Template: templateFor(action)},
	}
	action.Shape.Job.apply(&its.Spec, action.Name)
	return its
}

// secondSuffix ends the name of a set's second budget.
const secondSuffix = "-too"

// setOfBudget returns the set whose pods a budget selects.
func setOfBudget(budget string) string { return strings.TrimSuffix(budget, secondSuffix) }

// budgetFor returns the budget of a set. At least Count pods must be healthy; if Count is 0, all
// but one.
func budgetFor(action Action) *policyv1.PodDisruptionBudget {
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: action.Name}, Spec: policyv1.PodDisruptionBudgetSpec{Selector: selector(setOfBudget(action.Name))},
	}
	if action.Count > 0 {
		budget.Spec.MinAvailable = new(intstr.FromInt32(action.Count))
	} else {
		budget.Spec.MaxUnavailable = new(intstr.FromInt32(1))
	}
	return budget
}

// budgetRequest creates or deletes a budget, or changes its minimum and, by Detail, its unhealthy
// pod eviction policy.
func budgetRequest(action Action, within string) Ask {
	const budgets = "poddisruptionbudgets.policy"
	if action.Kind == CreateBudget {
		return createRequest(budgets, within, budgetFor(action))
	}
	if action.Kind == DeleteBudget {
		action.Policy = metav1.DeletePropagationBackground
		return deleteRequest(budgets, within, action)
	}
	spec := map[string]any{"minAvailable": nil, "maxUnavailable": 1, "unhealthyPodEvictionPolicy": nil}
	if action.Count > 0 {
		spec["minAvailable"], spec["maxUnavailable"] = action.Count, nil
	}
	if action.Detail != "" {
		spec["unhealthyPodEvictionPolicy"] = action.Detail
	}
	target := podapi.Target{Kind: kindOfResource(budgets), Namespace: within, Name: action.Name}
	return mergeRequest(target, map[string]any{"spec": spec})
}

// labelApp is what sets select their pods by, and labelWas has its value where it was taken off.
const (
	labelApp = "app"
	labelWas = "was"
)

// changePods lists the pods of a set, and carries out the action on one of them, or on all pods
// that the set once had.
func (u *user) changePods(now time.Time, out Out, action Action, then Then) {
	within, set := action.namespacedName()
	pods := podapi.Target{Kind: kindOfResource("pods"), Namespace: within}
	of := labelApp + "=" + set
	if action.Kind == Relabel {
		of = labelWas + "=" + set
	}
	list := Ask{Verb: proto.VerbList, Target: pods, Options: &metav1.ListOptions{LabelSelector: of}}
	u.ask(now, out, list, func(now time.Time, got Outcome, out Out) {
		found, _, err := listItems(got, u.client.Decoded)
		if got.Err != nil || err != nil || len(found) == 0 {
			then(now, got, out)
			return
		}
		if action.Kind == DeleteReadyAhead {
			found = readyAhead(found, now)
		} else if action.Kind != Relabel {
			found = found[int(action.Count)%len(found):][:1]
		}
		for _, pod := range found {
			pods.Name = pod.GetName()
			u.ask(now, out, podRequest(action, pods, set), then)
		}
	})
}

// podRequest returns the request of an action on one pod of a set.
func podRequest(action Action, pod podapi.Target, set string) Ask {
	options := &metav1.DeleteOptions{GracePeriodSeconds: action.Grace}
	labels := func(app, was any) Ask {
		return mergeRequest(pod, map[string]any{"metadata": map[string]any{"labels": map[string]any{labelApp: app, labelWas: was}}})
	}
	if action.Kind == Unlabel {
		return labels(nil, set)
	}
	if action.Kind == Relabel {
		return labels(set, nil)
	}
	if action.Kind == EvictPodOf {
		pod.Subresource = "eviction"
		eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}, DeleteOptions: options}
		return Ask{Verb: proto.VerbCreate, Target: pod, Object: eviction}
	}
	return Ask{Verb: proto.VerbDelete, Target: pod, Options: options}
}
