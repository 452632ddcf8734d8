package podview_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/podfall/podfall/internal/podview"
	"github.com/podfall/podfall/proto/kinds"
)

func size(amount string) corev1.ResourceList {
	list := make(corev1.ResourceList)
	list[corev1.ResourceStorage] = resource.MustParse(amount)
	return list
}

func annotated(name, key, value string) metav1.ObjectMeta {
	meta := made(name)
	meta.Annotations = map[string]string{key: value}
	return meta
}

func made(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, CreationTimestamp: ago(time.Hour)}
}

// TestOtherKinds has a row, wide columns included, for each kind with columns of its own.
func TestOtherKinds(t *testing.T) {
	template := corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "x"}, {Name: "b", Image: "y"}}}}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "w"}}
	for _, c := range []struct {
		obj  kinds.Object
		want string
	}{
		{
			&corev1.Node{ObjectMeta: made("n"), Spec: corev1.NodeSpec{Unschedulable: true}},
			"n|Unknown,SchedulingDisabled|<none>|60m||<none>|<none>|<unknown>|<unknown>|<unknown>",
		},
		{&corev1.Namespace{ObjectMeta: made("ns"), Status: corev1.NamespaceStatus{Phase: "Active"}}, "ns|Active|60m"},
		{&coordinationv1.Lease{ObjectMeta: made("l"), Spec: coordinationv1.LeaseSpec{HolderIdentity: new("n1")}}, "l|n1|60m"},
		{
			&appsv1.Deployment{
				ObjectMeta: made("d"), Spec: appsv1.DeploymentSpec{Replicas: new(int32(3)), Template: template, Selector: selector},
				Status: appsv1.DeploymentStatus{ReadyReplicas: 2, UpdatedReplicas: 3, AvailableReplicas: 1},
			},
			"d|2/3|3|1|60m|a,b|x,y|app=w",
		},
		{
			&appsv1.ReplicaSet{ObjectMeta: made("r"), Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(2)), Template: template, Selector: selector}, Status: appsv1.ReplicaSetStatus{Replicas: 1}},
			"r|2|1|0|60m|a,b|x,y|app=w",
		},
		{
			&corev1.ReplicationController{ObjectMeta: made("rc"), Spec: corev1.ReplicationControllerSpec{Selector: map[string]string{"a": "b"}}},
			"rc|1|0|0|60m|||a=b",
		},
		{&appsv1.StatefulSet{ObjectMeta: made("s"), Spec: appsv1.StatefulSetSpec{Template: template}}, "s|0/1|60m|a,b|x,y"},
		{
			&appsv1.DaemonSet{ObjectMeta: made("ds"), Spec: appsv1.DaemonSetSpec{Template: template, Selector: selector}, Status: appsv1.DaemonSetStatus{DesiredNumberScheduled: 5, NumberReady: 4}},
			"ds|5|0|4|0|0|<none>|60m|a,b|x,y|app=w",
		},
		{
			&batchv1.Job{
				ObjectMeta: made("j"), Spec: batchv1.JobSpec{Completions: new(int32(2)), Template: template, Selector: selector},
				Status: batchv1.JobStatus{Succeeded: 2, StartTime: new(ago(time.Minute)), CompletionTime: new(ago(30 * time.Second)), Conditions: []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}},
			},
			"j|Complete|2/2|30s|60m|a,b|x,y|app=w",
		},
		{
			&batchv1.CronJob{ObjectMeta: made("cj"), Spec: batchv1.CronJobSpec{Schedule: "* * * * *", Suspend: new(false)}},
			"cj|* * * * *|<none>|False|0|<none>|60m|||<none>",
		},
		{
			&policyv1.PodDisruptionBudget{ObjectMeta: made("pdb"), Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromString("50%"))}, Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 1}},
			"pdb|50%|N/A|1|60m",
		},
		{
			&corev1.Service{ObjectMeta: made("svc"), Spec: corev1.ServiceSpec{Type: "LoadBalancer", ClusterIPs: []string{"10.1.0.1"}, Ports: []corev1.ServicePort{{Port: 80, NodePort: 30080, Protocol: "TCP"}, {Port: 53, Protocol: "UDP"}}}},
			"svc|LoadBalancer|10.1.0.1|<pending>|80:30080/TCP,53/UDP|60m|<none>",
		},
		{
			&discoveryv1.EndpointSlice{ObjectMeta: made("es"), AddressType: "IPv4", Ports: []discoveryv1.EndpointPort{{Port: new(int32(80))}}, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"1", "2"}}, {Addresses: []string{"3", "4"}}}},
			"es|IPv4|80|1,2,3 + 1 more...|60m",
		},
		{&corev1.ConfigMap{ObjectMeta: made("cm"), Data: map[string]string{"a": "b"}}, "cm|1|60m"},
		{&corev1.Secret{ObjectMeta: made("sec"), Type: "Opaque"}, "sec|Opaque|0|60m"},
		{
			&corev1.PersistentVolumeClaim{
				ObjectMeta: made("pvc"), Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "v", StorageClassName: new("fast"), VolumeMode: new(corev1.PersistentVolumeFilesystem)},
				Status: corev1.PersistentVolumeClaimStatus{Phase: "Bound", Capacity: size("1Gi"), AccessModes: []corev1.PersistentVolumeAccessMode{"ReadWriteMany", "ReadWriteOnce"}},
			},
			"pvc|Bound|v|1Gi|RWO,RWX|fast|<unset>|60m|Filesystem",
		},
		{
			&corev1.PersistentVolume{ObjectMeta: made("pv"), Status: corev1.PersistentVolumeStatus{Phase: "Available"}},
			"pv|0|||Available|||<unset>||60m|<unset>",
		},
		{&corev1.ServiceAccount{ObjectMeta: made("sa")}, "sa|60m"},
		{&storagev1.StorageClass{ObjectMeta: annotated("sc", "storageclass.kubernetes.io/is-default-class", "true"), Provisioner: "p"}, "sc (default)|p|Delete|Immediate|false|60m"},
		{&storagev1.CSINode{ObjectMeta: made("cn"), Spec: storagev1.CSINodeSpec{Drivers: make([]storagev1.CSINodeDriver, 2)}}, "cn|2|60m"},
		{
			&storagev1.VolumeAttachment{ObjectMeta: made("va"), Spec: storagev1.VolumeAttachmentSpec{Attacher: "a", NodeName: "n", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: new("pv")}}},
			"va|a|pv|n|false|60m",
		},
		{
			&networkingv1.Ingress{
				ObjectMeta: made("ing"),
				Spec: networkingv1.IngressSpec{
					IngressClassName: new("nginx"), TLS: make([]networkingv1.IngressTLS, 1),
					Rules: []networkingv1.IngressRule{{Host: "a"}, {Host: "b"}, {Host: "c"}, {Host: "d"}},
				},
				Status: networkingv1.IngressStatus{LoadBalancer: networkingv1.IngressLoadBalancerStatus{Ingress: []networkingv1.IngressLoadBalancerIngress{{Hostname: "h"}, {IP: "1.2.3.4", Hostname: "i"}}}},
			},
			"ing|nginx|a,b,c + 1 more...|1.2.3.4,h|80, 443|60m",
		},
		{&networkingv1.Ingress{ObjectMeta: made("ing")}, "ing|<none>|*||80|60m"},
		{&networkingv1.IngressClass{ObjectMeta: made("ic"), Spec: networkingv1.IngressClassSpec{Controller: "c", Parameters: &networkingv1.IngressClassParametersReference{APIGroup: new("g"), Kind: "K", Name: "n"}}}, "ic|c|K.g/n|60m"},
		{&networkingv1.NetworkPolicy{ObjectMeta: made("np")}, "np|<none>|60m"},
		{
			&autoscalingv2.HorizontalPodAutoscaler{
				ObjectMeta: made("hpa"),
				Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
					ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{Kind: "Deployment", Name: "d"}, MaxReplicas: 5,
					Metrics: []autoscalingv2.MetricSpec{
						{Resource: &autoscalingv2.ResourceMetricSource{Name: "cpu", Target: autoscalingv2.MetricTarget{AverageUtilization: new(int32(80))}}},
						{Pods: &autoscalingv2.PodsMetricSource{Target: autoscalingv2.MetricTarget{AverageValue: resource.NewQuantity(3, resource.DecimalSI)}}},
						{External: &autoscalingv2.ExternalMetricSource{}},
					},
				},
				Status: autoscalingv2.HorizontalPodAutoscalerStatus{
					CurrentReplicas: 2,
					CurrentMetrics:  []autoscalingv2.MetricStatus{{Resource: &autoscalingv2.ResourceMetricStatus{Current: autoscalingv2.MetricValueStatus{AverageUtilization: new(int32(40))}}}},
				},
			},
			"hpa|Deployment/d|cpu: 40%/80%, <unknown>/3 (avg) + 1 more...|<unset>|5|2|60m",
		},
		{&schedulingv1.PriorityClass{ObjectMeta: made("pc"), Value: 7}, "pc|7|false|60m|PreemptLowerPriority"},
		{&nodev1.RuntimeClass{ObjectMeta: made("rc"), Handler: "h"}, "rc|h|60m"},
		{
			&corev1.ResourceQuota{ObjectMeta: made("rq"), Status: corev1.ResourceQuotaStatus{
				Hard: corev1.ResourceList{"pods": resource.MustParse("5"), "limits.cpu": resource.MustParse("2"), "cpu": resource.MustParse("1")},
				Used: corev1.ResourceList{"pods": resource.MustParse("3")},
			}},
			"rq|cpu: 0/1, pods: 3/5|limits.cpu: 0/2|60m",
		},
		{&corev1.PodTemplate{ObjectMeta: made("pt"), Template: template}, "pt|a,b|x,y|<none>"},
		{
			&appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: "cr", CreationTimestamp: ago(time.Hour), OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "s", Controller: new(true)}}}, Revision: 3},
			"cr|statefulset.apps/s|3|60m",
		},
		{
			&rbacv1.ClusterRoleBinding{ObjectMeta: made("crb"), RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "r"}, Subjects: []rbacv1.Subject{
				{Kind: "User", Name: "u"}, {Kind: "Group", Name: "g"}, {Kind: "ServiceAccount", Namespace: "n", Name: "s"}, {Kind: "User", Name: "v"},
			}},
			"crb|ClusterRole/r|60m|u, v|g|n/s",
		},
		{&autoscalingv1.Scale{ObjectMeta: made("s"), Spec: autoscalingv1.ScaleSpec{Replicas: 3}, Status: autoscalingv1.ScaleStatus{Replicas: 2}}, "s|3|2|60m"},
		{&rbacv1.Role{ObjectMeta: made("r")}, "r|" + ago(time.Hour).UTC().Format(time.RFC3339)},
		{&corev1.LimitRange{ObjectMeta: made("lr")}, "lr|" + ago(time.Hour).UTC().Format(time.RFC3339)},
	} {
		gvk, err := kinds.GVK(c.obj)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(gvk.Kind, func(t *testing.T) {
			row := view(t, "").Row(gvk, c.obj)
			texts := make([]string, len(row.Cells))
			for i, cell := range row.Cells {
				texts[i] = fmt.Sprint(cell)
			}
			if got := strings.Join(texts, "|"); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if columns := podview.Columns(gvk); len(columns) != len(row.Cells) {
				t.Errorf("%d columns, %d cells", len(columns), len(row.Cells))
			}
		})
	}
}

func TestNodeStatus(t *testing.T) {
	for _, c := range []struct {
		status corev1.ConditionStatus
		want   string
	}{{corev1.ConditionTrue, "Ready"}, {corev1.ConditionFalse, "NotReady"}, {corev1.ConditionUnknown, "NotReady"}} {
		node := &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: c.status}}}}
		node.Labels = map[string]string{"node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/edge": "", "kubernetes.io/role": "old"}
		row := view(t, "").Row(corev1.SchemeGroupVersion.WithKind("Node"), node)
		if row.Cells[1] != c.want || row.Cells[2] != "edge,old,worker" {
			t.Errorf("%s: %v", c.status, row.Cells)
		}
	}
}

func TestEventRow(t *testing.T) {
	event := &corev1.Event{
		ObjectMeta:     made("e"),
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: "p", FieldPath: "spec.containers{a}"},
		Type:           "Normal", Reason: "Killing", Message: " Stopping container a\n",
		FirstTimestamp: ago(time.Minute), LastTimestamp: ago(10 * time.Second), Count: 3,
		Source: corev1.EventSource{Component: "kubelet", Host: "n1"},
	}
	for _, c := range []struct {
		name string
		make func(*corev1.Event)
		want string
	}{
		{"old API", func(*corev1.Event) {}, "[10s Normal Killing pod/p spec.containers{a} kubelet, n1 Stopping container a 60s 3 e]"},
		{"new API", func(e *corev1.Event) {
			e.FirstTimestamp, e.LastTimestamp, e.Count, e.Source = metav1.Time{}, metav1.Time{}, 0, corev1.EventSource{}
			e.EventTime, e.ReportingController = metav1.NewMicroTime(now.Add(-time.Minute)), "kubelet"
		}, "[60s Normal Killing pod/p spec.containers{a} kubelet Stopping container a 60s 1 e]"},
		{"a series", func(e *corev1.Event) {
			e.Series = &corev1.EventSeries{Count: 7, LastObservedTime: metav1.NewMicroTime(now.Add(-time.Second))}
		}, "[1s Normal Killing pod/p spec.containers{a} kubelet, n1 Stopping container a 60s 7 e]"},
	} {
		e := event.DeepCopy()
		c.make(e)
		row := view(t, "").Row(corev1.SchemeGroupVersion.WithKind("Event"), e)
		if got := fmt.Sprint(row.Cells); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}

// TestAnyKindHasARow: no kind that is served is without columns, and none panics on an
// empty object.
func TestAnyKindHasARow(t *testing.T) {
	for _, kind := range kinds.Served() {
		obj, err := kinds.New(kind.GroupVersionKind)
		if err != nil {
			t.Fatal(err)
		}
		table := view(t, "").Table(kind.GroupVersionKind, obj)
		if len(table.Rows[0].Cells) != len(table.ColumnDefinitions) || len(table.ColumnDefinitions) < 2 {
			t.Errorf("%s: %d cells under %d columns", kind.GroupVersionKind, len(table.Rows[0].Cells), len(table.ColumnDefinitions))
		}
	}
}

// TestColumns: every column says what it shows, and its name is in the place that clients
// look for it.
func TestColumns(t *testing.T) {
	for _, kind := range kinds.Served() {
		named := 0
		for _, column := range podview.Columns(kind.GroupVersionKind) {
			if column.Description == "" {
				t.Errorf("%s: column %s says nothing of itself", kind.GroupVersionKind, column.Name)
			}
			if column.Format == "name" {
				named++
			}
			switch column.Type {
			case "string", "integer", "boolean", "date":
			default:
				t.Errorf("%s: column %s has type %s", kind.GroupVersionKind, column.Name, column.Type)
			}
		}
		if named != 1 {
			t.Errorf("%s: %d columns are names", kind.GroupVersionKind, named)
		}
	}
}
