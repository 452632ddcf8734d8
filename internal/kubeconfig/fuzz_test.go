package kubeconfig_test

import (
	"bytes"
	"errors"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/podfall/podfall/internal/kubeconfig"
)

// FuzzMerge: whatever the file is, it is refused and left alone, or the result is a
// kubeconfig that a second merge does not change.
func FuzzMerge(f *testing.F) {
	f.Add([]byte(foreign), true)
	f.Fuzz(func(t *testing.T, file []byte, chosen bool) {
		current := kubeconfig.Keep
		if chosen {
			current = kubeconfig.Switch
		}
		merged, err := access().Merge(file, current)
		if err != nil {
			if !errors.Is(err, kubeconfig.ErrNotOurs) && !errors.Is(err, kubeconfig.ErrUnreadable) {
				t.Errorf("refused without a reason: %v", err)
			}
			return
		}
		if err := yaml.UnmarshalStrict(merged.Data, &map[string]any{}); err != nil {
			t.Fatalf("%q became %q: %v", file, merged.Data, err)
		}
		again, err := access().Merge(merged.Data, current)
		if err != nil || again.Rewritten || !bytes.Equal(again.Data, merged.Data) {
			t.Errorf("a second merge of %q\nmade of %q\n%q (rewritten %v, %v)", file, merged.Data, again.Data, again.Rewritten, err)
		}
	})
}
