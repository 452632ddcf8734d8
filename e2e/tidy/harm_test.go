package tidy

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// TestSignalsAndMounts is T9 and T19: product code signals nobody by a number, but itself and
// the tracee that it holds, and mounts nothing but in a program's own namespace.
func TestSignalsAndMounts(t *testing.T) {
	allowed := map[string][]string{
		"cmd/podfall/management.go":                    {"syscall.Kill"}, // itself, for a fault that is a crash
		"internal/powercut/record_linux.go":            {"syscall.Kill"}, // its stopped tracee, in tests of the store
		"services/runtime/procengine/launch/mounts.go": {"unix.Mount", "unix.MoveMount", "unix.PivotRoot", "unix.Unmount"},
		"services/runtime/procengine/shim/session.go":  {"unix.PidfdSendSignal"},
		"services/runtime/procengine/shim/left.go":     {"unix.PidfdSendSignal"},
		"services/runtime/procengine/shim/process.go":  {"unix.PidfdSendSignal"},
	}
	harmful := []string{"Kill", "Tgkill", "PidfdSendSignal", "Mount", "MoveMount", "Unmount", "PivotRoot", "Reboot", "Chroot"}
	used := map[string]bool{}
	for _, f := range sources(t) {
		if strings.HasSuffix(f.path, "_test.go") {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			selector, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			from, ok := selector.X.(*ast.Ident)
			if !ok || from.Name != "syscall" && from.Name != "unix" || !slices.Contains(harmful, selector.Sel.Name) {
				return true
			}
			name := from.Name + "." + selector.Sel.Name
			if !slices.Contains(allowed[f.path], name) {
				t.Errorf("%s uses %s", f.set.Position(n.Pos()), name)
			}
			used[f.path+name] = true
			return true
		})
	}
	for path, names := range allowed {
		for _, name := range names {
			if !used[path+name] {
				t.Errorf("%s uses %s no more: it needs no allowance", path, name)
			}
		}
	}
}
