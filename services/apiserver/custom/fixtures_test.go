package custom_test

import (
	"path/filepath"
	"sync"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver/custom"
	"github.com/podfall/podfall/services/apiserver/registry"
	"github.com/podfall/podfall/services/apiserver/store"
)

const crontabs = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: crontabs.stable.example.com}
spec:
  group: stable.example.com
  scope: Namespaced
  names: {plural: crontabs, kind: CronTab, shortNames: [ct]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas, labelSelectorPath: .status.selector}
    selectableFields: [{jsonPath: .spec.cronSpec}]
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [cronSpec]
            x-kubernetes-validations:
            - rule: "self.replicas <= 100"
              message: at most a hundred
            - rule: "self.cronSpec == oldSelf.cronSpec"
              messageExpression: "'cronSpec was ' + oldSelf.cronSpec"
              fieldPath: .cronSpec
            properties:
              cronSpec: {type: string, pattern: '^(\d+|\*)(/\d+)?(\s+(\d+|\*)(/\d+)?){4}$'}
              image: {type: string, default: busybox}
              replicas: {type: integer, minimum: 1, default: 1}
              policy: {type: string, enum: [Allow, Forbid]}
              port: {x-kubernetes-int-or-string: true}
              free: {type: object, x-kubernetes-preserve-unknown-fields: true}
              template: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}
              steps:
                type: array
                maxItems: 3
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name]
                items:
                  type: object
                  required: [name]
                  properties:
                    name: {type: string}
                    run: {type: string, nullable: true}
                    retries: {type: integer, default: 2}
          status:
            type: object
            properties:
              replicas: {type: integer}
              selector: {type: string}
`

func now() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }

// definition reads a definition, after changing what edit changes.
func definition(t testing.TB, edit ...func(*apiextensionsv1.CustomResourceDefinition)) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict([]byte(crontabs), crd); err != nil {
		t.Fatal(err)
	}
	for _, e := range edit {
		e(crd)
	}
	return crd
}

func definitionKind(t testing.TB) kinds.Kind {
	t.Helper()
	kind, ok := kinds.ByResource(custom.Resource)
	if !ok {
		t.Fatal("definitions are no kind")
	}
	return kind
}

// catalogOf is a catalog of definitions that have been created one after the other.
func catalogOf(t testing.TB, crds ...*apiextensionsv1.CustomResourceDefinition) *custom.Catalog {
	t.Helper()
	catalog := &custom.Catalog{}
	disk, err := store.Open(t.Context(), store.Config{
		Path: filepath.Join(t.TempDir(), "db"), NoSync: true,
		OnCommit: func(_ *store.Snapshot, events []store.Event) { catalog.OnCommit(events) },
	})
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() { _ = disk.Run(t.Context()) }) // it ends with the test
	t.Cleanup(func() {
		running.Wait()
		_ = disk.Close()
	})
	for _, crd := range crds {
		strategy, _ := catalog.Strategy(definitionKind(t))
		if err := registry.BeforeCreate(strategy, definitionKind(t), crd, now(), "u-1"); err != nil {
			t.Fatal(err)
		}
		key := store.Key{Resource: custom.Resource, Name: crd.Name}
		if _, err := disk.Commit(t.Context(), store.Commit{Writes: []store.Write{{Key: key, Expect: store.Absent, Object: crd}}}); err != nil {
			t.Fatal(err)
		}
	}
	return catalog
}

// crontab reads a CronTab.
func crontab(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte("apiVersion: stable.example.com/v1\nkind: CronTab\nmetadata: {name: backup, namespace: default}\n" + text))
	if err != nil {
		t.Fatal(err)
	}
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON(data); err != nil {
		t.Fatal(err)
	}
	return obj
}

func cronKind(t testing.TB, catalog *custom.Catalog) kinds.Kind {
	t.Helper()
	kind, ok := catalog.Kind("crontabs.stable.example.com", "")
	if !ok {
		t.Fatal("no CronTabs")
	}
	return kind
}
