package proto

import (
	"errors"
	"strings"
	"testing"
)

func TestAPISubject(t *testing.T) {
	tests := []struct {
		subject string
		parts   APISubject
	}{
		{
			"api.client:admin.delete.pods.default.web-0",
			APISubject{Identity: Client("admin"), Verb: VerbDelete, Resource: "pods", Namespace: "default", Name: "web-0"},
		},
		{
			"api.node:n1%2Eexample.patch.pods/status.default.a%2Eb",
			APISubject{Identity: Node("n1.example"), Verb: VerbPatch, Resource: "pods", Subresource: "status", Namespace: "default", Name: "a.b"},
		},
		{
			"api.controllers.list.deployments%2Eapps._._",
			APISubject{Identity: Controllers, Verb: VerbList, Resource: "deployments.apps"},
		},
		{
			"api.gateway.get.clusterroles%2Erbac%2Eauthorization%2Ek8s%2Eio._.system:node%25%2A%3E%2F",
			APISubject{Identity: Gateway, Verb: VerbGet, Resource: "clusterroles.rbac.authorization.k8s.io", Name: "system:node%*>/"},
		},
		{
			"api.gateway.get.roles._.%5F",
			APISubject{Identity: Gateway, Verb: VerbGet, Resource: "roles", Name: "_"},
		},
	}
	for _, test := range tests {
		if got := test.parts.String(); got != test.subject {
			t.Errorf("String() = %s, want %s", got, test.subject)
		}
		if got, err := ParseAPISubject(test.subject); err != nil || got != test.parts {
			t.Errorf("ParseAPISubject(%s) = %+v, %v, want %+v", test.subject, got, err, test.parts)
		}
	}
}

func TestParseAPISubjectRefuses(t *testing.T) {
	for subject, want := range map[string]string{
		"":                                      "want api.<identity>",
		"api.client:admin.get.pods.default":     "want api.<identity>",
		"api.client:admin.get.pods.default.a.b": "want api.<identity>",
		"cri.client:admin.get.pods.default.a":   "want api.<identity>",
		"api.root.get.pods.default.a":           "want apiserver, controllers",
		"api.node:.get.pods.default.a":          "want apiserver, controllers",
		"api.client:admin.get.pods.default.a%2": "percent sign",
		"api.client:admin.get.pods.default.%zz": "percent sign",
		"api.client%ZZadmin.get.pods.default.a": "percent sign",
	} {
		_, err := ParseAPISubject(subject)
		if err == nil || !errors.Is(err, ErrSubject) || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseAPISubject(%q) = %v, want ErrSubject and %q", subject, err, want)
		}
	}
}

// FuzzAPISubject checks that for any request the subject has six tokens, none of them a wildcard,
// and is parsed to the same request.
func FuzzAPISubject(f *testing.F) {
	f.Fuzz(func(t *testing.T, verb, resource, subresource, namespace, name string) {
		if resource == "" && subresource != "" {
			resource = "pods"
		}
		parts := APISubject{
			Identity: Client("admin"), Verb: Verb(verb), Resource: resource, Subresource: subresource,
			Namespace: namespace, Name: name,
		}
		subject := parts.String()
		if tokens := strings.Split(subject, "."); len(tokens) != 6 || strings.ContainsAny(subject, "*> \t\r\n\x00") {
			t.Fatalf("%q is not a subject of six plain tokens", subject)
		}
		if got, err := ParseAPISubject(subject); err != nil || got != parts {
			t.Fatalf("ParseAPISubject(%q) = %+v, %v, want %+v", subject, got, err, parts)
		}
	})
}

func TestWatchSubject(t *testing.T) {
	scope := WatchScope{Resource: "pods", FieldSelector: "spec.nodeName=n1"}
	subject := WatchSubject(Node("n1").Class(), scope)
	if !strings.HasPrefix(subject, "watch.node.n1.") || strings.Count(subject, ".") != 3 {
		t.Errorf("WatchSubject = %s, want watch.node.n1.<group>", subject)
	}
	other := scope
	other.FieldSelector = "spec.nodeName=n2"
	if WatchSubject("cluster", scope) == WatchSubject("cluster", other) {
		t.Error("two scopes share a subject")
	}
	// The parts are kept apart: moving a byte from one to the next is another scope.
	if WatchSubject("cluster", WatchScope{Resource: "podsa"}) == WatchSubject("cluster", WatchScope{Resource: "pods", Namespace: "a"}) {
		t.Error("a resource and a namespace run into each other")
	}
}

func TestReplySubjectIsOfTheTwo(t *testing.T) {
	if got, want := ReplySubject(Node("n1"), APIServer, "t7"), "r.node:n1.apiserver.t7"; got != want {
		t.Errorf("ReplySubject = %s, want %s", got, want)
	}
}
