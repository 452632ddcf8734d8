// Package oracle_test runs kubectl's own commands beside podfall's, on the same
// objects, and compares what they print, how they end and what they ask to be changed.
// Kubectl is used as a library here and nowhere else.
package oracle_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/urfave/cli/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/kubectl/pkg/cmd/apply"
	"k8s.io/kubectl/pkg/cmd/create"
	kubectldelete "k8s.io/kubectl/pkg/cmd/delete"
	"k8s.io/kubectl/pkg/cmd/describe"
	"k8s.io/kubectl/pkg/cmd/drain"
	"k8s.io/kubectl/pkg/cmd/events"
	"k8s.io/kubectl/pkg/cmd/get"
	"k8s.io/kubectl/pkg/cmd/patch"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/cmd/wait"

	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/client"
	"github.com/podfall/podfall/services/client/fake"
)

// TestAgreesWithKubectl runs each line of testdata/lines.txt twice. A line that begins
// with "~" is one where podfall means to differ; it must, or the mark is wrong.
func TestAgreesWithKubectl(t *testing.T) {
	text, err := os.ReadFile("testdata/lines.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		line, differs := strings.CutPrefix(line, "~")
		inABubble(t, line, func(t *testing.T) {
			born := longAgo()
			theirs := kubectl(t, newCluster(born), strings.Fields(line))
			ours := podfall(t, newCluster(born), strings.Fields(line))
			difference := cmp.Diff(theirs, ours)
			switch {
			case difference != "" && !differs:
				t.Errorf("kubectl (-) and podfall (+):\n%s", difference)
			case difference == "" && differs:
				t.Errorf("marked as different, but it is the same:\n%+v", ours)
			}
		})
	}
}

// inABubble runs a test in which time passes while everyone waits, and only then: a limit of
// kubectl's is not over because the machine is busy.
func inABubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

func longAgo() time.Time { return time.Now().Add(-42 * time.Hour).Truncate(time.Second) }

// TestWatchesAgreeWithKubectl deletes a pod while each form of get -w looks on, and then
// ends the stream.
func TestWatchesAgreeWithKubectl(t *testing.T) {
	watched := func(t *testing.T) *fake.Cluster {
		at := longAgo()
		cluster := newCluster(at)
		cluster.OnWatch = func() {
			pod := plainPod("web-0", "default", at)
			pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = new(metav1.NewTime(at)), new(int64(30))
			cluster.Put(pod)
			cluster.Put(pod)
			pod.Status.Phase = corev1.PodFailed
			pod.Status.ContainerStatuses[0].Ready = false
			pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 143, Reason: "Error"}}
			cluster.Put(pod)
			cluster.Remove(podapi.Target{Kind: kindOf(t, "pods"), Namespace: "default", Name: "web-0"})
			cluster.EndWatches()
		}
		return cluster
	}
	for _, line := range []string{
		"get pods -w", "get pods -A -w", "get pod web-0 -w", "get pod/web-0 -w -o wide", "get pods -w -o wide",
		"get pods -w --no-headers", "get pods --watch-only", "get pods -w --output-watch-events",
		"get pod web-0 -w --output-watch-events", "get pods -w -o name", "get pods -w -o json", "get pods -w -o yaml",
		"get pods -w -o json --output-watch-events", "get pods -w -l name=web-0 --show-labels", "get nodes -w",
		"get pods -w -o jsonpath={.metadata.name}", "get pods -w -n other",
	} {
		inABubble(t, line, func(t *testing.T) {
			theirs := kubectl(t, watched(t), strings.Fields(line))
			ours := podfall(t, watched(t), strings.Fields(line))
			if difference := cmp.Diff(theirs, ours); difference != "" {
				t.Errorf("kubectl (-) and podfall (+):\n%s", difference)
			}
			if ours.Stdout == "" {
				t.Error("nothing was printed")
			}
		})
	}
}

func kindOf(t *testing.T, name string) kinds.Kind {
	kind, ok := kinds.ByAlias(name)
	if !ok {
		t.Fatalf("no kind %s", name)
	}
	return kind
}

// result is what a command did.
type result struct {
	Stdout, Stderr string
	Code           int
	Changes        []string
}

func newResult(stdout, stderr string, code int, cluster *fake.Cluster) result {
	r := result{Stdout: normal(stdout), Stderr: normal(stderr), Code: code}
	for _, request := range cluster.Asked() {
		if verb, _, _ := strings.Cut(request, " "); verb == "DELETE" || verb == "PATCH" || verb == "CREATE" {
			r.Changes = append(r.Changes, request)
		}
	}
	return r
}

// normal is text under podfall's name, with one newline at the end.
func normal(text string) string {
	text = strings.ReplaceAll(text, "kubectl.kubernetes.io", "KEEP")
	text = strings.ReplaceAll(text, "kubectl", "podfall")
	text = strings.ReplaceAll(text, "oracle.test", "podfall")
	text = strings.ReplaceAll(text, "KEEP", "kubectl.kubernetes.io")
	if text != "" {
		text = strings.TrimRight(text, "\n") + "\n"
	}
	return text
}

// fatal is how kubectl's commands end with an error.
type fatal struct {
	text string
	code int
}

func kubectl(t *testing.T, cluster *fake.Cluster, args []string) result {
	compat, err := proto.CompatFor("")
	if err != nil {
		t.Fatal(err)
	}
	web := serve(t, &server{cluster: cluster, compat: compat})
	dir := t.TempDir()
	config := filepath.Join(dir, "config")
	const content = "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\ncontexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n"
	if err := os.WriteFile(config, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	flags := genericclioptions.NewConfigFlags(true)
	flags.KubeConfig, flags.CacheDir = &config, &dir
	flags = flags.WithDiscoveryBurst(1000).WithDiscoveryQPS(1000).WithWrapConfigFn(func(c *rest.Config) *rest.Config {
		c.QPS, c.Dial = -1, web.dial
		return c
	})
	var out, errs bytes.Buffer
	streams := genericiooptions.IOStreams{In: strings.NewReader("y\n"), Out: &out, ErrOut: &errs}
	root := kubectlRoot(flags, streams)
	root.SetArgs(args)
	root.SetOut(io.Discard)
	root.SetErr(io.Discard)
	code := 0
	func() {
		defer func() {
			if ended, ok := recover().(fatal); ok {
				errs.WriteString(ended.text + "\n")
				code = ended.code
			}
		}()
		cmdutil.BehaviorOnFatal(func(text string, code int) { panic(fatal{text, code}) })
		defer cmdutil.DefaultBehaviorOnFatal()
		if err := root.Execute(); err != nil {
			fmt.Fprintf(&errs, "error: %v\nSee 'kubectl %s --help' for usage.\n", err, args[0])
			code = 1
		}
	}()
	return newResult(out.String(), errs.String(), code, cluster)
}

func kubectlRoot(flags *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
	factory := cmdutil.NewFactory(flags)
	root := &cobra.Command{Use: "kubectl", SilenceErrors: true, SilenceUsage: true}
	flags.AddFlags(root.PersistentFlags())
	root.AddCommand(
		get.NewCmdGet("kubectl", factory, streams),
		kubectldelete.NewCmdDelete(factory, streams),
		describe.NewCmdDescribe("kubectl", factory, streams),
		create.NewCmdCreate(factory, streams),
		apply.NewCmdApply("kubectl", factory, streams),
		patch.NewCmdPatch(factory, streams),
		events.NewCmdEvents(flags, streams),
		wait.NewCmdWait(flags, streams),
		drain.NewCmdCordon(factory, streams),
		drain.NewCmdUncordon(factory, streams),
	)
	return root
}

func podfall(t *testing.T, cluster *fake.Cluster, args []string) result {
	compat, err := proto.CompatFor("")
	if err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	commands := client.Commands(client.Env{
		Stdin: strings.NewReader("y\n"), Stdout: &out, Stderr: &errs, Compat: compat,
		Dial: func(context.Context) (*client.Session, error) { return &client.Session{API: cluster}, nil },
	})
	app := &cli.App{Name: "podfall", Commands: commands, ExitErrHandler: func(*cli.Context, error) {}}
	line, err := client.Arrange(nil, commands, args)
	if err == nil {
		err = app.RunContext(t.Context(), append([]string{"podfall"}, line...))
	}
	code := 0
	if exit, ok := errors.AsType[cli.ExitCoder](err); ok {
		code = exit.ExitCode()
	} else if err != nil {
		errs.WriteString(client.Explain(err) + "\n")
		code = 1
	}
	return newResult(out.String(), errs.String(), code, cluster)
}

// newCluster has a little of everything that the lines name.
func newCluster(born time.Time) *fake.Cluster {
	cluster := &fake.Cluster{}
	for _, obj := range objects(born) {
		cluster.Put(obj)
	}
	return cluster
}
