// Command openapigen writes the file of definitions that internal/openapi embeds: the
// OpenAPI schema of every kind of proto/kinds, as Kubernetes' own generator makes it from
// the Go types.
//
//	go run ./openapigen ../internal/openapi/definitions.gz
//
// Kubernetes' generator writes Go, tens of thousands of lines of it. They are compiled and
// run once, in a folder that is removed again, and only what they return is kept.
package main

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/gengo/v2"
	"k8s.io/gengo/v2/generator"
	"k8s.io/kube-openapi/cmd/openapi-gen/args"
	"k8s.io/kube-openapi/pkg/generators"

	"github.com/podfall/podfall/proto/kinds"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: openapigen FILE")
		os.Exit(2)
	}
	if err := generate(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "openapigen:", err)
		os.Exit(1)
	}
}

// generate writes file. It must run in the folder of the tools module.
func generate(file string) error {
	dir, err := os.MkdirTemp("openapigen", "generated")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := generateGo(dir); err != nil {
		return err
	}
	program := fmt.Sprintf(runner, module+"/"+filepath.ToSlash(dir)+"/definitions", module)
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(program), 0o600); err != nil {
		return err
	}
	run := exec.Command("go", "run", "./"+dir, file)
	run.Stdout, run.Stderr = os.Stdout, os.Stderr
	return run.Run()
}

const module = "github.com/podfall/podfall/tools"

// runner is the program that packs what the generated Go returns.
const runner = `package main

import (
	"fmt"
	"os"

	definitions %q
	pack "%s/openapigen/pack"
)

func main() {
	if err := pack.Write(os.Args[1], definitions.GetOpenAPIDefinitions); err != nil {
		fmt.Fprintln(os.Stderr, "openapigen:", err)
		os.Exit(1)
	}
}
`

// generateGo lets Kubernetes' generator loose on the packages of the kinds.
func generateGo(dir string) error {
	out := filepath.Join(dir, "definitions")
	options := &args.Args{
		OutputDir: out, OutputPkg: module + "/" + filepath.ToSlash(out), OutputFile: "definitions.go",
		ReportFilename: filepath.Join(dir, "violations.txt"),
	}
	targets := func(c *generator.Context) []generator.Target {
		return generators.GetOpenAPITargets(c, options, nil)
	}
	return gengo.Execute(generators.NameSystems(), generators.DefaultNameSystem(), targets, gengo.StdBuildTag, packages())
}

// packages are those of the kinds and of what their fields are made of.
func packages() []string {
	found := map[string]bool{
		"k8s.io/apimachinery/pkg/api/resource": true,
		"k8s.io/apimachinery/pkg/runtime":      true,
		"k8s.io/apimachinery/pkg/util/intstr":  true,
		"k8s.io/apimachinery/pkg/version":      true,
	}
	for _, goType := range kinds.Scheme().AllKnownTypes() {
		if strings.HasPrefix(goType.PkgPath(), "k8s.io/") {
			found[goType.PkgPath()] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}
