package admission

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/services/kubelet/podstate"
)

func pod(change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}}}
	for _, c := range change {
		c(p)
	}
	return p
}

func withRequest(name corev1.ResourceName, quantity string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		if p.Spec.Containers[0].Resources.Requests == nil {
			p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{}
		}
		p.Spec.Containers[0].Resources.Requests[name] = resource.MustParse(quantity)
	}
}

func withName(name string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Name = name } }

func withPriority(n int32) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.Priority = &n } }

func withPort80(ip string, protocol corev1.Protocol) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostIP: ip, HostPort: 80, Protocol: protocol}}
	}
}

func withToleration(t corev1.Toleration) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{t} }
}

func asStatic(p *corev1.Pod) {
	p.Annotations = map[string]string{podstate.AnnotationSource: podstate.SourceFile}
}

func withAffinity(key string, operator corev1.NodeSelectorOperator, values ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: operator, Values: values}}}},
		}}}
	}
}

const critical = 2_000_000_000

// TestAdmit: what each check lets pass, and what it refuses, in upstream's words (KBL-09).
func TestAdmit(t *testing.T) {
	host := func(change func(*Host)) Host {
		h := Host{
			Name: "n", Labels: map[string]string{"disk": "ssd", "cores": "8"},
			Allocatable: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("1Gi"), corev1.ResourcePods: resource.MustParse("2"),
			},
		}
		if change != nil {
			change(&h)
		}
		return h
	}
	beside := func(others ...*corev1.Pod) Host { return host(func(h *Host) { h.Pods = others }) }
	under := func(pressures ...corev1.NodeConditionType) Host {
		return host(func(h *Host) { h.Pressures = pressures })
	}
	taint := host(func(h *Host) { h.Taints = []corev1.Taint{{Key: "k", Value: "v", Effect: corev1.TaintEffectNoExecute}} })
	noSchedule := host(func(h *Host) { h.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}} })
	const (
		affinityText = "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"
		portsText    = "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"
		taintText    = "Predicate TaintToleration failed: node(s) had untolerated taint(s)"
		memoryText   = "The node had condition: [MemoryPressure]. "
	)
	for name, c := range map[string]struct {
		pod    *corev1.Pod
		host   Host
		reason string
		text   string
	}{
		"anything":           {pod(), host(nil), "", ""},
		"too much cpu":       {pod(withRequest("cpu", "1500m")), beside(pod(withRequest("cpu", "3"))), "OutOfcpu", "Node didn't have enough resource: cpu, requested: 1500, used: 3000, capacity: 4000"},
		"too much memory":    {pod(withRequest("memory", "2Gi")), host(nil), "OutOfmemory", "Node didn't have enough resource: memory, requested: 2147483648, used: 0, capacity: 1073741824"},
		"too many pods":      {pod(), beside(pod(), pod()), "OutOfpods", "Node didn't have enough resource: pods, requested: 1, used: 2, capacity: 2"},
		"what no node has":   {pod(withRequest("example.com/gpu", "1")), host(nil), "", ""},
		"resources first":    {pod(withRequest("cpu", "5"), withAffinity("disk", corev1.NodeSelectorOpIn, "hdd")), host(nil), "OutOfcpu", "Node didn't have enough resource: cpu, requested: 5000, used: 0, capacity: 4000"},
		"another label":      {pod(func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "hdd"} }), host(nil), "NodeAffinity", affinityText},
		"its label":          {pod(func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "ssd"} }), host(nil), "", ""},
		"affinity In":        {pod(withAffinity("disk", corev1.NodeSelectorOpIn, "hdd", "ssd")), host(nil), "", ""},
		"affinity NotIn":     {pod(withAffinity("disk", corev1.NodeSelectorOpNotIn, "ssd")), host(nil), "NodeAffinity", affinityText},
		"affinity Exists":    {pod(withAffinity("gpu", corev1.NodeSelectorOpExists)), host(nil), "NodeAffinity", affinityText},
		"affinity Gt":        {pod(withAffinity("cores", corev1.NodeSelectorOpGt, "4")), host(nil), "", ""},
		"affinity Lt":        {pod(withAffinity("cores", corev1.NodeSelectorOpLt, "4")), host(nil), "NodeAffinity", affinityText},
		"another node":       {pod(func(p *corev1.Pod) { p.Spec.NodeName = "m" }), host(nil), "NodeName", "Predicate NodeName failed: node(s) didn't match the requested node name"},
		"a port taken":       {pod(withPort80("", "")), beside(pod(withPort80("127.0.0.1", corev1.ProtocolTCP))), "NodePorts", portsText},
		"another address":    {pod(withPort80("127.0.0.2", "")), beside(pod(withPort80("127.0.0.1", ""))), "", ""},
		"another protocol":   {pod(withPort80("", corev1.ProtocolUDP)), beside(pod(withPort80("", ""))), "", ""},
		"a taint":            {pod(), taint, "TaintToleration", taintText},
		"a taint tolerated":  {pod(withToleration(corev1.Toleration{Key: "k", Value: "v"})), taint, "", ""},
		"another value":      {pod(withToleration(corev1.Toleration{Key: "k", Value: "w"})), taint, "TaintToleration", taintText},
		"all tolerated":      {pod(withToleration(corev1.Toleration{Operator: corev1.TolerationOpExists})), taint, "", ""},
		"static pods stay":   {pod(asStatic), taint, "", ""},
		"NoSchedule is not":  {pod(), noSchedule, "", ""},
		"shutdown":           {pod(withPriority(critical)), host(func(h *Host) { h.ShuttingDown = true }), "NodeShutdown", "Pod was rejected as the node is shutting down."},
		"memory, BestEffort": {pod(), under(corev1.NodeMemoryPressure), "Evicted", memoryText},
		"memory, Burstable":  {pod(withRequest("cpu", "1")), under(corev1.NodeMemoryPressure), "", ""},
		"memory, tolerated":  {pod(withToleration(corev1.Toleration{Key: corev1.TaintNodeMemoryPressure, Operator: corev1.TolerationOpExists})), under(corev1.NodeMemoryPressure), "", ""},
		"disk":               {pod(withRequest("cpu", "1")), under(corev1.NodeDiskPressure), "Evicted", "The node had condition: [DiskPressure]. "},
		"disk, critical":     {pod(withPriority(critical)), under(corev1.NodeDiskPressure), "", ""},
		"both":               {pod(withRequest("cpu", "1")), under(corev1.NodeDiskPressure, corev1.NodeMemoryPressure), "Evicted", "The node had condition: [DiskPressure MemoryPressure]. "},
		"devices":            {pod(), host(func(h *Host) { h.AllocateErr = errors.New("no healthy devices") }), "UnexpectedAdmissionError", "Allocate failed due to no healthy devices, which is unexpected"},
		"Windows":            {pod(func(p *corev1.Pod) { p.Spec.OS = &corev1.PodOS{Name: corev1.Windows} }), host(nil), "PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS"},
	} {
		v := Admit(c.pod, c.host)
		if v.Admitted != (c.reason == "") || v.Reason != c.reason || v.Message != c.text {
			t.Errorf("%s: %+v\nwant %q %q", name, v, c.reason, c.text)
		}
	}
}

// TestPreempt: a critical pod pushes out as few and as unimportant pods as will do.
func TestPreempt(t *testing.T) {
	host := Host{Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourcePods: resource.MustParse("110")}}
	small := pod(withName("small"), withRequest("cpu", "1"))
	large := pod(withName("large"), withRequest("cpu", "2"))
	dear := pod(withName("dear"), withRequest("cpu", "1"), withPriority(1000))
	needed := pod(withName("needed"), withRequest("cpu", "4"), withPriority(critical))
	for name, c := range map[string]struct {
		pod    *corev1.Pod
		others []*corev1.Pod
		want   []string
	}{
		"the least important": {pod(withRequest("cpu", "1"), withPriority(critical)), []*corev1.Pod{dear, small, large}, []string{"small"}},
		"as many as needed":   {pod(withRequest("cpu", "3"), withPriority(critical)), []*corev1.Pod{dear, small, large}, []string{"small", "large"}},
		"no more than needed": {pod(withRequest("cpu", "2"), withPriority(critical)), []*corev1.Pod{dear, small, large}, []string{"large"}},
		"never critical ones": {pod(withRequest("cpu", "1"), withPriority(critical)), []*corev1.Pod{needed}, nil},
		"static pods too":     {pod(withRequest("cpu", "1"), asStatic), []*corev1.Pod{dear, small, large}, []string{"small"}},
		"nobody for others":   {pod(withRequest("cpu", "1"), withPriority(1_000_000)), []*corev1.Pod{dear, small, large}, nil},
	} {
		host.Pods = c.others
		v := Admit(c.pod, host)
		var got []string
		for _, victim := range v.Victims {
			got = append(got, victim.Name)
		}
		if len(got) != len(c.want) || v.Admitted != (len(c.want) > 0) {
			t.Errorf("%s: %v %+v, want %v", name, got, v, c.want)
			continue
		}
		for i := range got {
			if got[i] != c.want[i] {
				t.Errorf("%s: %v, want %v", name, got, c.want)
			}
		}
	}
}
