package sim

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
)

// User is the name of the process of all users.
const User = "user"

// user carries out the user actions of a script.
type user struct {
	client Client
	script *Script
	calm   time.Time
}

// NewUser returns the process that carries out a script's user actions.
func NewUser(script *Script) Process { return &user{script: script} }

const (
	namespace  = metav1.NamespaceDefault
	finalizer  = "example.com/held"
	wakeAction = "deed "
	// A name that is taken is asked for again, so often.
	retries    = 15
	retryAfter = 3 * time.Second
	// requestLimit is the time limit of a request.
	requestLimit = time.Minute
)

func (u *user) Step(now time.Time, in Input, out Out) {
	if u.client.Step(now, in, out) {
		return
	}
	switch in := in.(type) {
	case Boot:
		u.client, u.calm = newClient(proto.Admin, in), now.Add(u.script.FaultsEnd)
		for i, action := range u.script.Actions {
			if !action.Kind.isFault() && action.Kind != Compact && action.Kind != WebhookDenies {
				out.Wake(wakeAction+strconv.Itoa(i)+" 0", now.Add(action.At))
			}
		}
	case Alarm:
		rest, ok := strings.CutPrefix(in.Key, wakeAction)
		if !ok {
			return
		}
		number, tries, _ := strings.Cut(rest, " ")
		i, err := strconv.Atoi(number)
		n, failed := strconv.Atoi(tries)
		if err == nil && failed == nil {
			u.do(now, out, i, n)
		}
	case Message, Called, Answered:
	}
}

// do carries out an action; tries is how often it was refused because its name was taken.
func (u *user) do(now time.Time, out Out, i, tries int) {
	action := u.script.Actions[i]
	if tries > 0 && u.script.FaultsEnd > 0 && now.After(u.calm.Add(-requestLimit)) { // amends are made once, and may come before it
		if slices.Contains([]ActionKind{AddFinalizer, OutOfService, DeleteNode}, action.Kind) {
			return
		}
		action.Finalizer = false
	}
	then := func(now time.Time, got Outcome, out Out) {
		taken := apierrors.IsAlreadyExists(got.Err) || apierrors.IsTooManyRequests(got.Err) && action.Kind == EvictPodOf
		if (taken || Unanswered(got.Err)) && tries < retries {
			out.Wake(wakeAction+strconv.Itoa(i)+" "+strconv.Itoa(tries+1), now.Add(retryAfter))
		}
	}
	if slices.Contains([]ActionKind{DeletePodOf, DeleteReadyAhead, EvictPodOf, Unlabel, Relabel}, action.Kind) {
		u.changePods(now, out, action, then)
		return
	}
	u.ask(now, out, u.requestOf(action), then)
}

func (u *user) ask(now time.Time, out Out, ask Ask, then Then) {
	if err := u.client.Do(now, out, ask, then); err != nil {
		panic("sim: a user's request: " + err.Error()) // a mistake in the simulator
	}
}

// requestOf returns the request of an action.
func (u *user) requestOf(action Action) Ask {
	within, called := action.namespacedName()
	action.Name = called
	pod := podapi.Target{Kind: kindOfResource("pods"), Namespace: within, Name: called}
	switch action.Kind {
	case CreatePod:
		pod.Name = ""
		return Ask{Verb: proto.VerbCreate, Target: pod, Object: podFor(action, within)}
	case DeletePod:
		return Ask{Verb: proto.VerbDelete, Target: pod, Options: &metav1.DeleteOptions{GracePeriodSeconds: action.Grace}}
	case ForceDelete:
		return Ask{Verb: proto.VerbDelete, Target: pod, Options: metav1.NewDeleteOptions(0)}
	case AddFinalizer:
		return mergeRequest(pod, map[string]any{"metadata": map[string]any{"finalizers": []string{finalizer}}})
	case RemoveFinalizer:
		return mergeRequest(pod, map[string]any{"metadata": map[string]any{"finalizers": nil}})
	case CreateReplicas:
		return createRequest("replicasets.apps", within, &appsv1.ReplicaSet{
			ObjectMeta: metav1.ObjectMeta{Name: action.Name},
			Spec:       appsv1.ReplicaSetSpec{Replicas: &action.Count, Selector: selector(action.Name), Template: templateFor(action)},
		})
	case CreateStateful:
		return createRequest("statefulsets.apps", within, &appsv1.StatefulSet{
			ObjectMeta: metav1.ObjectMeta{Name: action.Name},
			Spec: appsv1.StatefulSetSpec{
				Replicas: &action.Count, Selector: selector(action.Name), Template: templateFor(action), ServiceName: action.Name,
				VolumeClaimTemplates: templatesFor(action.Shape),
			},
		})
	case CreateDaemons, DeleteDaemons, CreateJob, DeleteJob, SuspendJob, ResumeJob:
		return setRequest(action, within)
	case CreateCronJob, DeleteCronJob, SuspendCronJob, ResumeCronJob:
		return cronJobRequest(action, within)
	case CreateDeployment, DeleteDeployment, ScaleDeployment, RollOut, RollBack, PauseRollout, ResumeRollout:
		return deploymentRequest(action, within)
	case CreateBudget, ChangeBudget, DeleteBudget:
		return budgetRequest(action, within)
	case CreateVolume, CreateClaim, CreateNamespace, DeleteNamespace:
		return provisionRequest(action, within)
	case CreateWebhook, DeleteWebhook:
		return webhookRequest(action)
	case DeleteReplicas:
		return deleteRequest("replicasets.apps", within, action)
	case DeleteStateful:
		return deleteRequest("statefulsets.apps", within, action)
	case ScaleReplicas, ScaleStateful:
		return scaleRequest(within, action)
	case OutOfService, BackInService:
		return taintRequest(action)
	case DeleteNode:
		return Ask{Verb: proto.VerbDelete, Target: nodeTarget(action.Name), Options: &metav1.DeleteOptions{}}
	case CutNode, Crash, Reboot, Pause, SlowDisk, FailDisk, Compact, FaultAtPoint, SecondKubelet, SkewClock,
		DeletePodOf, DeleteReadyAhead, EvictPodOf, Unlabel, Relabel, WebhookDenies, WebhookFails:
	}
	panic("sim: no user does " + string(action.Kind))
}

// provisionRequest creates or deletes a namespace, volume or claim.
func provisionRequest(action Action, within string) Ask {
	if action.Kind == CreateVolume {
		return createRequest(volumesResource, "", volumeFor(action.Name))
	}
	if action.Kind == CreateClaim {
		return createRequest(claimsResource, within, claimFor(action.Name, action.Name))
	}
	return namespaceRequest(action)
}

func scaleRequest(within string, action Action) Ask {
	resource := "replicasets.apps"
	if action.Kind == ScaleStateful {
		resource = "statefulsets.apps"
	}
	target := podapi.Target{Kind: kindOfResource(resource), Namespace: within, Name: action.Name}
	return mergeRequest(target, map[string]any{"spec": map[string]any{"replicas": action.Count}})
}

// namespaceRequest creates or deletes a namespace.
func namespaceRequest(action Action) Ask {
	if action.Kind == CreateNamespace {
		return createRequest("namespaces", "", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: action.Name}})
	}
	target := podapi.Target{Kind: kindOfResource("namespaces"), Name: action.Name}
	return Ask{Verb: proto.VerbDelete, Target: target, Options: &metav1.DeleteOptions{}}
}

// taintRequest marks a node as out of service, or removes the mark.
func taintRequest(action Action) Ask {
	var taints any
	if action.Kind == OutOfService {
		taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute}}
	}
	return mergeRequest(nodeTarget(action.Name), map[string]any{"spec": map[string]any{"taints": taints}})
}

func nodeTarget(node string) podapi.Target {
	return podapi.Target{Kind: kindOfResource("nodes"), Name: node}
}

func createRequest(resource, within string, obj kinds.Object) Ask {
	return Ask{Verb: proto.VerbCreate, Target: podapi.Target{Kind: kindOfResource(resource), Namespace: within}, Object: obj}
}

func deleteRequest(resource, within string, action Action) Ask {
	target := podapi.Target{Kind: kindOfResource(resource), Namespace: within, Name: action.Name}
	return Ask{Verb: proto.VerbDelete, Target: target, Options: &metav1.DeleteOptions{PropagationPolicy: &action.Policy}}
}

func mergeRequest(target podapi.Target, patch any) Ask {
	data, err := json.Marshal(patch)
	if err != nil {
		panic("sim: " + err.Error()) // a mistake in the simulator
	}
	return Ask{Verb: proto.VerbPatch, Target: target, PatchType: types.MergePatchType, Patch: data}
}

func selector(app string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
}

func podFor(action Action, within string) *corev1.Pod {
	template := templateFor(action)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: action.Name, Namespace: within, Labels: template.Labels}, Spec: template.Spec}
	pod.Annotations, pod.Spec.RestartPolicy = template.Annotations, corev1.RestartPolicyNever
	if action.Shape.Restarts {
		pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	}
	if action.Shape.Disk != "" {
		pod.Spec.Volumes = append(pod.Spec.Volumes, withDisk(action.Shape.Disk))
	}
	if action.Finalizer {
		pod.Finalizers = []string{finalizer}
	}
	return pod
}

// templateFor returns a template of one container, with what the shape adds.
func templateFor(action Action) corev1.PodTemplateSpec {
	container := corev1.Container{Name: "main", Image: "scripted", Args: slices.Clone(action.App.Args())}
	if action.PreStop > 0 {
		container.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{
			Sleep: &corev1.SleepAction{Seconds: int64(action.PreStop / time.Second)},
		}}
	}
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": action.Name}},
		Spec:       corev1.PodSpec{TerminationGracePeriodSeconds: action.Grace, Containers: []corev1.Container{container}},
	}
	if action.Shape != (Shape{}) {
		action.Shape.apply(&template, action.App)
	}
	return template
}
