package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/daemon"
	"github.com/podfall/podfall/internal/podlog"
	"github.com/podfall/podfall/internal/terminal"
	"github.com/podfall/podfall/proto"
)

func logsCommand(env Env) *cli.Command {
	return &cli.Command{
		Name:      "logs",
		Usage:     "print what a container has written",
		ArgsUsage: "(POD | pod/POD) [CONTAINER]",
		Flags: join(namespaceFlags(), []cli.Flag{
			&cli.StringFlag{Name: flagContainer, Aliases: []string{"c"}, Usage: "the container that is meant"},
			&cli.BoolFlag{Name: "all-containers", Usage: "every container of the pods"},
			&cli.StringFlag{Name: flagSelector, Aliases: []string{"l"}, Usage: "every pod with these labels: a=b,c!=d,e in (f,g)"},
			&cli.BoolFlag{Name: "prefix", Usage: "the pod and the container in front of each line"},
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "go on until the container ends"},
			&cli.IntFlag{Name: "max-log-requests", Value: 5, Usage: "how many logs may be followed at a time"},
			&cli.BoolFlag{Name: "previous", Aliases: []string{"p"}, Usage: "the instance before the last restart"},
			&cli.Int64Flag{Name: "tail", Value: -1, Usage: "only this many lines; -1 for all, which with a selector are 10"},
			&cli.DurationFlag{Name: "since", Usage: "only what is not older than this: 5s, 2m, 3h"},
			&cli.StringFlag{Name: "since-time", Usage: "only what was written since this time, in RFC 3339"},
			&cli.BoolFlag{Name: "timestamps", Usage: "the time in front of each line"},
		}),
		Action: action(env, runLogs),
	}
}

// followEvery is how often a container that is followed is asked again.
const followEvery = time.Second

// selectedTail is how many lines of each of several pods are printed (kubectl's default).
const selectedTail = 10

func runLogs(ctx context.Context, c *call) error {
	wanted, err := c.logsWanted(ctx)
	if err != nil {
		return err
	}
	pods, err := c.loggedPods(ctx, wanted)
	if err != nil {
		return err
	}
	sources, err := c.logSources(pods, wanted)
	if err != nil {
		return err
	}
	if c.session.Nodes == nil {
		return errNoNodes
	}
	if !c.flags.Bool("follow") {
		for _, source := range sources {
			if err := source.print(ctx); err != nil {
				return err
			}
		}
		return nil
	}
	if most := c.flags.Int("max-log-requests"); len(sources) > most {
		return fmt.Errorf("you are attempting to follow %d log streams, but maximum allowed concurrency is %d, use --max-log-requests to increase the limit",
			len(sources), most)
	}
	group := daemon.NewGroup(ctx)
	for _, source := range sources {
		group.Go(source.follow)
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}

// logsWanted reads the command line. Pod is empty when a selector says which are meant.
func (c *call) logsWanted(ctx context.Context) (proto.LogsRequest, error) {
	args, selector := c.flags.Args().Slice(), c.flags.String(flagSelector)
	wanted := proto.LogsRequest{Container: c.flags.String(flagContainer), Previous: c.flags.Bool("previous")}
	wanted.Namespace, _ = c.namespace()
	switch {
	case len(args) > 2 || len(args) == 0 && selector == "":
		return wanted, errors.New("expected 'logs [-f] [-p] (POD | TYPE/NAME) [-c CONTAINER]'.\nPOD or TYPE/NAME is a required argument for the logs command\nSee 'podfall logs -h' for help and examples")
	case len(args) == 1 && selector != "":
		return wanted, errors.New("only a selector (-l) or a POD name is allowed\nSee 'podfall logs -h' for help and examples")
	case len(args) == 2 && wanted.Container != "":
		return wanted, errors.New("only one of -c or an inline [CONTAINER] arg is allowed")
	case len(args) == 2:
		wanted.Container = args[1]
	}
	if c.flags.Bool("all-containers") && wanted.Container != "" {
		return wanted, fmt.Errorf("--all-containers=true should not be specified with container name %s", wanted.Container)
	}
	if err := c.logsLimits(&wanted); err != nil {
		return wanted, err
	}
	if len(args) == 0 {
		return wanted, nil
	}
	var err error
	wanted.Pod, err = c.podName(ctx, args[0])
	return wanted, err
}

// logsLimits reads how much of the logs is wanted.
func (c *call) logsLimits(wanted *proto.LogsRequest) error {
	since, sinceTime := c.flags.Duration("since"), c.flags.String("since-time")
	switch {
	case since != 0 && sinceTime != "":
		return errors.New("at most one of `sinceTime` or `sinceSeconds` may be specified")
	case since < 0:
		return errors.New("--since must be greater than 0")
	case since > 0:
		wanted.SinceTime = c.env.Clock.Now().Add(-since.Round(time.Second))
	case sinceTime != "":
		at, err := time.Parse(time.RFC3339, sinceTime)
		if err != nil {
			return err
		}
		wanted.SinceTime = at
	}
	switch tail := c.flags.Int64("tail"); {
	case tail < -1:
		return errors.New("--tail must be greater than or equal to -1")
	case tail >= 0:
		wanted.TailLines = &tail
	case c.flags.String(flagSelector) != "" && !c.flags.IsSet("tail"):
		wanted.TailLines = new(int64(selectedTail))
	}
	return nil
}

// loggedPods are the pods that are meant.
func (c *call) loggedPods(ctx context.Context, wanted proto.LogsRequest) ([]*corev1.Pod, error) {
	api, err := c.api(ctx)
	if err != nil {
		return nil, err
	}
	if wanted.Pod != "" {
		pod, err := getPod(ctx, api, wanted.Namespace, wanted.Pod)
		if err != nil {
			return nil, inNamespace(err, wanted.Namespace)
		}
		return []*corev1.Pod{pod}, nil
	}
	list, err := listAll(ctx, api, target(podKind(), wanted.Namespace, ""), metav1.ListOptions{
		LabelSelector: c.flags.String(flagSelector), Limit: chunkSize,
	})
	if err != nil {
		return nil, err
	}
	var pods []*corev1.Pod
	for _, item := range list.Items {
		if pod, ok := item.(*corev1.Pod); ok {
			pods = append(pods, pod)
		}
	}
	if len(pods) == 0 {
		terminal.Printf(c.stderr, "No resources found in %s namespace.\n", wanted.Namespace)
	}
	return pods, nil
}

// inNamespace says where a pod was looked for.
func inNamespace(err error, namespace string) error {
	if !apierrors.IsNotFound(err) {
		return err
	}
	status, _ := asStatus(err)
	return fmt.Errorf("error: error from server (NotFound): %s in namespace %q", status.Message, namespace)
}

// logSources are the logs of the pods that are meant, init containers first.
func (c *call) logSources(pods []*corev1.Pod, wanted proto.LogsRequest) ([]*logSource, error) {
	var sources []*logSource
	var printing sync.Mutex
	for _, pod := range pods {
		names, err := c.loggedContainers(pod, wanted.Container)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			request := wanted
			request.Pod, request.UID, request.Container = pod.Name, pod.UID, name
			source := &logSource{call: c, pod: pod, container: name, printing: &printing}
			if c.flags.Bool("prefix") {
				source.prefix = fmt.Sprintf("[pod/%s/%s] ", pod.Name, name)
			}
			source.reader = podlog.NewReader(source.ask, request)
			sources = append(sources, source)
		}
	}
	return sources, nil
}

func (c *call) loggedContainers(pod *corev1.Pod, asked string) ([]string, error) {
	if !c.flags.Bool("all-containers") {
		name, err := c.chooseContainer(pod, asked)
		return []string{name}, err
	}
	var names []string
	for _, container := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		names = append(names, container.Name)
	}
	for _, container := range pod.Spec.EphemeralContainers {
		names = append(names, container.Name)
	}
	return names, nil
}

// logSource is one log of one container.
type logSource struct {
	*call
	pod       *corev1.Pod
	container string
	prefix    string
	reader    *podlog.Reader
	// printing keeps the lines of several logs whole.
	printing *sync.Mutex
}

func (s *logSource) ask(ctx context.Context, request []byte) ([]byte, error) {
	node := s.pod.Spec.NodeName
	answer, err := s.session.Nodes.Ask(ctx, node, "logs", request)
	if err != nil {
		return nil, fmt.Errorf("logs of pod %s on node %s: %w", s.pod.Name, node, err)
	}
	return answer, nil
}

// print prints what there is.
func (s *logSource) print(ctx context.Context) error {
	if s.pod.Spec.NodeName == "" {
		return apierrors.NewBadRequest(fmt.Sprintf("pod %s does not have a host assigned", s.pod.Name))
	}
	return s.next(ctx, true)
}

// next prints what was written since it was last called.
func (s *logSource) next(ctx context.Context, ended bool) error {
	lines, err := s.reader.Next(ctx, ended)
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, line := range lines {
		text.WriteString(s.prefix)
		text.Write(line.Format(s.flags.Bool("timestamps")))
	}
	s.printing.Lock()
	defer s.printing.Unlock()
	_, err = s.env.Stdout.Write([]byte(text.String()))
	return err
}

// follow prints what is added to the log, until the container has ended or the pod is
// gone. The kubelet is asked again and again: it keeps no stream.
func (s *logSource) follow(ctx context.Context) error {
	if s.pod.Spec.NodeName == "" {
		return apierrors.NewBadRequest(fmt.Sprintf("pod %s does not have a host assigned", s.pod.Name))
	}
	where := target(podKind(), s.pod.Namespace, s.pod.Name)
	for first := true; ; first = false {
		obj, err := s.session.API.Get(ctx, where, metav1.GetOptions{})
		ended := apierrors.IsNotFound(err)
		if pod, ok := obj.(*corev1.Pod); err == nil && ok {
			ended = podlog.HasEnded(pod, s.pod.UID, s.container)
		}
		if err != nil && !ended {
			return err
		}
		switch err := s.next(ctx, ended); {
		case err != nil && ended && !first:
			return nil // the log went with the container
		case err != nil:
			return err
		case ended:
			return nil
		}
		if err := s.env.Clock.Sleep(ctx, followEvery); err != nil {
			return err
		}
	}
}
