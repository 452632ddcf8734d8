package verbs_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/apiserver/store"
)

func service(name string, change ...func(*corev1.Service)) *corev1.Service {
	svc := &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": name}, Ports: []corev1.ServicePort{{Port: 80}}},
	}
	for _, c := range change {
		c(svc)
	}
	return svc
}

func nodePort(port int32) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.Type, s.Spec.Ports[0].NodePort = corev1.ServiceTypeNodePort, port }
}

func clusterIP(ip string) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.ClusterIP = ip }
}

func TestServicesGetAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		if err := r.api.Bootstrap(t.Context()); err != nil {
			t.Fatal(err)
		}
		create := func(s *corev1.Service) call { return call{verb: proto.VerbCreate, resource: "services", body: s} }
		get := func(a call) *corev1.Service {
			svc, _ := r.ok(a).obj.(*corev1.Service)
			return svc
		}
		api := get(call{verb: proto.VerbGet, resource: "services", name: "kubernetes"})
		if api.Spec.ClusterIP != "10.96.0.1" || api.Spec.Ports[0].TargetPort.IntValue() != 6443 {
			t.Errorf("%+v", api.Spec)
		}
		first := get(create(service("a", nodePort(0))))
		if first.Spec.ClusterIP == "" || first.Spec.ClusterIPs[0] != first.Spec.ClusterIP || first.Spec.Ports[0].NodePort < 30000 {
			t.Errorf("%+v", first.Spec)
		}
		if again := get(call{verb: proto.VerbUpdate, resource: "services", name: "a", body: service("a", nodePort(0))}); again.Spec.ClusterIP != first.Spec.ClusterIP ||
			again.Spec.Ports[0].NodePort != first.Spec.Ports[0].NodePort {
			t.Errorf("an update moved it: %+v", again.Spec)
		}
		inside := get(call{verb: proto.VerbUpdate, resource: "services", name: "a", body: service("a")})
		if inside.Spec.Ports[0].NodePort != 0 || inside.Spec.ExternalTrafficPolicy != "" {
			t.Errorf("no longer reachable: %+v", inside.Spec)
		}
		get(create(service("fixed", nodePort(30080))))
		const invalid = `Service "b" is invalid: `
		r.refused(create(service("b", nodePort(30080))), 422, invalid+`spec.ports[0].nodePort: Invalid value: 30080: provided port is already allocated`)
		r.refused(create(service("b", nodePort(80))), 422, invalid+`spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid range. The range of valid ports is 30000-32767`)
		r.refused(create(service("b", clusterIP("10.96.0.1"))), 422, invalid+`spec.clusterIPs: Invalid value: ["10.96.0.1"]: failed to allocate IP 10.96.0.1: provided IP is already allocated`)
		r.refused(create(service("b", clusterIP("10.1.0.1"))), 422, invalid+`spec.clusterIPs: Invalid value: ["10.1.0.1"]: failed to allocate IP 10.1.0.1: the provided IP (10.1.0.1) is not in the valid range. The range of valid IPs is 10.96.0.0/12`)
		r.refused(call{verb: proto.VerbUpdate, resource: "services", name: "a", body: service("a", clusterIP("10.96.0.9"))}, 422,
			`Service "a" is invalid: spec.clusterIPs[0]: Invalid value: ["10.96.0.9"]: may not change once set`)
		dry := create(service("dry", nodePort(0)))
		dry.options = &metav1.CreateOptions{DryRun: []string{"All"}}
		before := r.revision()
		if svc := get(dry); svc.Spec.ClusterIP == "" || svc.Spec.Ports[0].NodePort == 0 || r.revision() != before {
			t.Errorf("a dry run: %+v", svc.Spec)
		}
		headless := get(create(service("h", clusterIP("None"))))
		if headless.Spec.ClusterIPs[0] != "None" || *headless.Spec.IPFamilyPolicy != corev1.IPFamilyPolicySingleStack {
			t.Errorf("%+v", headless.Spec)
		}
	})
}

// TestServicesAtOnce: no address is given twice.
func TestServicesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		const many = 300
		made := make(chan *corev1.Service, many)
		for i := range many {
			go func() {
				svc, _ := r.do(call{verb: proto.VerbCreate, resource: "services", body: service(fmt.Sprint("s", i), nodePort(0))}).obj.(*corev1.Service)
				made <- svc
			}()
		}
		seen := map[string]bool{}
		for range many {
			svc := <-made
			port := fmt.Sprint(svc.Spec.Ports[0].NodePort)
			if seen[svc.Spec.ClusterIP] || seen[port] {
				t.Errorf("twice: %s %s", svc.Spec.ClusterIP, port)
			}
			seen[svc.Spec.ClusterIP], seen[port] = true, true
		}
	})
}

// TestANamespaceHasAnAccount, and an operation that makes one may come twice.
func TestANamespaceHasAnAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		body := &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: "team"}}
		create := call{verb: proto.VerbCreate, resource: "namespaces", body: body, operation: "once"}
		r.ok(create)
		if again := r.ok(create); again.code != 201 || again.obj.GetName() != "team" {
			t.Errorf("%d %+v", again.code, again.obj)
		}
		for _, namespace := range []string{"team", "default"} {
			if r.store.Snapshot().Get(store.Key{Resource: "serviceaccounts", Namespace: namespace, Name: "default"}) == nil {
				t.Errorf("%s has no account", namespace)
			}
		}
	})
}

// TestEventsHaveTwoGroups and are stored once.
func TestEventsHaveTwoGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.ok(call{verb: proto.VerbCreate, resource: "events", body: &corev1.Event{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Event"}, ObjectMeta: metav1.ObjectMeta{Name: "old"},
			InvolvedObject: corev1.ObjectReference{Namespace: "default", Name: "p"}, Message: "said",
		}})
		r.ok(call{
			verb: proto.VerbCreate, resource: "events.events.k8s.io", contentType: "application/json",
			body: `{"apiVersion":"events.k8s.io/v1","kind":"Event","metadata":{"name":"new"},"regarding":{"namespace":"default","name":"p"},` +
				`"note":"said","reason":"r","action":"a","type":"Normal","eventTime":"2026-01-01T00:00:00.000000Z","reportingController":"c.d/e","reportingInstance":"i"}`,
		})
		for _, resource := range []string{"events", "events.events.k8s.io"} {
			list := r.ok(call{verb: proto.VerbList, resource: resource, list: nil, options: &metav1.ListOptions{}})
			if len(list.items) != 2 {
				t.Errorf("%s: %d", resource, len(list.items))
			}
			for _, item := range list.items {
				note := ""
				switch event := item.(type) {
				case *corev1.Event:
					note = "core " + event.Message
				case *eventsv1.Event:
					note = "newer " + event.Note
				}
				if want := map[string]string{"events": "core said", "events.events.k8s.io": "newer said"}[resource]; note != want {
					t.Errorf("%s: %s is %q", resource, item.GetName(), note)
				}
			}
		}
		found := r.ok(call{verb: proto.VerbList, resource: "events.events.k8s.io", options: &metav1.ListOptions{FieldSelector: "regarding.name=p,reportingController=c.d/e"}})
		if len(found.items) != 1 || found.items[0].GetName() != "new" {
			t.Errorf("%+v", found.items)
		}
	})
}
