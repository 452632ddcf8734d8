package client

import (
	"fmt"
	"strconv"

	"github.com/urfave/cli/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The names of the flags that several commands share.
const (
	flagNamespace     = "namespace"
	flagAllNamespaces = "all-namespaces"
	flagSelector      = "selector"
	flagFieldSelector = "field-selector"
	flagFilename      = "filename"
	flagRecursive     = "recursive"
	flagKustomize     = "kustomize"
	flagOutput        = "output"
	flagDryRun        = "dry-run"
	flagIgnoreMissing = "ignore-not-found"
	flagWatch         = "watch"
	flagWatchOnly     = "watch-only"
	flagNoHeaders     = "no-headers"
	flagSubresource   = "subresource"
	flagTimeout       = "timeout"
	flagAll           = "all"
	flagRaw           = "raw"
	flagValidate      = "validate"
)

// bareFlag is a flag that may stand without a value, and then takes bare; as with
// kubectl, a value must be joined to it by "=".
type bareFlag struct {
	*cli.StringFlag
	bare string
}

func namespaceFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: flagNamespace, Aliases: []string{"n"}, Usage: "the namespace that is meant"},
	}
}

func allNamespacesFlag() cli.Flag {
	return &cli.BoolFlag{Name: flagAllNamespaces, Aliases: []string{"A"}, Usage: "every namespace"}
}

func selectorFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: flagSelector, Aliases: []string{"l"}, Usage: "label selector: a=b,c!=d,e in (f,g)"},
		&cli.StringFlag{Name: flagFieldSelector, Usage: "field selector: status.phase=Running"},
	}
}

func filenameFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: flagFilename, Aliases: []string{"f"}, Usage: "a manifest, a directory of them, or - for standard input"},
		&cli.BoolFlag{Name: flagRecursive, Aliases: []string{"R"}, Usage: "directories within the directory too"},
		&cli.StringFlag{Name: flagKustomize, Aliases: []string{"k"}, Usage: "not served: render it first"},
	}
}

func outputFlag(usage string) cli.Flag {
	return &cli.StringFlag{Name: flagOutput, Aliases: []string{"o"}, Usage: usage}
}

func dryRunFlag() cli.Flag {
	return bareFlag{
		StringFlag: &cli.StringFlag{Name: flagDryRun, Value: "none", Usage: "none, client or server"},
		bare:       "unchanged",
	}
}

func validateFlag() cli.Flag {
	return bareFlag{
		StringFlag: &cli.StringFlag{Name: flagValidate, Value: "strict", Usage: "strict, warn or ignore: what the server does about unknown and repeated fields"},
		bare:       "strict",
	}
}

func ignoreMissingFlag() cli.Flag {
	return &cli.BoolFlag{Name: flagIgnoreMissing, Usage: "an object that is not there is no error"}
}

// join is one list of flags.
func join(lists ...[]cli.Flag) []cli.Flag {
	var all []cli.Flag
	for _, list := range lists {
		all = append(all, list...)
	}
	return all
}

// dryRun is how far a change is carried out.
type dryRun int

// The values of --dry-run.
const (
	dryRunNone dryRun = iota
	dryRunClient
	dryRunServer
)

// parseDryRun reads --dry-run, the old forms included; deprecated is a warning.
func parseDryRun(value string) (run dryRun, deprecated string, err error) {
	switch value {
	case "none", "":
		return dryRunNone, "", nil
	case "client":
		return dryRunClient, "", nil
	case "server":
		return dryRunServer, "", nil
	case "unchanged":
		return dryRunClient, "--dry-run is deprecated and can be replaced with --dry-run=client.", nil
	}
	yes, parseErr := strconv.ParseBool(value)
	if parseErr != nil {
		return dryRunNone, "", fmt.Errorf(`Invalid dry-run value (%s). Must be "none", "server", or "client".`, value) //nolint:revive,staticcheck // kubectl's text
	}
	if yes {
		return dryRunClient, fmt.Sprintf("--dry-run=%s is deprecated (boolean value) and can be replaced with --dry-run=client.", value), nil
	}
	return dryRunNone, fmt.Sprintf("--dry-run=%s is deprecated (boolean value) and can be replaced with --dry-run=none.", value), nil
}

// suffix is what messages end with.
func (d dryRun) suffix() string {
	switch d {
	case dryRunClient:
		return " (dry run)"
	case dryRunServer:
		return " (server dry run)"
	case dryRunNone:
		return ""
	}
	return ""
}

// options is the value of the dryRun field of a request.
func (d dryRun) options() []string {
	if d == dryRunServer {
		return []string{metav1.DryRunAll}
	}
	return nil
}

// dryRun reads the flag and warns of its old forms.
func (c *call) dryRun() (dryRun, error) {
	run, deprecated, err := parseDryRun(c.flags.String(flagDryRun))
	if deprecated != "" {
		c.warn(deprecated)
	}
	return run, err
}

// fieldValidation reads --validate: the directive for the server.
func (c *call) fieldValidation() (string, error) {
	switch value := c.flags.String(flagValidate); value {
	case "strict", "true":
		return metav1.FieldValidationStrict, nil
	case "warn":
		return metav1.FieldValidationWarn, nil
	case "ignore", "false":
		return metav1.FieldValidationIgnore, nil
	default:
		return "", fmt.Errorf("invalid - validate option %q; must be one of: strict (or true), warn, ignore (or false)", value)
	}
}
