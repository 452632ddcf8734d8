package registry_test

import (
	"testing"

	"github.com/podfall/podfall/services/apiserver/registry"
)

func TestPodValidation(t *testing.T) {
	t.Parallel()
	runCases(t, "testdata/pods.txt", func(t *testing.T, changes []string) string {
		pod := decode(t, "pods", changed(t, podJSON, changes...))
		return causes(registry.BeforeCreate(strategy(t, "pods"), kindOf(t, "pods"), pod, noon, "uid-1"))
	})
}
