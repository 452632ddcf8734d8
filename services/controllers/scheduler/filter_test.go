package scheduler

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func zone(name string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Labels["zone"] = name }
}

func app(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels = map[string]string{"app": name} }
}

func selects(name string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
}

func affinity(of *corev1.Pod) *corev1.Affinity {
	if of.Spec.Affinity == nil {
		of.Spec.Affinity = &corev1.Affinity{}
	}
	return of.Spec.Affinity
}

func withAffinity(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		affinity(p).PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
			{TopologyKey: "zone", LabelSelector: selects(name)},
		}}
	}
}

func withAntiAffinity() func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		affinity(p).PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
			{TopologyKey: "kubernetes.io/hostname", LabelSelector: selects("web")},
		}}
	}
}

func spreadEvenly(skew int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: skew, TopologyKey: "zone", WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: selects("web"),
		}}
	}
}

func claims(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
		}}}
	}
}

// addClaims adds a claim of each sort: bound (to a volume of n2), once, late, unbound.
func addClaims(s *State) {
	claim := func(name string, change func(*corev1.PersistentVolumeClaim)) {
		c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
		change(c)
		s.SetClaim(c)
	}
	bound := func(volume string) func(*corev1.PersistentVolumeClaim) {
		return func(c *corev1.PersistentVolumeClaim) {
			c.Spec.VolumeName, c.Annotations = volume, map[string]string{"pv.kubernetes.io/bind-completed": "yes"}
		}
	}
	claim("bound", bound("local"))
	claim("once", func(c *corev1.PersistentVolumeClaim) {
		bound("shared")(c)
		c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
	})
	claim("late", func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = new("late") })
	claim("unbound", func(*corev1.PersistentVolumeClaim) {})
	setClass(s, &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "late"}, Provisioner: "p", VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer),
	})
	s.SetVolume(&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "shared"}})
	local := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "local"}}
	local.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "kubernetes.io/hostname", Operator: corev1.NodeSelectorOpIn, Values: []string{"n2"}}},
	}}}}
	s.SetVolume(local)
}

// TestFilters has three nodes: n1 and n2 are in zone a and n3 in b. want is a node, or the
// beginning of the message.
func TestFilters(t *testing.T) {
	gpu := func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"example.com/gpu": resource.MustParse("1")}
	}
	for _, row := range []struct {
		name   string
		pod    *corev1.Pod
		placed map[string]*corev1.Pod
		want   string
	}{
		{"near what is in b", pod("p", withAffinity("db")), map[string]*corev1.Pod{"n3": pod("x", app("db"))}, "n3"},
		{"near nobody", pod("p", withAffinity("db")), nil, "0/3 nodes are available: 3 node(s) didn't match pod affinity rules."},
		{"near itself, the first", pod("p", app("db"), withAffinity("db")), nil, "n1"},
		{"apart from n1", pod("p", withAntiAffinity()), map[string]*corev1.Pod{"n1": pod("x", app("web"))}, "n2"},
		{
			"apart from all", pod("p", withAntiAffinity()),
			map[string]*corev1.Pod{"n1": pod("x", app("web")), "n2": pod("y", app("web")), "n3": pod("z", app("web"))},
			"0/3 nodes are available: 3 node(s) didn't match pod anti-affinity rules.",
		},
		{
			"not wanted by others", pod("p", app("web")),
			map[string]*corev1.Pod{"n1": pod("x", withAntiAffinity()), "n2": pod("y", withAntiAffinity()), "n3": pod("z", withAntiAffinity())},
			"0/3 nodes are available: 3 node(s) didn't satisfy existing pods anti-affinity rules.",
		},
		{"in another namespace", pod("p", withAntiAffinity()), map[string]*corev1.Pod{"n1": pod("x", app("web"), func(p *corev1.Pod) { p.Namespace = "other" })}, "n2"},
		{"spread over zones", pod("p", app("web"), spreadEvenly(1)), map[string]*corev1.Pod{"n1": pod("x", app("web"))}, "n3"},
		{
			"spread, and the other zone is full", pod("p", app("web"), spreadEvenly(1), requests("3", "1Gi")),
			map[string]*corev1.Pod{"n1": pod("x", app("web")), "n3": pod("y", requests("3", "1Gi"))},
			"0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't match pod topology spread constraints.",
		},
		{"spread by an empty selector, which counts nobody", pod("p", app("web"), spreadEvenly(1), spreadOver(&metav1.LabelSelector{})), map[string]*corev1.Pod{"n1": pod("x", app("web"))}, "n2"},
		{"spread without a selector", pod("p", app("web"), spreadEvenly(1), spreadOver(nil)), map[string]*corev1.Pod{"n1": pod("x", app("web"))}, "n2"},
		{"skew of two", pod("p", app("web"), spreadEvenly(2), func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"zone": "a"} }), map[string]*corev1.Pod{"n1": pod("x", app("web"))}, "n2"},
		{"a device that no node has", pod("p", gpu), nil, "0/3 nodes are available: 3 Insufficient example.com/gpu."},
		{"a volume of n2", pod("p", claims("bound")), nil, "n2"},
		{"a volume of n2, which is full", pod("p", claims("bound"), requests("3", "1Gi")), map[string]*corev1.Pod{"n2": pod("x", requests("3", "1Gi"))}, "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't match PersistentVolume's node affinity."},
		{"a claim for one pod at a time", pod("p", claims("once")), map[string]*corev1.Pod{"n1": pod("x", claims("once"))}, "0/3 nodes are available: 3 node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode."},
		{"a claim that is not bound", pod("p", claims("unbound")), nil, "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims. no new claims to deallocate, preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."},
		{"a claim that is not there", pod("p", claims("none")), nil, `0/3 nodes are available: persistentvolumeclaim "none" not found.`},
		{"a claim that waits for it", pod("p", claims("late")), nil, "provision n1"},
	} {
		state := NewState()
		for _, n := range []*corev1.Node{node("n1", zone("a")), node("n2", zone("a")), node("n3", zone("b"))} {
			state.SetNode(n)
		}
		addClaims(state)
		for on, p := range row.placed {
			state.Place(p, on)
		}
		got := Decide(row.pod, state.World())
		text := got.Message
		switch got.Outcome {
		case Bind:
			text = got.Node
		case Provision:
			text = "provision " + got.Node
		case Wait, Preempt, Skip, Gated:
		}
		if text != row.want && (got.Outcome != Wait || !strings.HasPrefix(text, row.want)) {
			t.Errorf("%s: got %s, want %s", row.name, text, row.want)
		}
	}
}

func TestScores(t *testing.T) {
	prefers := func(p *corev1.Pod) {
		affinity(p).NodeAffinity = &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
			Weight: 1, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{
				Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"b"},
			}}},
		}}}
	}
	joins := func(weight int32) func(*corev1.Pod) {
		one := []corev1.WeightedPodAffinityTerm{{Weight: weight, PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: "zone", LabelSelector: selects("db")}}}
		return func(p *corev1.Pod) {
			affinity(p).PodAffinity = &corev1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: one}
		}
	}
	soft := func(p *corev1.Pod) {
		spreadEvenly(1)(p)
		p.Spec.TopologySpreadConstraints[0].WhenUnsatisfiable = corev1.ScheduleAnyway
	}
	disliked := node("n1", zone("a"), tainted(corev1.TaintEffectPreferNoSchedule))
	for _, row := range []struct {
		name   string
		nodes  []*corev1.Node
		pod    *corev1.Pod
		placed map[string]*corev1.Pod
		want   string
	}{
		{"a preferred zone", nil, pod("p", prefers), nil, "n3"},
		{"a node that had rather not", []*corev1.Node{disliked, node("n2", zone("a"))}, pod("p"), nil, "n2"},
		{"near its database", nil, pod("p", joins(10)), map[string]*corev1.Pod{"n3": pod("x", app("db"))}, "n3"},
		{"evenly if it can be", nil, pod("p", app("web"), soft), map[string]*corev1.Pod{"n1": pod("x", app("web")), "n2": pod("y", app("web"))}, "n3"},
	} {
		if row.nodes == nil {
			row.nodes = []*corev1.Node{node("n1", zone("a")), node("n2", zone("a")), node("n3", zone("b"))}
		}
		state := NewState()
		for _, n := range row.nodes {
			state.SetNode(n)
		}
		for on, p := range row.placed {
			state.Place(p, on)
		}
		if got := Decide(row.pod, state.World()); got.Node != row.want {
			t.Errorf("%s: %s %s, want %s", row.name, got.Node, got.Message, row.want)
		}
	}
}

func priority(value int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Priority = &value }
}

// spreadOver changes the selector of a pod's only spread constraint.
func spreadOver(selector *metav1.LabelSelector) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.TopologySpreadConstraints[0].LabelSelector = selector }
}

// TestPreemptionSparesCoveredPods has budgets without disruptions left. taken is the preempted pod:
// the covered pod of lower priority, or the other one.
func TestPreemptionSparesCoveredPods(t *testing.T) {
	big := requests("4", "1Gi")
	for name, c := range map[string]struct {
		selector  *metav1.LabelSelector
		disrupted map[string]metav1.Time
		labels    map[string]string
		victim    string
	}{
		"a selector that finds it": {selector: selects("db"), labels: map[string]string{"app": "db"}, victim: "other"},
		"an empty selector":        {selector: &metav1.LabelSelector{}, labels: map[string]string{"app": "db"}, victim: "covered"},
		"no selector":              {labels: map[string]string{"app": "db"}, victim: "covered"},
		"a pod that was counted":   {selector: selects("db"), labels: map[string]string{"app": "db"}, disrupted: map[string]metav1.Time{"covered": {}}, victim: "covered"},
		"a pod without labels": {
			selector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpDoesNotExist}}},
			victim:   "covered",
		},
		"a selector that became wrong": {
			selector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Like"}}},
			labels:   map[string]string{"app": "db"}, victim: "covered",
		},
	} {
		state := NewState()
		state.SetNode(node("n1"))
		state.SetNode(node("n2"))
		budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "b", UID: "b"}}
		budget.Spec.Selector = selects("db")
		setBudget(state, budget)
		budget.Spec.Selector, budget.Status.DisruptedPods = c.selector, c.disrupted
		setBudget(state, budget)
		state.Place(pod("covered", big, priority(1), func(p *corev1.Pod) { p.Labels = c.labels }), "n1")
		state.Place(pod("other", big, priority(5)), "n2")
		got := Decide(pod("p", big, priority(10)), state.World())
		if len(got.Victims) != 1 || got.Victims[0].Name != c.victim {
			t.Errorf("%s: victims %v, want %s", name, got.Victims, c.victim)
		}
	}
}

func TestPreempt(t *testing.T) {
	never := func(p *corev1.Pod) { p.Spec.PreemptionPolicy = new(corev1.PreemptNever) }
	big, half := requests("4", "1Gi"), requests("2", "1Gi")
	for _, row := range []struct {
		name    string
		pod     *corev1.Pod
		placed  map[string][]*corev1.Pod
		budget  string // an app that may lose nobody
		node    string
		victims string
		message string
	}{
		{
			name: "the lesser priority goes", pod: pod("p", big, priority(10)),
			placed: map[string][]*corev1.Pod{"n1": {pod("a", big, priority(5))}, "n2": {pod("b", big, priority(1))}},
			node:   "n2", victims: "b", message: "0/2 nodes are available: 2 Insufficient cpu.",
		},
		{
			name: "only who is in the way", pod: pod("p", half, priority(10)),
			placed: map[string][]*corev1.Pod{"n1": {pod("a", half, priority(5)), pod("b", half, priority(1))}, "n2": {pod("c", big, priority(9))}},
			node:   "n1", victims: "b", message: "0/2 nodes are available: 2 Insufficient cpu.",
		},
		{
			name: "a budget is kept", pod: pod("p", big, priority(10)), budget: "db",
			placed: map[string][]*corev1.Pod{"n1": {pod("a", big, app("db"))}, "n2": {pod("b", big, priority(7))}},
			node:   "n2", victims: "b", message: "0/2 nodes are available: 2 Insufficient cpu.",
		},
		{
			name: "nobody is lesser", pod: pod("p", big),
			placed: map[string][]*corev1.Pod{"n1": {pod("a", big)}, "n2": {pod("b", big)}},
			message: "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, " +
				"preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod.",
		},
		{
			name: "does not preempt", pod: pod("p", big, priority(10), never),
			placed: map[string][]*corev1.Pod{"n1": {pod("a", big)}, "n2": {pod("b", big)}},
			message: "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, " +
				"preemption: not eligible due to preemptionPolicy=Never.",
		},
		{
			name: "those who do not want it go", pod: pod("p", app("web"), priority(10)),
			placed: map[string][]*corev1.Pod{"n1": {pod("a", withAntiAffinity())}, "n2": {pod("b", withAntiAffinity(), priority(3))}},
			node:   "n1", victims: "a", message: "0/2 nodes are available: 2 node(s) didn't satisfy existing pods anti-affinity rules.",
		},
	} {
		state := NewState()
		state.SetNode(node("n1"))
		state.SetNode(node("n2"))
		for on, pods := range row.placed {
			for _, p := range pods {
				state.Place(p, on)
			}
		}
		if row.budget != "" {
			selector, _ := metav1.LabelSelectorAsSelector(selects(row.budget))
			state.related.budgets["b"] = Budget{Namespace: "default", Selector: selector}
		}
		got := Decide(row.pod, state.World())
		var victims []string
		for _, victim := range got.Victims {
			victims = append(victims, victim.Name)
		}
		if got.Node != row.node || strings.Join(victims, " ") != row.victims || got.Message != row.message {
			t.Errorf("%s: node %q, victims %q, %s", row.name, got.Node, victims, got.Message)
		}
		if got.Outcome != Preempt {
			continue
		}
		state.Nominate(row.pod, got.Node, got.Victims)
		if again := Decide(row.pod, state.World()); again.Outcome != Wait || !strings.HasSuffix(again.Message, messageVictimTerminating) {
			t.Errorf("%s: decided again: %+v", row.name, again)
		}
		// Nobody of less priority takes the room that is kept.
		for _, victim := range got.Victims {
			state.RemovePod(victim)
		}
		if again := Decide(row.pod, state.World()); again.Outcome != Bind || again.Node != row.node {
			t.Errorf("%s: with room: %+v", row.name, again)
		}
		other := pod("other", big, priority(1))
		if got := Decide(other, state.World()); got.Outcome == Bind && len(row.pod.Labels) == 0 {
			t.Errorf("%s: the room was given away", row.name)
		}
	}
}

// TestPriorityOrder takes the more important first, and leaves another scheduler's alone.
func TestPriorityOrder(t *testing.T) {
	state := NewState()
	theirs := pod("e", func(p *corev1.Pod) { p.Spec.SchedulerName = "theirs" })
	for _, p := range []*corev1.Pod{theirs, pod("a"), pod("b", priority(5)), pod("c", priority(5)), pod("d", priority(9))} {
		state.SetPod(p)
	}
	order := ""
	for next := state.Next(); next != nil; next = state.Next() {
		order += next.Name
	}
	if order != "dbca" {
		t.Errorf("order %s, want dbca", order)
	}
}

// BenchmarkDecide decides about pods of ten Deployments on 1,000 nodes; the goal is 2,000/s.
func BenchmarkDecide(b *testing.B) {
	state := NewState()
	for i := range 1000 {
		name := "node-" + string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676))
		state.SetNode(node(name, zone(string(rune('a'+i%3))), func(n *corev1.Node) {
			n.Status.Allocatable[corev1.ResourcePods] = resource.MustParse("110")
		}))
	}
	template := pod("p", requests("10m", "8Mi"), app("web"))
	b.ResetTimer()
	for i := range b.N {
		one := *template
		one.UID = types.UID(resource.NewQuantity(int64(i), resource.DecimalSI).String())
		state.SetPod(&one)
		next := state.Next()
		decision := Decide(next, state.World())
		if decision.Outcome != Bind {
			b.Skipf("full after %d pods", i)
		}
		state.Place(next, decision.Node)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pods/s")
}
