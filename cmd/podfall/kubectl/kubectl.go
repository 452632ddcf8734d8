// Package kubectl runs kubectl's own commands, those of k8s.io/kubectl, under podfall's name and
// against a cluster that its caller connects to.
//
// kubectl's code ends the process on an error; Run returns the exit code instead. kubectl's code
// keeps its settings in global variables, so that one process has one Run at a time.
package kubectl

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/plugin"
	"k8s.io/kubectl/pkg/cmd/util"

	_ "github.com/podfall/podfall/cmd/podfall/kubectl/messages" // before the packages that need messages
	"github.com/podfall/podfall/internal/terminal"
)

// program is the name that kubectl's help and messages show.
const program = "podfall"

// ErrUnknown means that a command line names no command of kubectl's and no plug-in.
var ErrUnknown = errors.New("unknown command")

// Config is how to run one command line.
type Config struct {
	// Args is the command line without the program's name.
	Args     []string
	In       io.Reader
	Out, Err io.Writer
	// Kubeconfig is the file that `config` changes and that plug-ins and completion read; empty
	// means the user's own.
	Kubeconfig string
	// Connect returns how to reach the cluster, for a command that asks the cluster; nil means as
	// the kubeconfig says. It is called at most once.
	Connect func() (*rest.Config, error)
	// Check refuses the cluster that the kubeconfig leads to; nil refuses none. It is called at
	// most once.
	Check func() error
	// Others are commands that are not kubectl's, for the completion of command lines.
	Others []Command
}

// Command is a name and one line about it.
type Command struct{ Name, Short string }

// Commands lists kubectl's commands in the order of their names.
func Commands() []Command {
	silent := genericiooptions.IOStreams{In: strings.NewReader(""), Out: io.Discard, ErrOut: io.Discard}
	root := cmd.NewKubectlCommand(cmd.KubectlOptions{IOStreams: silent, Arguments: []string{program}, ConfigFlags: genericclioptions.NewConfigFlags(true)})
	var all []Command
	for _, command := range root.Commands() {
		if !command.Hidden {
			all = append(all, Command{Name: command.Name(), Short: command.Short})
		}
	}
	return all
}

// Run carries out the command line and returns its exit code. It returns ErrUnknown, and does
// nothing, if there is no such command.
func Run(ctx context.Context, cfg Config) (code int, err error) {
	if cfg.Kubeconfig != "" {
		defer setKubeconfig(cfg.Kubeconfig)()
	}
	_, _ = logs.GlogSetter(cmd.GetLogVerbosity(append([]string{program}, cfg.Args...))) // as upstream's main
	exits := make(chan int, 1)
	exit := func(code int) {
		select {
		case exits <- code:
		default: // the first one counts
		}
		runtime.Goexit()
	}
	util.BehaviorOnFatal(func(text string, code int) {
		writeError(cfg.Err, text)
		exit(code)
	})
	unknown := make(chan struct{})
	// Run does not wait for kubectl's code: it may block after an error, and the process ends soon.
	var running sync.WaitGroup
	running.Go(func() {
		root := newRoot(cfg)
		if !isCommand(root, cfg.Args) {
			close(unknown)
			return
		}
		util.CheckErr(cli.RunNoErrOutput(root))
		exit(0)
	})
	select {
	case code := <-exits:
		return code, nil
	case <-unknown:
		return 0, ErrUnknown
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// setKubeconfig has kubectl's code read a kubeconfig, or an empty one if the file is missing,
// until restore.
func setKubeconfig(path string) (restore func()) {
	before, was := os.LookupEnv(clientcmd.RecommendedConfigPathEnvVar)
	if _, err := os.Stat(path); err != nil {
		path = os.DevNull
	}
	_ = os.Setenv(clientcmd.RecommendedConfigPathEnvVar, path) // the name is good
	return func() {
		if !was {
			_ = os.Unsetenv(clientcmd.RecommendedConfigPathEnvVar)
			return
		}
		_ = os.Setenv(clientcmd.RecommendedConfigPathEnvVar, before)
	}
}

// writeError prints a message, in which text of the cluster may be.
func writeError(errs io.Writer, text string) {
	if text != "" {
		_, _ = io.WriteString(terminal.Writer(errs), strings.TrimSuffix(text, "\n")+"\n") // nobody is left to tell
	}
}

// newRoot returns kubectl's commands as podfall's. If the command line names a plug-in, the
// plug-in takes the place of this process.
func newRoot(cfg Config) *cobra.Command {
	out := &humanWriter{to: cfg.Out}
	streams := genericiooptions.IOStreams{In: cfg.In, Out: cfg.Out, ErrOut: cfg.Err}
	if forPeople(cfg.Args) {
		streams.Out, streams.ErrOut = out, terminal.Writer(cfg.Err)
	}
	flags := genericclioptions.NewConfigFlags(true).WithDeprecatedPasswordFlag().WithDiscoveryBurst(300).WithDiscoveryQPS(50).WithWarningPrinter(streams)
	direct(flags, cfg, func(config *rest.Config) *rest.Config {
		if escapesMessages(cfg.Args) {
			escape := newMessageEscape()
			config.Wrap(func(next http.RoundTripper) http.RoundTripper {
				return messageEscaper{next, func() bool { return out.plain }, escape}
			})
		}
		return config
	})
	root := cmd.NewDefaultKubectlCommandWithArgs(cmd.KubectlOptions{
		PluginHandler: cmd.NewDefaultPluginHandler(plugin.ValidPluginFilenamePrefixes),
		Arguments:     append([]string{program}, cfg.Args...),
		ConfigFlags:   flags, IOStreams: streams,
	})
	rename(root)
	for _, other := range cfg.Others {
		if found, _, err := root.Find([]string{other.Name}); err != nil || found == root {
			root.AddCommand(&cobra.Command{Use: other.Name, Short: other.Short, Run: func(*cobra.Command, []string) {}})
		}
	}
	before := root.PersistentPreRunE
	root.PersistentPreRunE = func(command *cobra.Command, args []string) error {
		out.plain = writesData(command)
		return before(command, args)
	}
	root.SetArgs(cfg.Args)
	root.SetIn(cfg.In)
	root.SetOut(cfg.Out)
	root.SetErr(cfg.Err)
	return root
}

// isCommand reports whether the command line is one of root's. Cobra adds some commands itself,
// and only when it runs.
func isCommand(root *cobra.Command, args []string) bool {
	_, _, err := root.Find(args)
	switch Verb(args) {
	case "help", cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd:
		return true
	}
	return err == nil
}

// rename has help and messages show podfall instead of kubectl.
func rename(command *cobra.Command) {
	if !command.HasParent() {
		command.Use = program
	}
	command.Example = strings.ReplaceAll(command.Example, "kubectl ", program+" ")
	command.Long = strings.ReplaceAll(command.Long, "kubectl ", program+" ")
	for _, below := range command.Commands() {
		rename(below)
	}
}

// direct leads kubectl's requests to the cluster of cfg, by a configuration that wrap completes.
func direct(flags *genericclioptions.ConfigFlags, cfg Config, wrap func(*rest.Config) *rest.Config) {
	switch {
	case cfg.Connect != nil:
		reach := sync.OnceValues(cfg.Connect)
		*flags.CacheDir = os.DevNull // the address is another one each time, and asking is cheap
		flags.WithWrapConfigFn(func(asked *rest.Config) *rest.Config {
			reached, err := reach()
			util.CheckErr(err)
			config := rest.CopyConfig(reached)
			config.Impersonate, config.Timeout = asked.Impersonate, asked.Timeout
			return wrap(config)
		})
	case cfg.Check != nil:
		check := sync.OnceValue(cfg.Check)
		flags.WithWrapConfigFn(func(asked *rest.Config) *rest.Config {
			util.CheckErr(check())
			return wrap(asked)
		})
	default:
		flags.WithWrapConfigFn(wrap)
	}
}
