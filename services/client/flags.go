package client

import "github.com/urfave/cli/v2"

// The names of the flags that several commands share.
const (
	flagNamespace     = "namespace"
	flagAllNamespaces = "all-namespaces"
	flagOutput        = "output"
)

func namespaceFlag() cli.Flag {
	return &cli.StringFlag{Name: flagNamespace, Aliases: []string{"n"}, Usage: "the namespace that is meant"}
}

func allNamespacesFlag() cli.Flag {
	return &cli.BoolFlag{Name: flagAllNamespaces, Aliases: []string{"A"}, Usage: "every namespace"}
}

func outputFlag(usage string) cli.Flag {
	return &cli.StringFlag{Name: flagOutput, Aliases: []string{"o"}, Usage: usage}
}
