package openapi

import (
	"runtime"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestForgets: decompressed definitions are kept while a part is referenced, and no longer.
func TestForgets(t *testing.T) {
	d := BuiltIn()
	if d.last.Value() != nil {
		t.Error("unpacked before anybody asked")
	}
	pod := d.Name(schema.GroupVersionKind{Version: "v1", Kind: "Pod"})
	held := d.load()
	runtime.GC()
	if d.last.Value() != held {
		t.Error("forgotten while somebody had it")
	}
	runtime.KeepAlive(held)
	runtime.GC()
	if d.last.Value() != nil {
		t.Error("kept although nobody has it")
	}
	if pod != "io.k8s.api.core.v1.Pod" || d.Name(schema.GroupVersionKind{Version: "v1", Kind: "Pod"}) != pod {
		t.Errorf("a Pod is %q", pod)
	}
}
