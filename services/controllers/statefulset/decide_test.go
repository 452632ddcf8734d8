package statefulset

import (
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

func set(replicas int, edits ...func(*appsv1.StatefulSet)) *appsv1.StatefulSet {
	s := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "set", Generation: 7}}
	s.Spec.Replicas = new(int32(replicas))
	s.Spec.ServiceName = "svc"
	s.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	s.Spec.Template.Labels = map[string]string{"app": "web"}
	for _, edit := range edits {
		edit(s)
	}
	return s
}

func parallel(s *appsv1.StatefulSet) { s.Spec.PodManagementPolicy = appsv1.ParallelPodManagement }
func onDelete(s *appsv1.StatefulSet) {
	s.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType
}

func partition(n int32) func(*appsv1.StatefulSet) {
	return func(s *appsv1.StatefulSet) {
		s.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: &n}
	}
}

func missing(n int32) func(*appsv1.StatefulSet) {
	return func(s *appsv1.StatefulSet) {
		s.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{MaxUnavailable: new(intstr.FromInt32(n))}
	}
}

func share(percent string) func(*appsv1.StatefulSet) {
	return func(s *appsv1.StatefulSet) {
		s.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{MaxUnavailable: new(intstr.FromString(percent))}
	}
}

func deleting(s *appsv1.StatefulSet) { s.DeletionTimestamp = &metav1.Time{Time: now} }
func from(n int32) func(*appsv1.StatefulSet) {
	return func(s *appsv1.StatefulSet) { s.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: n} }
}

func claims(policy ...appsv1.PersistentVolumeClaimRetentionPolicyType) func(*appsv1.StatefulSet) {
	return func(s *appsv1.StatefulSet) {
		s.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}}}
		if len(policy) == 2 {
			s.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenDeleted: policy[0], WhenScaled: policy[1]}
		}
	}
}

// pods reads "0 1:old 2:pending": ordinals and what is special about them.
func pods(s *appsv1.StatefulSet, text string) []*corev1.Pod {
	var all []*corev1.Pod
	for word := range strings.FieldsSeq(text) {
		number, special, _ := strings.Cut(word, ":")
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-" + number, UID: types.UID("uid-" + number)}}
		p.Labels = map[string]string{"app": "web", appsv1.StatefulSetRevisionLabel: "new", appsv1.StatefulSetPodNameLabel: p.Name, appsv1.PodIndexLabel: number}
		p.Status.Phase = corev1.PodRunning
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-time.Minute))}}
		(&round{View: View{Set: s}}).mount(p, Ordinal(p, s))
		for what := range strings.SplitSeq(special, ",") {
			switch what {
			case "old":
				p.Labels[appsv1.StatefulSetRevisionLabel] = "old"
			case "pending", "failed", "succeeded":
				p.Status.Phase = corev1.PodPhase(strings.ToUpper(what[:1]) + what[1:])
				p.Status.Conditions = nil
			case "unready":
				p.Status.Conditions = nil
			case "going":
				p.DeletionTimestamp = &metav1.Time{Time: now}
			case "nameless":
				delete(p.Labels, appsv1.StatefulSetPodNameLabel)
			}
		}
		all = append(all, p)
	}
	return all
}

func seen(s *appsv1.StatefulSet, text string, existing ...*corev1.PersistentVolumeClaim) View {
	v := View{
		Set: s, Pods: pods(s, text), Claims: map[string]*corev1.PersistentVolumeClaim{},
		Current: Revision{"old", &s.Spec.Template}, Update: Revision{"new", &s.Spec.Template},
	}
	for _, claim := range existing {
		v.Claims[claim.Name] = claim
	}
	return v
}

// done is what a plan does: "+web-0 -web-1 ~web-2 claim data-web-0".
func done(plan Plan) string {
	var words []string
	for _, claim := range plan.Make {
		words = append(words, "claim "+claim.Name)
	}
	for _, claim := range plan.Own {
		owner := "nobody"
		if len(claim.OwnerReferences) > 0 {
			owner = claim.OwnerReferences[0].Kind
		}
		words = append(words, claim.Name+" to "+owner)
	}
	for _, pod := range plan.Create {
		words = append(words, "+"+pod.Name+"@"+revisionOf(pod))
	}
	for _, pod := range plan.Repair {
		words = append(words, "~"+pod.Name)
	}
	for _, pod := range plan.Delete {
		words = append(words, "-"+pod.Name)
	}
	return strings.Join(words, " ")
}

func TestDecide(t *testing.T) {
	for _, c := range []struct {
		name string
		set  *appsv1.StatefulSet
		pods string
		want string
	}{
		// Ordered.
		{"the first", set(3), "", "+web-0@new"},
		{"the next when the one before is ready", set(3), "0", "+web-1@new"},
		{"not before", set(3), "0:unready", ""},
		{"nor while it is pending", set(3), "0:pending", ""},
		{"a gap is filled", set(3), "0 2", "+web-1@new"},
		{"one that goes is waited for (TRC-19)", set(1), "0:going", ""},
		{"also when it is of another ordinal", set(3), "0:going 1", ""},
		{"one that has failed is deleted", set(2), "0:failed 1", "-web-0"},
		{"one that is over is deleted", set(2), "0 1:succeeded", "-web-1"},
		{"once", set(2), "0:failed,going 1", ""},
		{"at rest", set(2), "0 1", ""},
		{"down, the highest first", set(1), "0 1 2", "-web-2"},
		{"one after the other", set(1), "0 1 2:going", ""},
		{"not while the others are not well", set(1), "0:unready 1 2", ""},
		{"the sick one may go", set(1), "0 1 2:unready", "-web-2"},
		{"a sick one holds up those above it", set(1), "0 1:unready 2:unready", ""},
		{"to none", set(0), "0", "-web-0"},
		{"its names are given back", set(1), "0:nameless", "~web-0"},
		{"not its own", set(1), "0 x", ""},
		{"being deleted", set(3, deleting), "0", ""},
		{"ordinals that begin at 5", set(2, from(5)), "5 0", "+web-6@new"},
		{"those before the first go", set(1, from(5)), "5 0", "-web-0"},
		// Parallel.
		{"all at once", set(3, parallel), "", "+web-0@new +web-1@new +web-2@new"},
		{"others do not wait", set(3, parallel), "0:going 1:unready", "+web-2@new"},
		{"but the name does", set(1, parallel), "0:going", ""},
		{"down at once", set(1, parallel), "0 1 2", "-web-2 -web-1"},
		{"failed ones and missing ones", set(3, parallel), "0:failed 1", "+web-2@new -web-0"},
		// Rolling.
		{"the highest first", set(3), "0:old 1:old 2:old", "-web-2"},
		{"then the next", set(3), "0:old 1:old 2", "-web-1"},
		{"not while one is not ready", set(3), "0:old 1:old 2:unready", ""},
		{"down to the partition", set(3, partition(2)), "0:old 1:old 2:old", "-web-2"},
		{"and no further", set(3, partition(2)), "0:old 1:old 2", ""},
		{"below it the old template is kept", set(3, partition(2)), "1:old 2", "+web-0@old"},
		{"above it the new one", set(3, partition(1)), "0:old 2", "+web-1@new"},
		{"on delete only", set(3, onDelete), "0:old 1:old 2:old", ""},
		{"and then new", set(3, onDelete), "0:old 1:old", "+web-2@new"},
		{"two at once", set(4, missing(2)), "0:old 1:old 2:old 3:old", "-web-3 -web-2"},
		{"one that is missing counts", set(4, missing(2), parallel), "0:old 1:old 2:old 3:unready", "-web-2"},
		{"a sick old one goes", set(2, parallel), "0:old 1:old,unready", "-web-1"},
		{"the sick old one goes first (pg)", set(4, missing(1), parallel), "0:old,unready 1:old 2:old 3:old", "-web-0"},
		{"all sick old ones go at once", set(4, missing(1), parallel), "0:old,unready 1:old 2:old,pending 3:old", "-web-2 -web-0"},
		{"and what the budget leaves besides", set(4, missing(2), parallel), "0:old,unready 1:old 2:old 3:old", "-web-0 -web-3"},
		{"a sick new one spends the budget", set(4, missing(1), parallel), "0:old 1:old 2:old 3:unready", ""},
		{"not below the partition", set(4, partition(2), parallel), "0:old,unready 1:old 2:old 3:old", ""},
		{"a sick one below the partition spends the budget", set(3, partition(1), parallel), "0:old,unready 1:old 2:old", ""},
		{"the partition is counted from the first ordinal", set(3, from(4), partition(2)), "4:old 5:old 6:old", "-web-6"},
		{"and no further than that", set(3, from(5), partition(2)), "5:old 6:old 7", ""},
		{"a share is rounded down", set(3, share("50%")), "0:old 1:old 2:old", "-web-2"},
		{"to one at least", set(3, share("10%")), "0:old 1:old 2:old", "-web-2"},
	} {
		if got := done(Decide(seen(c.set, c.pods), now)); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestRolledFrom has a pod lost in the middle of a rolling update: it comes back as it was if
// the update has not come to it.
func TestRolledFrom(t *testing.T) {
	s := set(3)
	s.Status.CurrentReplicas = 2
	if got := done(Decide(seen(s, "1:old 2"), now)); got != "+web-0@old" {
		t.Errorf("%s, want the old web-0", got)
	}
	if got := done(Decide(seen(s, "0:old 1:old"), now)); got != "+web-2@new" {
		t.Errorf("%s, want the new web-2", got)
	}
}

func TestIdentity(t *testing.T) {
	pod := Decide(seen(set(1, claims()), ""), now).Create[0]
	got := fmt.Sprint(pod.Name, " ", pod.Spec.Hostname, ".", pod.Spec.Subdomain, " ", pod.Labels, " ", pod.Spec.Volumes[0].PersistentVolumeClaim.ClaimName, " ", pod.OwnerReferences[0].Name)
	want := "web-0 web-0.svc map[app:web apps.kubernetes.io/pod-index:0 controller-revision-hash:new statefulset.kubernetes.io/pod-name:web-0] data-web-0 web"
	if got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

func TestClaims(t *testing.T) {
	const keep, remove = appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType
	claim := func(name string, owner ...string) *corev1.PersistentVolumeClaim {
		c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if len(owner) == 3 {
			c.OwnerReferences = []metav1.OwnerReference{{Kind: owner[0], Name: owner[1], UID: types.UID(owner[2])}}
		}
		return c
	}
	for _, c := range []struct {
		name   string
		set    *appsv1.StatefulSet
		pods   string
		claims []*corev1.PersistentVolumeClaim
		want   string
	}{
		{"made with the pod", set(1, claims()), "", nil, "claim data-web-0 +web-0@new"},
		{"kept from before", set(1, claims()), "", []*corev1.PersistentVolumeClaim{claim("data-web-0")}, "+web-0@new"},
		{"made for one that waits for it", set(1, claims()), "0:pending", nil, "claim data-web-0"},
		{"kept", set(1, claims(keep, keep)), "0", []*corev1.PersistentVolumeClaim{claim("data-web-0")}, ""},
		{"goes with the set", set(1, claims(remove, keep)), "0", []*corev1.PersistentVolumeClaim{claim("data-web-0")}, "data-web-0 to StatefulSet"},
		{"once", set(1, claims(remove, keep)), "0", []*corev1.PersistentVolumeClaim{claim("data-web-0", "StatefulSet", "web", "set")}, ""},
		{"kept after all", set(1, claims(keep, keep)), "0", []*corev1.PersistentVolumeClaim{claim("data-web-0", "StatefulSet", "web", "set")}, "data-web-0 to nobody"},
		{"goes with the pod", set(0, claims(keep, remove)), "0", []*corev1.PersistentVolumeClaim{claim("data-web-0")}, "data-web-0 to Pod -web-0"},
		{"another's owner stays", set(1, claims(keep, keep)), "0", []*corev1.PersistentVolumeClaim{claim("data-web-0", "ConfigMap", "c", "c")}, ""},
		{"one that is about to go is waited for", set(1, claims(keep, remove)), "", []*corev1.PersistentVolumeClaim{claim("data-web-0", "Pod", "web-0", "older")}, ""},
	} {
		if got := done(Decide(seen(c.set, c.pods, c.claims...), now)); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestStatus(t *testing.T) {
	slow := set(2)
	slow.Spec.MinReadySeconds = 90
	for _, c := range []struct {
		name string
		set  *appsv1.StatefulSet
		pods string
		want string
	}{
		{"counts", set(4), "0:old 1:old 2:unready 3:going", "4 ready 3 available 3 current 2 updated 1 old>new"},
		{"rolling: one goes", set(3), "0:old 1:old 2:old", "3 ready 3 available 3 current 2 updated 0 old>new"},
		{"done", set(2), "0 1", "2 ready 2 available 2 current 2 updated 2 new>new"},
		{"done, on delete (od)", set(2, onDelete), "0 1", "2 ready 2 available 2 current 2 updated 2 new>new"},
		{"on delete, and one is old", set(2, onDelete), "0 1:old", "2 ready 2 available 2 current 1 updated 1 old>new"},
		{"not done while one is not ready", set(2), "0 1:unready", "2 ready 1 available 1 current 0 updated 2 old>new"},
		{"ready, not available", slow, "0 1", "2 ready 2 available 0 current 2 updated 2 new>new"},
	} {
		plan := Decide(seen(c.set, c.pods), now)
		s := plan.Status
		got := fmt.Sprintf("%d ready %d available %d current %d updated %d %s>%s",
			s.Replicas, s.ReadyReplicas, s.AvailableReplicas, s.CurrentReplicas, s.UpdatedReplicas, s.CurrentRevision, s.UpdateRevision)
		if got != c.want || s.ObservedGeneration != 7 {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	if again := Decide(seen(slow, "0 1"), now).Again; again != 30*time.Second {
		t.Errorf("looks again after %v, want 30s", again)
	}
}
