package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/proto"
)

func logsCommand(env Env) *cli.Command {
	return &cli.Command{
		Name:      "logs",
		Usage:     "print what a container has written",
		ArgsUsage: "(POD | pod/POD) [CONTAINER]",
		Flags: join(namespaceFlags(), []cli.Flag{
			&cli.StringFlag{Name: "container", Aliases: []string{"c"}, Usage: "the container that is meant"},
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "go on until the container ends"},
			&cli.BoolFlag{Name: "previous", Aliases: []string{"p"}, Usage: "the instance before the last restart"},
			&cli.Int64Flag{Name: "tail", Value: -1, Usage: "only this many lines; -1 for all"},
			&cli.BoolFlag{Name: "timestamps", Usage: "the time in front of each line"},
		}),
		Action: action(env, runLogs),
	}
}

// followEvery is how often a container that is followed is asked again.
const followEvery = time.Second

func runLogs(ctx context.Context, c *call) error {
	request, err := c.logsRequest(ctx)
	if err != nil {
		return err
	}
	api, err := c.api(ctx)
	if err != nil {
		return err
	}
	where := target(podKind(), request.Namespace, request.Pod)
	obj, err := api.Get(ctx, where, metav1.GetOptions{})
	if err != nil {
		return inNamespace(err, request.Namespace)
	}
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return fmt.Errorf("%s: it is a %T", where, obj)
	}
	request.UID = pod.UID
	if request.Container, err = c.chooseContainer(pod, request.Container); err != nil {
		return err
	}
	if pod.Spec.NodeName == "" {
		return apierrors.NewBadRequest(fmt.Sprintf("pod %s does not have a host assigned", pod.Name))
	}
	if c.session.Nodes == nil {
		return errors.New("there is no way to the kubelets from here")
	}
	if c.flags.Bool("follow") {
		return c.followLogs(ctx, api, pod, request)
	}
	text, err := c.askLogs(ctx, pod.Spec.NodeName, request)
	if err != nil {
		return err
	}
	_, err = c.env.Stdout.Write(text)
	return err
}

// inNamespace says where a pod was looked for.
func inNamespace(err error, namespace string) error {
	if !apierrors.IsNotFound(err) {
		return err
	}
	status, _ := asStatus(err)
	return fmt.Errorf("error: error from server (NotFound): %s in namespace %q", status.Message, namespace)
}

// logsRequest reads the command line.
func (c *call) logsRequest(ctx context.Context) (proto.LogsRequest, error) {
	args := c.flags.Args().Slice()
	if len(args) == 0 || len(args) > 2 {
		return proto.LogsRequest{}, errors.New("expected 'logs [-f] [-p] (POD | TYPE/NAME) [-c CONTAINER]'.\nPOD or TYPE/NAME is a required argument for the logs command\nSee 'podfall logs -h' for help and examples")
	}
	request := proto.LogsRequest{
		Pod:        args[0],
		Container:  c.flags.String("container"),
		Previous:   c.flags.Bool("previous"),
		Timestamps: c.flags.Bool("timestamps"),
	}
	request.Namespace, _ = c.namespace()
	if what, name, ok := strings.Cut(args[0], "/"); ok {
		if kind, err := c.kinds(ctx).alias(what); err != nil {
			return proto.LogsRequest{}, err
		} else if kind.Kind != "Pod" {
			return proto.LogsRequest{}, fmt.Errorf("podfall reads the logs of pods only, not of %s: name the pod", kind.Resource)
		}
		request.Pod = name
	}
	if len(args) == 2 {
		if request.Container != "" {
			return proto.LogsRequest{}, errors.New("only one of -c or an inline [CONTAINER] arg is allowed")
		}
		request.Container = args[1]
	}
	if tail := c.flags.Int64("tail"); tail < -1 {
		return proto.LogsRequest{}, errors.New("--tail must be greater than or equal to -1")
	} else if tail >= 0 {
		request.TailLines = &tail
	}
	return request, nil
}

// defaultContainer is the annotation by which a pod names the container that is meant.
const defaultContainer = "kubectl.kubernetes.io/default-container"

// chooseContainer is the container asked for, if the pod has it, or the pod's first.
func (c *call) chooseContainer(pod *corev1.Pod, asked string) (string, error) {
	var regular, initial []string
	for _, container := range pod.Spec.Containers {
		regular = append(regular, container.Name)
	}
	for _, container := range pod.Spec.InitContainers {
		initial = append(initial, container.Name)
	}
	all := append(slices.Clone(regular), initial...)
	switch {
	case asked != "" && !slices.Contains(all, asked):
		return "", fmt.Errorf("container %s is not valid for pod %s", asked, pod.Name)
	case asked != "":
		return asked, nil
	case slices.Contains(all, pod.Annotations[defaultContainer]):
		return pod.Annotations[defaultContainer], nil
	}
	if len(all) > 1 {
		names := slices.Clone(regular)
		for _, name := range initial {
			names = append(names, name+" (init)")
		}
		say(c.stderr, "Defaulted container %q out of: %s\n", regular[0], strings.Join(names, ", "))
	}
	return regular[0], nil
}

func (c *call) askLogs(ctx context.Context, node string, request proto.LogsRequest) ([]byte, error) {
	body, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	answer, err := c.session.Nodes.Ask(ctx, node, "logs", body)
	if err != nil {
		return nil, fmt.Errorf("logs of pod %s on node %s: %w", request.Pod, node, err)
	}
	if status, ok := refusal(answer); ok {
		return nil, proto.ErrorFrom(status)
	}
	return answer, nil
}

// refusal tells a kubelet's refusal from a log that happens to be JSON.
func refusal(answer []byte) (*metav1.Status, bool) {
	var status metav1.Status
	if !bytes.HasPrefix(answer, []byte("{")) || json.Unmarshal(answer, &status) != nil {
		return nil, false
	}
	return &status, status.Kind == "Status" && status.APIVersion == "v1" && status.Status == metav1.StatusFailure
}

// followLogs prints what is added to the log, until the container has ended or the pod
// is gone. The kubelet is asked again and again: it keeps no stream.
func (c *call) followLogs(ctx context.Context, api API, pod *corev1.Pod, request proto.LogsRequest) error {
	wanted := request.TailLines
	request.TailLines = nil
	where := target(podKind(), pod.Namespace, pod.Name)
	var shown []byte
	for first := true; ; first = false {
		obj, err := api.Get(ctx, where, metav1.GetOptions{})
		ended := apierrors.IsNotFound(err) || (err == nil && (obj.GetUID() != pod.UID || hasEnded(obj, request.Container)))
		if err != nil && !ended {
			return err
		}
		text, err := c.askLogs(ctx, pod.Spec.NodeName, request)
		switch {
		case err != nil && ended && !first:
			return nil // the log went with the container
		case err != nil:
			return err
		case first && wanted != nil:
			shown = text[:len(text)-len(lastLines(text, *wanted))]
		}
		if _, err := c.env.Stdout.Write(added(shown, text)); err != nil {
			return err
		}
		shown = text
		if ended {
			return nil
		}
		if err := c.env.Clock.Sleep(ctx, followEvery); err != nil {
			return err
		}
	}
}

// added is what text has beyond what was shown of it. A kubelet drops the beginning of a
// long log; what shares nothing with what was shown is another instance's.
func added(shown, text []byte) []byte {
	if more, ok := bytes.CutPrefix(text, shown); ok {
		return more
	}
	const enough = 4096
	end := shown[max(len(shown)-enough, 0):]
	if at := bytes.LastIndex(text, end); at >= 0 && len(end) == enough {
		return text[at+len(end):]
	}
	return text
}

// lastLines is the end of a text.
func lastLines(text []byte, lines int64) []byte {
	start := len(text)
	for end := len(bytes.TrimSuffix(text, []byte("\n"))); lines > 0 && end >= 0 && len(text) > 0; lines-- {
		newline := bytes.LastIndexByte(text[:end], '\n')
		start, end = newline+1, newline
	}
	return text[start:]
}

// hasEnded reports whether a container will write no more.
func hasEnded(obj metav1.Object, container string) bool {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return true
	}
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return true
	}
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name == container {
			return status.State.Terminated != nil && pod.Spec.RestartPolicy != corev1.RestartPolicyAlways
		}
	}
	return false
}
