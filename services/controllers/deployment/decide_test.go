package deployment

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// d is a Deployment of n pods, with a surge and so many unavailable; -1 leaves both out.
func d(n, surge, unavailable int) *appsv1.Deployment {
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "d", Generation: 1, Annotations: map[string]string{RevisionAnnotation: "2"}}}
	deployment.Spec.Replicas = new(int32(n))
	deployment.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	deployment.Spec.Template.Labels = map[string]string{"app": "web"}
	deployment.Spec.Template.Spec.Containers = []corev1.Container{{Image: "new"}}
	if surge >= 0 {
		deployment.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{
			MaxSurge: new(intstr.FromInt32(int32(surge))), MaxUnavailable: new(intstr.FromInt32(int32(unavailable))),
		}
	}
	return deployment
}

// rs is a set of the deployment: its image, how many pods it asks for, and how many of them
// are available. The older it is, the smaller its revision.
func rs(of *appsv1.Deployment, image string, revision, replicas, available int) *appsv1.ReplicaSet {
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{
		Name: image, UID: types.UID(image), CreationTimestamp: metav1.NewTime(now.Add(time.Duration(revision-100) * time.Hour)),
		Annotations: map[string]string{RevisionAnnotation: fmt.Sprint(revision)},
	}}
	set.Spec.Replicas = new(int32(replicas))
	set.Spec.Template = *of.Spec.Template.DeepCopy()
	set.Spec.Template.Spec.Containers[0].Image = image
	set.Status = appsv1.ReplicaSetStatus{Replicas: int32(replicas), ReadyReplicas: int32(available), AvailableReplicas: int32(available), TerminatingReplicas: new(int32(0))}
	s := &planning{View: View{Deployment: of.DeepCopy()}}
	s.setDefaults()
	s.setSizeAnnotations(set)
	return set
}

// sizes is what a plan does: "new=3 old=1", a creation "+n".
func sizes(plan Plan) string {
	var words []string
	if plan.Create != nil {
		words = append(words, fmt.Sprintf("+%d", *plan.Create.Spec.Replicas))
	}
	for _, one := range plan.Scale {
		if one.Event != "" {
			words = append(words, fmt.Sprintf("%s=%d", one.Set.Name, *one.Set.Spec.Replicas))
		}
	}
	for _, set := range plan.Delete {
		words = append(words, "-"+set.Name)
	}
	return strings.Join(words, " ")
}

func TestRollingUpdate(t *testing.T) {
	type set struct {
		image               string
		replicas, available int
	}
	for _, c := range []struct {
		name                  string
		n, surge, unavailable int
		sets                  []set // the oldest first
		want                  string
	}{
		{"nothing there", 10, 2, 0, nil, "+10"},
		{"a first set beside an old one", 10, 0, 2, []set{{"old", 10, 10}}, "+0"},
		{"up to the surge", 10, 2, 0, []set{{"old", 10, 10}}, "+2"},
		{"a quarter when nothing is said", 10, -1, 0, []set{{"old", 10, 10}}, "+3"},
		{"more as old ones go (NewRSNewReplicas)", 10, 2, 0, []set{{"old", 8, 8}, {"new", 2, 2}}, "new=4"},
		{"not more than there may be", 10, 2, 0, []set{{"old", 10, 10}, {"new", 2, 0}}, ""},
		{"too many new ones", 2, 0, 1, []set{{"new", 5, 5}}, "new=2"},
		{"old ones down as far as enough are there", 10, 0, 2, []set{{"old", 10, 10}, {"new", 0, 0}}, "old=8"},
		{"not further", 10, 0, 2, []set{{"old", 8, 8}, {"new", 2, 0}}, ""},
		{"further when new ones are there", 10, 2, 0, []set{{"old", 10, 10}, {"new", 2, 2}}, "old=8"},
		{"the sick ones first (cleanupUnhealthyReplicas)", 10, 0, 2, []set{{"older", 4, 0}, {"old", 8, 8}, {"new", 0, 0}}, "older=0"},
		{"the oldest first", 10, 2, 2, []set{{"older", 3, 3}, {"old", 7, 7}, {"new", 2, 2}}, "older=0 old=6"},
		{"none by counts that are older than the size", 4, 1, 1, []set{{"old", 2, 3}, {"new", 3, 2}}, ""},
		{"one at least may be missing", 1, 0, 0, []set{{"old", 1, 1}, {"new", 0, 0}}, "old=0"},
		{"done", 3, 1, 0, []set{{"old", 0, 0}, {"new", 3, 3}}, ""},
	} {
		deployment := d(c.n, c.surge, c.unavailable)
		v := View{Deployment: deployment}
		for i, set := range c.sets {
			v.Sets = append(v.Sets, rs(deployment, set.image, i+1, set.replicas, set.available))
		}
		if got := sizes(Decide(v, now)); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestScale has the cases of TestScale: from so many pods to so many, in the middle of a
// rollout.
func TestScale(t *testing.T) {
	for _, c := range []struct {
		name              string
		from, to          int
		surge             int
		older, old, fresh int // what the sets ask for before
		want              string
	}{
		{"up, one set", 10, 12, 0, 0, 0, 10, "new=12"},
		{"down, one set", 10, 5, 0, 0, 0, 10, "new=5"},
		{"up, in proportion", 10, 12, 0, 0, 5, 5, "old=6 new=6"},
		{"down, in proportion", 10, 6, 0, 0, 5, 5, "old=3 new=3"},
		{"the leftovers go to the largest", 10, 12, 0, 5, 3, 2, "older=6 old=4"},
		{"to none", 10, 0, 0, 5, 3, 2, "older=0 old=0 new=0"},
		{"with surge", 10, 20, 3, 0, 8, 5, "old=14 new=9"},
		{"from none: the newest gets all", 0, 6, 0, 0, 0, 0, "new=6"},
	} {
		before := d(c.from, c.surge, 0)
		deployment := d(c.to, c.surge, 0)
		deployment.Status.Replicas = int32(c.from)
		v := View{Deployment: deployment}
		for i, n := range []int{c.older, c.old, c.fresh} {
			v.Sets = append(v.Sets, rs(before, []string{"older", "old", "new"}[i], i+1, n, n-1))
		}
		got := strings.Fields(sizes(Decide(v, now)))
		want := map[string]bool{}
		for word := range strings.FieldsSeq(c.want) {
			want[word] = true
		}
		for _, word := range got {
			if !want[word] {
				t.Errorf("%s: %q, want %q", c.name, got, c.want)
			}
			delete(want, word)
		}
		if len(want) > 0 {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestRecreate(t *testing.T) {
	recreate := d(2, -1, 0)
	recreate.Spec.Strategy.Type = appsv1.RecreateDeploymentStrategyType
	pod := func(phase corev1.PodPhase, going bool) *corev1.Pod {
		p := &corev1.Pod{Status: corev1.PodStatus{Phase: phase}}
		if going {
			p.DeletionTimestamp = &metav1.Time{Time: now}
		}
		return p
	}
	old, done := rs(recreate, "old", 1, 2, 2), rs(recreate, "old", 1, 0, 0)
	for _, c := range []struct {
		name string
		sets []*appsv1.ReplicaSet
		pods []*corev1.Pod
		want string
	}{
		{"old ones go first", []*appsv1.ReplicaSet{old}, nil, "old=0"},
		{"a terminating one still runs (CTL-31)", []*appsv1.ReplicaSet{done}, []*corev1.Pod{pod(corev1.PodRunning, true)}, ""},
		{"nobody knows of one that is unknown", []*appsv1.ReplicaSet{done}, []*corev1.Pod{pod(corev1.PodUnknown, false)}, ""},
		{"finished ones do not count", []*appsv1.ReplicaSet{done}, []*corev1.Pod{pod(corev1.PodFailed, false), pod(corev1.PodSucceeded, true)}, "+2"},
		{"none", []*appsv1.ReplicaSet{done}, nil, "+2"},
		{"up at once", []*appsv1.ReplicaSet{done, rs(recreate, "new", 2, 0, 0)}, nil, "new=2"},
	} {
		v := View{Deployment: recreate, Sets: c.sets, Pods: map[types.UID][]*corev1.Pod{"old": c.pods}}
		if got := sizes(Decide(v, now)); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestHistory(t *testing.T) {
	deployment := d(1, 1, 0)
	deployment.Spec.RevisionHistoryLimit = new(int32(1))
	fresh := rs(deployment, "new", 5, 1, 1)
	deployment.Status = appsv1.DeploymentStatus{Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1, ReadyReplicas: 1, ObservedGeneration: 1}
	unseen := rs(deployment, "c", 2, 0, 0)
	unseen.Generation = 2
	going := rs(deployment, "g", 1, 0, 0)
	going.DeletionTimestamp = &metav1.Time{Time: now}
	v := View{Deployment: deployment, Sets: []*appsv1.ReplicaSet{
		fresh, rs(deployment, "d", 4, 0, 0), rs(deployment, "b", 3, 0, 0), unseen, rs(deployment, "a", 1, 0, 0), going,
	}}
	if got := sizes(Decide(v, now)); got != "-a -b" {
		t.Errorf("%q, want the oldest three but the one that was not observed", got)
	}
}

// TestScaledIsKept has a Deployment that was paused without pods, given another template, and scaled:
// the only set that there is has the pods, and is no history.
func TestScaledIsKept(t *testing.T) {
	deployment := d(2, 1, 0)
	deployment.Spec.Paused, deployment.Spec.RevisionHistoryLimit = true, new(int32(0))
	v := View{Deployment: deployment, Sets: []*appsv1.ReplicaSet{rs(deployment, "old", 2, 0, 0), rs(deployment, "older", 1, 0, 0)}}
	if got := sizes(Decide(v, now)); got != "old=2 -older" {
		t.Errorf("%q, want old to be scaled, and kept", got)
	}
}

func TestRevisions(t *testing.T) {
	deployment := d(1, 1, 0)
	deployment.Annotations["note"] = "x"
	back := rs(deployment, "new", 1, 1, 1)
	plan := Decide(View{Deployment: deployment, Sets: []*appsv1.ReplicaSet{back, rs(deployment, "old", 4, 0, 0)}}, now)
	if len(plan.Scale) != 1 {
		t.Fatalf("%d sets change, want 1", len(plan.Scale))
	}
	got := plan.Scale[0].Set.Annotations
	if got[RevisionAnnotation] != "5" || got[historyAnnotation] != "1" || got["note"] != "x" || plan.Store.Annotations[RevisionAnnotation] != "5" {
		t.Errorf("the set has %v, the Deployment %v; want revision 5, once 1", got, plan.Store.Annotations)
	}
	first := Decide(View{Deployment: deployment}, now).Create
	if !strings.HasPrefix(first.Name, "web-") || first.Labels["pod-template-hash"] != strings.TrimPrefix(first.Name, "web-") ||
		first.Spec.Selector.MatchLabels["pod-template-hash"] == "" || first.Annotations[desiredReplicasAnnotation] != "1" || first.Annotations[maxReplicasAnnotation] != "2" {
		t.Errorf("a new set %+v", first.ObjectMeta)
	}
	if taken := Decide(View{Deployment: WithCollision(deployment)}, now).Create; taken.Name == first.Name {
		t.Error("after a collision the name is the same")
	}
	rollback := d(1, 1, 0)
	rollback.Annotations[appsv1.DeprecatedRollbackTo] = "0"
	plan = Decide(View{Deployment: rollback, Sets: []*appsv1.ReplicaSet{rs(rollback, "new", 3, 1, 1), rs(rollback, "old", 2, 0, 0)}}, now)
	if plan.RolledBack == nil || plan.RolledBack.Spec.Template.Spec.Containers[0].Image != "old" || plan.RolledBack.Annotations[appsv1.DeprecatedRollbackTo] != "" {
		t.Errorf("rolled back to %+v", plan.RolledBack)
	}
}

// conditions is what a Deployment's conditions say: "Progressing=True/ReplicaSetUpdated".
func conditions(of *appsv1.Deployment) string {
	var words []string
	for _, kind := range []appsv1.DeploymentConditionType{appsv1.DeploymentAvailable, appsv1.DeploymentProgressing, appsv1.DeploymentReplicaFailure} {
		for _, condition := range of.Status.Conditions {
			if condition.Type == kind {
				words = append(words, fmt.Sprintf("%s=%s/%s", condition.Type, condition.Status, condition.Reason))
			}
		}
	}
	return strings.Join(words, " ")
}

func TestConditions(t *testing.T) {
	progressing := func(reason string, ago time.Duration) []appsv1.DeploymentCondition {
		at := metav1.NewTime(now.Add(-ago))
		return []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: reason, LastUpdateTime: at, LastTransitionTime: at}}
	}
	for _, c := range []struct {
		name      string
		known     []appsv1.DeploymentCondition
		available int
		edit      func(*appsv1.Deployment, *appsv1.ReplicaSet)
		want      string
		again     time.Duration
	}{
		{"begins", progressing("NewReplicaSetCreated", time.Minute), 0, nil, "Available=False/MinimumReplicasUnavailable Progressing=True/ReplicaSetUpdated", 601 * time.Second},
		{"goes on", progressing("ReplicaSetUpdated", time.Minute), 1, nil, "Available=False/MinimumReplicasUnavailable Progressing=True/ReplicaSetUpdated", 0},
		{"done", progressing("ReplicaSetUpdated", time.Minute), 2, nil, "Available=True/MinimumReplicasAvailable Progressing=True/NewReplicaSetAvailable", 0},
		{"stays done when a pod is lost", progressing("NewReplicaSetAvailable", time.Hour), 1, nil, "Available=False/MinimumReplicasUnavailable Progressing=True/NewReplicaSetAvailable", 0},
		{"too slow", progressing("ReplicaSetUpdated", 601*time.Second), 0, func(of *appsv1.Deployment, _ *appsv1.ReplicaSet) {
			of.Status.Replicas, of.Status.UpdatedReplicas = 2, 2
		}, "Available=False/MinimumReplicasUnavailable Progressing=False/ProgressDeadlineExceeded", 0},
		{"not yet too slow", progressing("ReplicaSetUpdated", 590*time.Second), 0, func(of *appsv1.Deployment, _ *appsv1.ReplicaSet) {
			of.Status.Replicas, of.Status.UpdatedReplicas = 2, 2
		}, "Available=False/MinimumReplicasUnavailable Progressing=True/ReplicaSetUpdated", 11 * time.Second},
		{"paused", progressing("ReplicaSetUpdated", time.Hour), 0, func(of *appsv1.Deployment, _ *appsv1.ReplicaSet) { of.Spec.Paused = true }, "Available=False/MinimumReplicasUnavailable Progressing=Unknown/DeploymentPaused", 0},
		{"resumed", progressing("DeploymentPaused", time.Hour), 0, func(of *appsv1.Deployment, _ *appsv1.ReplicaSet) {
			of.Status.Replicas, of.Status.UpdatedReplicas = 2, 2
		}, "Available=False/MinimumReplicasUnavailable Progressing=Unknown/DeploymentResumed", 601 * time.Second},
		{"cannot make pods", progressing("ReplicaSetUpdated", 0), 0, func(_ *appsv1.Deployment, set *appsv1.ReplicaSet) {
			set.Status.Conditions = []appsv1.ReplicaSetCondition{{Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate"}}
		}, "Available=False/MinimumReplicasUnavailable Progressing=True/ReplicaSetUpdated ReplicaFailure=True/FailedCreate", 601 * time.Second},
	} {
		deployment := d(2, 1, 0)
		deployment.Status.Conditions = c.known
		set := rs(deployment, "new", 2, 2, c.available)
		if c.edit != nil {
			c.edit(deployment, set)
		}
		plan := Decide(View{Deployment: deployment, Sets: []*appsv1.ReplicaSet{set}}, now)
		if plan.Store == nil {
			t.Errorf("%s: nothing to store", c.name)
			continue
		}
		if got := conditions(plan.Store); got != c.want || (c.again != 0 && plan.RequeueAfter != c.again) {
			t.Errorf("%s: %s, again in %v; want %s, %v", c.name, got, plan.RequeueAfter, c.want, c.again)
		}
		if again := Decide(View{Deployment: plan.Store, Sets: []*appsv1.ReplicaSet{set}}, now); again.Store != nil && c.name != "done" {
			t.Errorf("%s: what was stored is not at rest: %s", c.name, conditions(again.Store))
		}
	}
	refused, event := AfterCreateFailed(View{Deployment: d(1, 1, 0)}, rs(d(1, 1, 0), "new", 1, 1, 0), errors.New("quota"), now)
	if conditions(refused) != "Progressing=False/ReplicaSetCreateError" || event.Message != `Failed to create new replica set "new": quota` {
		t.Errorf("refused: %s, %s", conditions(refused), event.Message)
	}
}
