package custom_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/services/apiserver/custom"
	"github.com/podfall/podfall/services/apiserver/registry"
)

type crd = apiextensionsv1.CustomResourceDefinition

// spec is the schema of CronTabs' spec.
func specOf(c *crd) *apiextensionsv1.JSONSchemaProps {
	spec := c.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	return &spec
}

// withSpec changes the schema of CronTabs' spec.
func withSpec(change func(*apiextensionsv1.JSONSchemaProps)) func(*crd) {
	return func(c *crd) {
		spec := specOf(c)
		change(spec)
		c.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"] = *spec
	}
}

// withProperty adds the property x to CronTabs' spec.
func withProperty(props apiextensionsv1.JSONSchemaProps) func(*crd) {
	return withSpec(func(spec *apiextensionsv1.JSONSchemaProps) { spec.Properties["x"] = props })
}

func raw(text string) *apiextensionsv1.JSON { return &apiextensionsv1.JSON{Raw: []byte(text)} }

func TestDefinitionDefaults(t *testing.T) {
	t.Parallel()
	c := definition(t)
	catalog := catalogOf(t, c)
	names := apiextensionsv1.CustomResourceDefinitionNames{
		Plural: "crontabs", Singular: "crontab", ShortNames: []string{"ct"}, Kind: "CronTab", ListKind: "CronTabList",
	}
	if !cmp.Equal(c.Spec.Names, names) || !cmp.Equal(c.Status.AcceptedNames, names) {
		t.Errorf("names %v, accepted %v", c.Spec.Names, c.Status.AcceptedNames)
	}
	if c.Spec.Conversion == nil || c.Spec.Conversion.Strategy != "None" || !cmp.Equal(c.Status.StoredVersions, []string{"v1"}) || c.Generation != 1 {
		t.Errorf("conversion %v, stored %v, generation %d", c.Spec.Conversion, c.Status.StoredVersions, c.Generation)
	}
	var conditions []string
	for _, condition := range c.Status.Conditions {
		conditions = append(conditions, string(condition.Type)+" "+string(condition.Status)+" "+condition.Reason)
		if !condition.LastTransitionTime.Equal(new(metav1.NewTime(now()))) {
			t.Errorf("%s since %s", condition.Type, condition.LastTransitionTime)
		}
	}
	if want := []string{"NamesAccepted True NoConflicts", "Established True InitialNamesAccepted"}; !cmp.Equal(conditions, want) {
		t.Errorf("conditions %q, want %q", conditions, want)
	}
	if _, ok := catalog.Kind("crontabs.stable.example.com", "v2"); ok {
		t.Error("v2 is served")
	}
}

func TestDefinitionRefused(t *testing.T) {
	t.Parallel()
	const at = "spec.validation.openAPIV3Schema.properties[spec]"
	for _, tt := range []struct {
		name   string
		change func(*crd)
		want   string
	}{
		{"name", func(c *crd) { c.Name = "x.y.z" }, `metadata.name: Invalid value: "x.y.z": must be spec.names.plural+"."+spec.group`},
		{"group", func(c *crd) { c.Spec.Group = "stable"; c.Name = "crontabs.stable" }, `spec.group: Invalid value: "stable": should be a domain with at least one dot`},
		{"scope", func(c *crd) { c.Spec.Scope = "Galaxy" }, `spec.scope: Unsupported value: "Galaxy": supported values: "Cluster", "Namespaced"`},
		{"no kind", func(c *crd) { c.Spec.Names.Kind = "" }, `spec.names.kind: Required value`},
		{"no schema", func(c *crd) { c.Spec.Versions[0].Schema = nil; c.Spec.Versions[0].SelectableFields = nil }, `spec.versions[0].schema.openAPIV3Schema: Required value`},
		{"no storage", func(c *crd) { c.Spec.Versions[0].Storage = false }, `must have exactly one version marked as storage version`},
		{"no version", func(c *crd) { c.Spec.Versions = nil }, `must have exactly one version marked as storage version`},
		{"version twice", func(c *crd) {
			again := *c.Spec.Versions[0].DeepCopy()
			again.Storage = false
			c.Spec.Versions = append(c.Spec.Versions, again)
		}, `must contain unique version names`},
		{"a webhook converts", func(c *crd) {
			c.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: "Webhook"}
		}, `spec.conversion.strategy: Unsupported value: "Webhook": supported values: "None", spec.conversion.webhook: Forbidden: podfall calls no conversion webhooks`},
		{"unknown fields", func(c *crd) { c.Spec.PreserveUnknownFields = true }, `spec.preserveUnknownFields: Invalid value: true: cannot set to true`},
		{"a group of Kubernetes'", func(c *crd) { c.Spec.Group = "x.k8s.io"; c.Name = "crontabs.x.k8s.io" }, `metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups must have approval annotation`},
		{"structure", withProperty(apiextensionsv1.JSONSchemaProps{}), at + `.properties[x].type: Required value: must not be empty for specified object fields`},
		{"type", withProperty(apiextensionsv1.JSONSchemaProps{Type: "money"}), at + `.properties[x].type: Unsupported value: "money"`},
		{"unique items", withProperty(apiextensionsv1.JSONSchemaProps{Type: "array", UniqueItems: true, Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &apiextensionsv1.JSONSchemaProps{Type: "string"}}}), at + `.properties[x].uniqueItems: Forbidden`},
		{"a wrong default", withProperty(apiextensionsv1.JSONSchemaProps{Type: "integer", Default: raw(`"one"`)}), at + `.properties[x].default: Invalid value: "string"`},
		{"a default with more", withProperty(apiextensionsv1.JSONSchemaProps{Type: "object", Default: raw(`{"y":1}`)}), at + `.properties[x].default: Invalid value: {"y":1}: must not have unknown fields`},
		{"a reference", withProperty(apiextensionsv1.JSONSchemaProps{Type: "string", Ref: new("#/x")}), at + `.properties[x].$ref: Forbidden: $ref is not supported`},
		{"a list map without keys", withProperty(apiextensionsv1.JSONSchemaProps{Type: "array", XListType: new("map"), Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"}}}), at + `.properties[x].x-kubernetes-list-map-keys: Required value`},
		{"a rule that is none", withSpec(func(s *apiextensionsv1.JSONSchemaProps) {
			s.XValidations = apiextensionsv1.ValidationRules{{Rule: "self.nope == 1"}}
		}), at + `.x-kubernetes-validations[0].rule: Invalid value: {"Rule":"self.nope == 1","Message":"","MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}: compilation failed: ERROR: <input>:1:5: undefined field 'nope'`},
		{"a rule that is no condition", withSpec(func(s *apiextensionsv1.JSONSchemaProps) {
			s.XValidations = apiextensionsv1.ValidationRules{{Rule: "self.image"}}
		}), `cel expression must evaluate to a bool`},
		{"a rule in a branch", withSpec(func(s *apiextensionsv1.JSONSchemaProps) {
			s.AllOf = []apiextensionsv1.JSONSchemaProps{{XValidations: apiextensionsv1.ValidationRules{{Rule: "true"}}}}
		}), at + `.allOf[0].x-kubernetes-validations: Forbidden: must be empty to be structural`},
		{"a costly rule", withProperty(apiextensionsv1.JSONSchemaProps{
			Type:         "array",
			Items:        &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &apiextensionsv1.JSONSchemaProps{Type: "string"}},
			XValidations: apiextensionsv1.ValidationRules{{Rule: "self.all(x, self.exists_one(y, x == y))"}},
		}), at + `.properties[x].x-kubernetes-validations[0].rule: Forbidden: estimated rule cost exceeds budget by factor of more than 100x`},
		{"a rule about what cannot be found again", withProperty(apiextensionsv1.JSONSchemaProps{
			Type: "array", MaxItems: new(int64(9)),
			Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &apiextensionsv1.JSONSchemaProps{
				Type: "string", MaxLength: new(int64(9)), XValidations: apiextensionsv1.ValidationRules{{Rule: "self == oldSelf"}},
			}},
		}), at + `.properties[x].items.x-kubernetes-validations[0].rule: Invalid value: "self == oldSelf": oldSelf cannot be used on the uncorrelatable portion`},
		{"a rule about no field", withSpec(func(s *apiextensionsv1.JSONSchemaProps) {
			s.XValidations = apiextensionsv1.ValidationRules{{Rule: "self.replicas > 0", FieldPath: ".nope"}}
		}), at + `.x-kubernetes-validations[0].fieldPath: Invalid value: ".nope": must be a valid path`},
		{"a column", func(c *crd) {
			c.Spec.Versions[0].AdditionalPrinterColumns = []apiextensionsv1.CustomResourceColumnDefinition{{Name: "x", Type: "money", JSONPath: "spec"}}
		}, `spec.additionalPrinterColumns[0].JSONPath: Invalid value: "spec": must be a simple json path starting with .`},
		{"a scale", func(c *crd) { c.Spec.Versions[0].Subresources.Scale.SpecReplicasPath = ".status.x" }, `spec.subresources.scale.specReplicasPath: Invalid value: ".status.x": should be a json path under .spec`},
		{"a selectable field", func(c *crd) {
			c.Spec.Versions[0].SelectableFields = []apiextensionsv1.SelectableField{{JSONPath: ".spec.steps"}}
		}, `spec.selectableFields[0].jsonPath: Invalid value: ".spec.steps": must point to a field of type string, boolean or integer`},
	} {
		strategy, _ := catalogOf(t).Strategy(definitionKind(t))
		err := registry.BeforeCreate(strategy, definitionKind(t), definition(t, tt.change), now(), "u-1")
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s:\n got %v\nwant %s", tt.name, err, tt.want)
		}
	}
}

func TestDefinitionUpdate(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name       string
		change     func(*crd)
		generation int64
		want       string
	}{
		{"nothing", func(*crd) {}, 1, ""},
		{"a label", func(c *crd) { c.Labels = map[string]string{"a": "b"} }, 1, ""},
		{"the status beside it", func(c *crd) { c.Status.StoredVersions = nil }, 1, ""},
		{"another version", func(c *crd) {
			next := *c.Spec.Versions[0].DeepCopy()
			next.Name, c.Spec.Versions[0].Storage = "v2", false
			c.Spec.Versions = append(c.Spec.Versions, next)
		}, 2, ""},
		{"without a version that was stored", func(c *crd) { c.Spec.Versions[0].Name = "v2" }, 2, `status.storedVersions[0]: Invalid value: "v1": missing from spec.versions`},
		{"the kind", func(c *crd) { c.Spec.Names.Kind = "Tab" }, 2, `spec.names.kind: Invalid value: "Tab": field is immutable`},
		{"the scope", func(c *crd) { c.Spec.Scope = "Cluster" }, 2, `spec.scope: Invalid value: "Cluster": field is immutable`},
	} {
		old := definition(t)
		strategy, _ := catalogOf(t, old).Strategy(definitionKind(t))
		obj := old.DeepCopy()
		tt.change(obj)
		err := registry.BeforeUpdate(strategy, definitionKind(t), obj, old, "")
		if tt.want != "" {
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s:\n got %v\nwant %s", tt.name, err, tt.want)
			}
			continue
		}
		if err != nil || obj.Generation != tt.generation || len(obj.Status.StoredVersions) != len(obj.Spec.Versions) {
			t.Errorf("%s: %v, generation %d, stored %v", tt.name, err, obj.Generation, obj.Status.StoredVersions)
		}
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	other := definition(t, func(c *crd) {
		c.Name = "tabs.stable.example.com"
		c.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Plural: "tabs", Singular: "tab", Kind: "CronTab", ListKind: "TabList", ShortNames: []string{"ct"}}
	})
	at := metav1.NewTime(now())
	other.Status = custom.AcceptNames(other, nil, at)
	mine := definition(t, func(c *crd) { c.Spec.Names.Singular, c.Spec.Names.ListKind = "crontab", "CronTabList" })
	mine.Status = custom.AcceptNames(mine, []*crd{other, mine}, at)
	if got := mine.Status.Conditions[0]; got.Status != "False" || got.Reason != "KindConflict" || got.Message != `"CronTab" is already in use` {
		t.Errorf("NamesAccepted: %v", got)
	}
	if got := mine.Status.Conditions[1]; got.Status != "False" || got.Reason != "NotAccepted" {
		t.Errorf("Established: %v", got)
	}
	if accepted := mine.Status.AcceptedNames; accepted.Plural != "crontabs" || accepted.Kind != "" || accepted.ShortNames != nil {
		t.Errorf("accepted %v", accepted)
	}
	later := metav1.NewTime(now().Add(1e9))
	step := custom.NextStep(mine, []*crd{mine}, custom.Instances{}, later)
	if step.Definition == nil || step.Definition.Status.AcceptedNames.Kind != "CronTab" || step.Definition.Status.Conditions[1].Status != "True" {
		t.Fatalf("when the name is free: %v", step)
	}
	if again := custom.NextStep(step.Definition, []*crd{step.Definition}, custom.Instances{}, later); again.Definition != nil {
		t.Errorf("once settled: %v", again)
	}
	if _, ok := catalogOf(t, definition(t)).Kind("tabs.stable.example.com", ""); ok {
		t.Error("tabs are served")
	}
}

func TestCleanup(t *testing.T) {
	t.Parallel()
	at := metav1.NewTime(now())
	settled := definition(t)
	settled.Status = custom.AcceptNames(settled, nil, at)
	for _, tt := range []struct {
		name     string
		change   func(*crd)
		have     custom.Instances
		deletes  bool
		finished bool
		reason   string
	}{
		{"some left", nil, custom.Instances{Left: 2}, true, false, "True InstanceDeletionInProgress"},
		{"none left", nil, custom.Instances{}, false, true, "False InstanceDeletionCompleted"},
		{"refused", nil, custom.Instances{Left: 1, Failed: errors.New("no")}, true, false, "True InstanceDeletionFailed"},
		{"never established", func(c *crd) { c.Status.Conditions = nil }, custom.Instances{Left: 3}, false, true, "False NeverEstablished"},
		{"in the place of a built-in kind", func(c *crd) { c.Name = "deployments.apps" }, custom.Instances{Left: 3}, false, true, "False OverlappingBuiltInResource"},
	} {
		c := settled.DeepCopy()
		c.DeletionTimestamp, c.Finalizers = &at, []string{apiextensionsv1.CustomResourceCleanupFinalizer, "mine/too"}
		if tt.change != nil {
			tt.change(c)
		}
		step := custom.NextStep(c, []*crd{c}, tt.have, at)
		if step.DeleteInstances != tt.deletes || step.Definition == nil {
			t.Errorf("%s: %v", tt.name, step)
			continue
		}
		last := step.Definition.Status.Conditions[len(step.Definition.Status.Conditions)-1]
		if got := string(last.Status) + " " + last.Reason; got != tt.reason || (len(step.Definition.Finalizers) == 1) != tt.finished {
			t.Errorf("%s: %s, finalizers %v", tt.name, got, step.Definition.Finalizers)
		}
	}
	held := settled.DeepCopy()
	held.DeletionTimestamp, held.Finalizers = &at, []string{"mine/too"}
	if step := custom.NextStep(held, nil, custom.Instances{}, at); step.Definition != nil || step.DeleteInstances {
		t.Errorf("held by others: %v", step)
	}
}
