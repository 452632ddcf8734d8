package tidy

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// TestTerminalIsDrawn wants docs/terminal.svg to be what tools/termsvg.sh draws of the recording.
func TestTerminalIsDrawn(t *testing.T) {
	command := exec.CommandContext(t.Context(), "sh", "tools/termsvg.sh", filepath.Join("docs", "terminal.txt"))
	command.Dir = root
	drawn, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	if string(drawn) != readText(t, "docs/terminal.svg") {
		t.Error("docs/terminal.svg is another: sh tools/termsvg.sh docs/terminal.txt >docs/terminal.svg")
	}
}
