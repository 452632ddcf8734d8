package customers

import (
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Frog is a customer's custom resource: it owns a pod, and cleans up after itself.
type Frog struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`
	Spec              FrogSpec   `json:"spec"`
	Status            FrogStatus `json:"status,omitzero"`
}

// FrogSpec is the desired state of a Frog.
type FrogSpec struct {
	Colour string `json:"colour"`
	Legs   int32  `json:"legs,omitempty"`
}

// FrogStatus is the observed state of a Frog.
type FrogStatus struct {
	Pod        string             `json:"pod,omitempty"`
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// FrogList is a list of frogs.
type FrogList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []Frog `json:"items"`
}

// DeepCopyObject implements [runtime.Object].
func (f *Frog) DeepCopyObject() runtime.Object {
	c := *f
	c.ObjectMeta = *f.DeepCopy()
	c.Status.Conditions = append([]metav1.Condition(nil), f.Status.Conditions...)
	return &c
}

// DeepCopyObject implements [runtime.Object].
func (l *FrogList) DeepCopyObject() runtime.Object {
	c := *l
	c.Items = make([]Frog, len(l.Items))
	for i := range l.Items {
		c.Items[i] = *l.Items[i].DeepCopyObject().(*Frog) //nolint:errcheck,forcetypeassert // it is one
	}
	return &c
}

func frogVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: "pond.example.com", Version: "v1"}
}

func addFrogs(scheme *runtime.Scheme) {
	scheme.AddKnownTypes(frogVersion(), &Frog{}, &FrogList{})
	metav1.AddToGroupVersion(scheme, frogVersion())
}

// frogDefinition returns the CRD as the customer's tools would generate it.
func frogDefinition() *apiextensionsv1.CustomResourceDefinition {
	object := func(properties map[string]apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
		return apiextensionsv1.JSONSchemaProps{Type: "object", Properties: properties}
	}
	anything := apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}
	spec := object(map[string]apiextensionsv1.JSONSchemaProps{
		"colour": {Type: "string", Enum: []apiextensionsv1.JSON{{Raw: []byte(`"green"`)}, {Raw: []byte(`"brown"`)}}},
		"legs":   {Type: "integer", Format: "int32", Default: &apiextensionsv1.JSON{Raw: []byte("4")}},
	})
	spec.Required = []string{"colour"}
	whole := object(map[string]apiextensionsv1.JSONSchemaProps{
		"spec": spec,
		"status": object(map[string]apiextensionsv1.JSONSchemaProps{
			"pod":        {Type: "string"},
			"conditions": {Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &anything}},
		}),
	})
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("frogs.", frogVersion().Group)},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: frogVersion().Group,
			Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "frogs", Singular: "frog", Kind: "Frog", ListKind: "FrogList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: frogVersion().Version, Served: true, Storage: true,
				Schema:       &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &whole},
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
			}},
		},
	}
}
