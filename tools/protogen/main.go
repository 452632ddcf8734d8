// Command protogen compiles the .proto files of one folder to Go beside them,
// with nothing installed: the compiler and the generator are Go libraries, and
// their versions are those of tools/go.mod.
//
//	go run ./protogen ../proto
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/cmd/protoc-gen-go/internal_gengo"
	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: protogen DIR")
		os.Exit(2)
	}
	if err := generate(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "protogen:", err)
		os.Exit(1)
	}
}

// generate writes x.pb.go for every x.proto in dir.
func generate(ctx context.Context, dir string) error {
	paths, err := filepath.Glob(filepath.Join(dir, "*.proto"))
	if err != nil {
		return err
	}
	if len(paths) == 0 {
		return fmt.Errorf("no .proto file in %s", dir)
	}
	names := make([]string, len(paths))
	for i, path := range paths {
		names[i] = filepath.Base(path)
	}
	descriptors, err := compile(ctx, dir, names)
	if err != nil {
		return err
	}
	plugin, err := protogen.Options{}.New(&pluginpb.CodeGeneratorRequest{
		FileToGenerate: names,
		Parameter:      proto.String("paths=source_relative"),
		ProtoFile:      descriptors,
	})
	if err != nil {
		return err
	}
	plugin.SupportedFeatures = internal_gengo.SupportedFeatures
	for _, file := range plugin.Files {
		if file.Generate {
			internal_gengo.GenerateFile(plugin, file)
		}
	}
	for _, out := range plugin.Response().GetFile() {
		if err := os.WriteFile(filepath.Join(dir, out.GetName()), []byte(out.GetContent()), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// compile parses and links the files, with the comments that become Go comments.
func compile(ctx context.Context, dir string, names []string) ([]*descriptorpb.FileDescriptorProto, error) {
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{dir}}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := compiler.Compile(ctx, names...)
	if err != nil {
		return nil, err
	}
	descriptors := make([]*descriptorpb.FileDescriptorProto, len(files))
	for i, file := range files {
		descriptors[i] = protodesc.ToFileDescriptorProto(file)
	}
	return descriptors, nil
}
