package oracle_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubeopenapi "k8s.io/client-go/openapi"
	kubectlexplain "k8s.io/kubectl/pkg/explain/v2"

	"github.com/podfall/podfall/internal/openapi"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/client/fake"
)

// documents are podfall's OpenAPI documents as kubectl fetches them.
type documents struct{}

// Paths implements openapi.Client.
func (documents) Paths() (map[string]kubeopenapi.GroupVersion, error) {
	paths := map[string]kubeopenapi.GroupVersion{}
	for _, kind := range kinds.Served() {
		gv := kind.GroupVersion()
		path := "apis/" + gv.String()
		if gv.Group == "" {
			path = "api/" + gv.Version
		}
		paths[path] = document{gv}
	}
	return paths, nil
}

// document is that of a group and version.
type document struct{ schema.GroupVersion }

// Schema implements openapi.GroupVersion.
func (d document) Schema(string) ([]byte, error) {
	group := openapi.Group{APIResourceList: metav1.APIResourceList{GroupVersion: d.String()}}
	for _, kind := range kinds.Served() {
		if kind.GroupVersion() == d.GroupVersion {
			group.APIResources = append(group.APIResources, metav1.APIResource{
				Name: kind.Resource, Kind: kind.Kind, Namespaced: kind.Namespaced, Verbs: metav1.Verbs{"get", "list"},
			})
		}
	}
	return openapi.BuiltIn().V3("v1.37.2", group)
}

// ServerRelativeURL implements openapi.GroupVersion.
func (d document) ServerRelativeURL() string { return "" }

// TestExplainAgreesWithKubectl explains every kind, and some fields, with kubectl's own code
// and with podfall's, from the same documents.
func TestExplainAgreesWithKubectl(t *testing.T) {
	type question struct {
		kind  kinds.Kind
		path  string
		flags string
	}
	find := func(resource string) kinds.Kind { return kindOf(t, resource) }
	questions := []question{
		{find("pods"), "", "--recursive"},
		{find("deployments"), "spec", "--recursive --max-depth=2"},
		{find("customresourcedefinitions"), "", "--recursive"},
	}
	for resource, paths := range map[string]string{
		"pods": "spec spec.containers spec.containers.ports.protocol metadata.labels metadata.managedFields status.phase " +
			"spec.containers.resources.limits spec.volumes.hostPath.type spec.containers.livenessProbe.httpGet.port " +
			"metadata.creationTimestamp spec.nope nope",
		"deployments":               "spec.strategy.rollingUpdate.maxSurge spec.template.spec.containers.env",
		"customresourcedefinitions": "spec.versions.schema",
		"configmaps":                "data.key",
		"horizontalpodautoscalers":  "spec.metrics",
	} {
		for path := range strings.FieldsSeq(paths) {
			questions = append(questions, question{find(resource), path, ""})
		}
	}
	for _, kind := range kinds.ServedByDefault() {
		questions = append(questions, question{kind, "", ""})
	}
	for _, q := range questions {
		var path []string
		if q.path != "" {
			path = strings.Split(q.path, ".")
		}
		depth := 0
		if strings.Contains(q.flags, "max-depth") {
			depth = 2
		}
		var theirs bytes.Buffer
		err := kubectlexplain.PrintModelDescription(path, &theirs, documents{}, q.kind.GroupVersionResource(),
			strings.Contains(q.flags, "recursive"), depth, "plaintext")
		if err != nil {
			theirs.Reset()
			fmt.Fprintf(&theirs, "%v\n", err)
		}
		resource := schema.GroupResource{Group: q.kind.Group, Resource: q.kind.Resource}.String()
		line := strings.Fields("explain " + strings.TrimSuffix(resource+"."+q.path, ".") + " " + q.flags)
		if q.kind.Version != q.kind.StorageVersion {
			line = append(line, "--api-version="+q.kind.GroupVersion().String())
		}
		ours := podfall(t, &fake.Cluster{}, line)
		if diff := cmp.Diff(normal(theirs.String()), ours.Stdout+ours.Stderr); diff != "" {
			t.Errorf("%v: kubectl (-) and podfall (+):\n%s", line, diff)
		}
	}
}
