package kubectl

import (
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/podfall/podfall/internal/terminal"
)

// forPeople reports whether a command prints text of the cluster for people, so that control
// characters are taken out. Programs in containers, and files, are passed on as they are: their
// commands need the terminal itself.
func forPeople(args []string) bool {
	return slices.Contains([]string{
		"annotate", "api-resources", "apply", "auth", "autoscale", "certificate", "cordon", "create", "delete", "describe", "drain", "events",
		"expose", "get", "label", "patch", "replace", "rollout", "scale", "set", "taint", "top", "uncordon", "wait",
	}, Verb(args))
}

// writesData reports whether a command's flags ask for output that programs read.
func writesData(command *cobra.Command) bool {
	for _, name := range []string{"raw", "template"} {
		if flag := command.Flags().Lookup(name); flag != nil && flag.Changed {
			return true
		}
	}
	output := command.Flags().Lookup("output")
	if output == nil {
		return false
	}
	format, _, _ := strings.Cut(output.Value.String(), "=")
	return !slices.Contains([]string{"", "wide", "name", "custom-columns", "custom-columns-file"}, format)
}

// humanWriter takes control characters out of what is written, unless plain is set.
type humanWriter struct {
	to    io.Writer
	safe  io.Writer
	plain bool
}

// Write implements io.Writer.
func (w *humanWriter) Write(text []byte) (int, error) {
	if w.plain {
		return w.to.Write(text)
	}
	if w.safe == nil {
		w.safe = terminal.Writer(w.to)
	}
	return w.safe.Write(text)
}
