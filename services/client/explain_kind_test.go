package client_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/services/client"
	"github.com/podfall/podfall/services/client/fake"
)

// TestExplainCustom: a kind that somebody has defined is explained by its schema.
func TestExplainCustom(t *testing.T) {
	names := apiextensionsv1.CustomResourceDefinitionNames{Plural: "crontabs", Kind: "CronTab", ShortNames: []string{"ct"}}
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "crontabs.stable.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "stable.example.com", Names: names, Scope: apiextensionsv1.NamespaceScoped,
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", Description: "CronTab is work that repeats.",
					Properties: map[string]apiextensionsv1.JSONSchemaProps{"at": {Type: "string", Description: "at is when."}},
				}},
			}},
		},
		Status: apiextensionsv1.CustomResourceDefinitionStatus{
			AcceptedNames: names,
			Conditions: []apiextensionsv1.CustomResourceDefinitionCondition{
				{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue},
			},
		},
	}
	cluster := &fake.Cluster{}
	cluster.Put(crd)
	var out, errs bytes.Buffer
	commands := client.Commands(client.Env{
		Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs,
		Dial: func(context.Context) (*client.Session, error) { return &client.Session{API: cluster}, nil },
	})
	app := &cli.App{Name: "podfall", Commands: commands, ExitErrHandler: func(*cli.Context, error) {}}
	for line, want := range map[string]string{
		"ct":                             "GROUP:      stable.example.com\nKIND:       CronTab\nVERSION:    v1\n\nDESCRIPTION:\n    CronTab is work that repeats.\n",
		"crontabs.at":                    "FIELD: at <string>\n\n\nDESCRIPTION:\n    at is when.\n",
		"crontabs.stable.example.com.at": "FIELD: at <string>\n\n\nDESCRIPTION:\n    at is when.\n",
		"crontabs.metadata.name":         "FIELD: name <string>\n",
	} {
		out.Reset()
		if err := app.RunContext(t.Context(), []string{"podfall", "explain", line}); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("explain %s: %v, %s%s", line, err, out.String(), errs.String())
		}
	}
}
