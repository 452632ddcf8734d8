package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/terminal"
	"github.com/podfall/podfall/proto"
)

const (
	flagContainer = "container"
	flagStdin     = "stdin"
	flagTTY       = "tty"
	flagQuiet     = "quiet"
	// flagDash is set by Arrange: how many arguments stood before "--".
	flagDash = "arguments-before-dash"
)

// streamFlags are those of exec and attach.
func streamFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: flagContainer, Aliases: []string{"c"}, Usage: "the container that is meant"},
		&cli.BoolFlag{Name: flagStdin, Aliases: []string{"i"}, Usage: "pass standard input on"},
		&cli.BoolFlag{Name: flagTTY, Aliases: []string{"t"}, Usage: "standard input is a terminal"},
		&cli.BoolFlag{Name: flagQuiet, Aliases: []string{"q"}, Usage: "only what the session prints"},
	}
}

func execCommand(env Env) *cli.Command {
	return &cli.Command{
		Name:      "exec",
		Usage:     "run a command in a container",
		ArgsUsage: "(POD | pod/POD) [-c CONTAINER] [flags] -- COMMAND [args...]",
		Flags: join(namespaceFlags(), streamFlags(), []cli.Flag{
			&cli.IntFlag{Name: flagDash, Value: -1, Hidden: true},
		}),
		Action: action(env, runExec),
	}
}

func attachCommand(env Env) *cli.Command {
	return &cli.Command{
		Name:      "attach",
		Usage:     "listen and speak to a container's program",
		ArgsUsage: "(POD | pod/POD) -c CONTAINER",
		Flags:     join(namespaceFlags(), streamFlags()),
		Action:    action(env, runAttach),
	}
}

func runExec(ctx context.Context, c *call) error {
	args, dash := c.flags.Args().Slice(), c.flags.Int(flagDash)
	var command []string
	if dash == 0 || dash == 1 {
		command = args[dash:]
	} else if len(args) > 1 {
		return errors.New("exec [POD] [COMMAND] is not supported anymore. Use exec [POD] -- [COMMAND] instead\nSee 'podfall exec -h' for help and examples")
	}
	switch {
	case len(args) == 0 || dash == 0:
		return errors.New("pod, type/name or --filename must be specified")
	case len(command) == 0:
		return errors.New("you must specify at least one command for the container")
	}
	pod, err := c.streamPod(ctx, args[0], "exec into")
	if err != nil {
		return err
	}
	container, err := c.chooseContainer(pod, c.flags.String(flagContainer))
	if err != nil {
		return err
	}
	t := c.newTalk(pod, container, "exec")
	t.request.Command = command
	t.setUp(c.flags.Bool(flagTTY))
	return t.run(ctx)
}

func runAttach(ctx context.Context, c *call) error {
	args := c.flags.Args().Slice()
	switch {
	case len(args) == 0:
		return errors.New("at least 1 argument is required for attach")
	case len(args) > 2:
		return fmt.Errorf("expected POD, TYPE/NAME, or TYPE NAME, (at most 2 arguments) saw %d: %v", len(args), args)
	}
	pod, err := c.streamPod(ctx, strings.Join(args, "/"), "attach")
	if err != nil {
		return err
	}
	container, err := c.chooseContainer(pod, c.flags.String(flagContainer))
	if err != nil {
		return fmt.Errorf("cannot attach to the container: %w", err)
	}
	tty := containerNamed(pod, container).TTY
	if c.flags.Bool(flagTTY) && !tty && !c.flags.Bool(flagQuiet) {
		terminal.Printf(c.stderr, "error: Unable to use a TTY - container %s did not allocate one\n", container)
	}
	t := c.newTalk(pod, container, "attach")
	t.setUp(tty)
	if !c.flags.Bool(flagQuiet) {
		terminal.Printf(c.stderr, "All commands and output from this session will be recorded in container logs, including credentials and sensitive information passed through the command prompt.\n")
		terminal.Printf(c.stderr, "If you don't see a command prompt, try pressing enter.\n")
	}
	if err := t.run(ctx); err != nil {
		return err
	}
	if t.request.TTY && !c.flags.Bool(flagQuiet) {
		terminal.Printf(c.stdout, "Session ended, resume using 'podfall attach %s -c %s -n %s -i -t' command\n", pod.Name, container, pod.Namespace)
	}
	return nil
}

// streamPod is the pod that is named, unless it has ended; doing says what for.
func (c *call) streamPod(ctx context.Context, named, doing string) (*corev1.Pod, error) {
	namespace, _ := c.namespace()
	name, err := c.podName(ctx, named)
	if err != nil {
		return nil, err
	}
	api, err := c.api(ctx)
	if err != nil {
		return nil, err
	}
	pod, err := getPod(ctx, api, namespace, name)
	if err != nil {
		return nil, err
	}
	switch {
	case pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
		return nil, fmt.Errorf("cannot %s a container in a completed pod; current phase is %s", doing, pod.Status.Phase)
	case c.session.Nodes == nil:
		return nil, errNoNodes
	}
	return pod, nil
}

var errNoNodes = errors.New("there is no way to the kubelets from here")

// podName is the pod's name in "POD" or "pod/POD".
func (c *call) podName(ctx context.Context, named string) (string, error) {
	what, name, ok := strings.Cut(named, "/")
	if !ok {
		return named, nil
	}
	kind, err := c.kinds(ctx).alias(what)
	if err != nil {
		return "", err
	}
	if kind.Kind != "Pod" {
		return "", fmt.Errorf("podfall looks into pods only, not into %s: name the pod", kind.Resource)
	}
	return name, nil
}

func getPod(ctx context.Context, api API, namespace, name string) (*corev1.Pod, error) {
	where := target(podKind(), namespace, name)
	obj, err := api.Get(ctx, where, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return nil, fmt.Errorf("%s: it is a %T", where, obj)
	}
	return pod, nil
}

// defaultContainer is the annotation by which a pod names the container that is meant.
const defaultContainer = "kubectl.kubernetes.io/default-container"

// chooseContainer is the container asked for, if the pod has it, or the pod's first.
func (c *call) chooseContainer(pod *corev1.Pod, asked string) (string, error) {
	if asked == "" {
		asked = pod.Annotations[defaultContainer]
	}
	names := containerNames(pod)
	switch {
	case asked != "" && containerNamed(pod, asked) == nil:
		return "", fmt.Errorf("container %s is not valid for pod %s out of: %s", asked, pod.Name, strings.Join(names, ", "))
	case asked != "":
		return asked, nil
	}
	first := pod.Spec.Containers[0].Name
	if len(names) > 1 && !c.flags.Bool(flagQuiet) {
		terminal.Printf(c.stderr, "Defaulted container %q out of: %s\n", first, strings.Join(names, ", "))
	}
	return first, nil
}

// containerNames are a pod's containers as kubectl lists them.
func containerNames(pod *corev1.Pod) []string {
	var names []string
	for _, container := range pod.Spec.Containers {
		names = append(names, container.Name)
	}
	for _, container := range pod.Spec.EphemeralContainers {
		names = append(names, container.Name+" (ephem)")
	}
	for _, container := range pod.Spec.InitContainers {
		names = append(names, container.Name+" (init)")
	}
	return names
}

// containerNamed is a container of a pod, whatever kind of container it is; nil for none.
func containerNamed(pod *corev1.Pod, name string) *corev1.Container {
	all := slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers)
	for _, ephemeral := range pod.Spec.EphemeralContainers {
		all = append(all, corev1.Container(ephemeral.EphemeralContainerCommon))
	}
	if i := slices.IndexFunc(all, func(c corev1.Container) bool { return c.Name == name }); i >= 0 {
		return &all[i]
	}
	return nil
}

func (c *call) newTalk(pod *corev1.Pod, container, verb string) *talk {
	return &talk{call: c, verb: verb, node: pod.Spec.NodeName, request: proto.StreamRequest{
		Namespace: pod.Namespace, Pod: pod.Name, UID: pod.UID, Container: container,
		Stdin: c.flags.Bool(flagStdin), Stdout: true, Stderr: true,
	}}
}

// notUpgraded is what kubectl prints of a conversation that did not begin.
func notUpgraded(err error) error {
	var refused apierrors.APIStatus
	if errors.As(err, &refused) {
		if status := refused.Status(); !apierrors.IsInternalError(err) {
			return fmt.Errorf("unable to upgrade connection: %s", status.Message)
		}
		return errors.New(refused.Status().Message)
	}
	return err
}
