package stories

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/e2e/stage"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/kubelet"
)

// player runs the commands of one story on one cluster.
type player struct {
	t       *testing.T
	cluster *stage.Cluster
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
	zero    time.Time // of the first DELETE
	watches map[string]*watcher
}

// watcher is a watch that a story has opened, and the revision it has seen last.
type watcher struct {
	options metav1.ListOptions
	stream  watch.Interface
}

// runCommand runs one command and returns what happened, a line each.
func (p *player) runCommand(command string) string {
	p.t.Helper()
	line, body, _ := strings.Cut(command, "\n")
	name, args := parseCommand(p.t, line)
	args.body = body
	handle, known := map[string]func(arguments) string{
		"cluster": p.startCluster, "pod": p.createPod, "delete": p.deletePod, "wait": p.wait, "stop": p.stop, "start": p.start,
		"cut": p.cut, "heal": p.heal, "patch": p.patch, "churn": p.churn, "watch": p.openWatch, "read": p.readWatch, "leave": p.closeWatch,
		"containers": p.printContainers, "create": p.create, "show": p.printPod, "node": p.printNode,
		"break": p.addFault, "mend": p.clearFault, "manifest": p.writeManifest,
	}[name]
	if !known {
		p.t.Fatalf("no command %q", name)
	}
	answer := handle(args)
	return answer + p.takeSteps()
}

// takeSteps prints the steps since the last command.
func (p *player) takeSteps() string {
	p.cluster.WaitIdle()
	var b strings.Builder
	for _, step := range p.cluster.Trace().Take() {
		at := "before"
		if !p.zero.IsZero() && !step.At.Before(p.zero) {
			at = formatSeconds(step.At.Sub(p.zero))
		}
		fmt.Fprintf(&b, "%-9s %-16s %s\n", at, step.Actor, maskIDs(step.Text))
	}
	return b.String()
}

// maskIDs hides random values: UIDs and container ids.
func maskIDs(text string) string {
	text = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`).ReplaceAllString(text, "UID")
	return regexp.MustCompile(`[0-9a-f]{64}`).ReplaceAllString(text, "ID")
}

// startCluster runs "cluster [nodes=N] [compat=R] [timing=fastest] [history=N] [controllers=A,B]".
func (p *player) startCluster(args arguments) string {
	config := stage.Config{Nodes: args.number("nodes", 1), Compat: args.named["compat"], History: args.number("history", 0)}
	if names := args.named["controllers"]; names != "" {
		config.Controllers = strings.Split(names, ",")
	}
	if args.named["timing"] == "fastest" {
		fastest := kubelet.Fastest()
		config.Timing = &fastest
	}
	p.cluster = stage.New(p.t, config)
	p.ctx, p.cancel = context.WithCancel(p.t.Context())
	p.watches = map[string]*watcher{}
	p.cluster.Trace().WatchPods(p.ctx, p.cluster.API(), &p.running)
	return ""
}

// close closes what the story has opened. The cluster ends with the test.
func (p *player) close() {
	if p.cancel == nil {
		return
	}
	for _, w := range p.watches {
		w.stream.Stop()
	}
	p.cancel()
	p.running.Wait()
}

// createPod runs "pod NAME [script="…"] [grace=N] [finalizer=F] [node=N] [restart=P] [cpu=Q]".
func (p *player) createPod(args arguments) string {
	grace := int64(args.number("grace", 30))
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: args.name},
		Spec: corev1.PodSpec{
			Containers:                    []corev1.Container{{Name: "main", Image: "registry.k8s.io/pause:3.10"}},
			TerminationGracePeriodSeconds: &grace, NodeName: args.named["node"],
			RestartPolicy: corev1.RestartPolicy(args.named["restart"]),
		},
	}
	if script := args.named["script"]; script != "" {
		pod.Annotations = map[string]string{"script.podfall.io/main": script}
	}
	if finalizer := args.named["finalizer"]; finalizer != "" {
		pod.Finalizers = []string{finalizer}
	}
	if selector := args.named["nowhere"]; selector != "" {
		pod.Spec.NodeSelector = map[string]string{"podfall.io/nowhere": selector}
	}
	_, err := p.cluster.API().Create(p.ctx, p.target(args.name), pod, metav1.CreateOptions{})
	return p.formatError(err)
}

// deletePod runs "delete NAME [grace=N] [uid=X]".
func (p *player) deletePod(args arguments) string {
	var options metav1.DeleteOptions
	if _, asked := args.named["grace"]; asked {
		grace := int64(args.number("grace", 0))
		options.GracePeriodSeconds = &grace
	}
	if uid, asked := args.named["uid"]; asked {
		options.Preconditions = metav1.NewUIDPreconditions(uid)
	}
	if p.zero.IsZero() {
		p.zero = time.Now()
	}
	_, err := p.cluster.API().Delete(p.ctx, p.target(args.name), options)
	return p.formatError(err)
}

// wait runs "wait 5s" or "wait NAME running|ended|gone".
func (p *player) wait(args arguments) string {
	if d, err := time.ParseDuration(args.name); err == nil {
		time.Sleep(d)
		return ""
	}
	for limit := time.Now().Add(15 * time.Minute); time.Now().Before(limit); time.Sleep(50 * time.Millisecond) {
		if p.isPodInState(args.name, args.word) {
			stage.Align(time.Second / 2) // between the kubelets' ticks
			return ""
		}
	}
	return fmt.Sprintf("15 minutes later, %s is not %s\n", args.name, args.word)
}

func (p *player) isPodInState(name, state string) bool {
	obj, err := p.cluster.API().Get(p.ctx, p.target(name), metav1.GetOptions{})
	if state == "gone" {
		return apierrors.IsNotFound(err)
	}
	pod, ok := obj.(*corev1.Pod)
	if err != nil || !ok {
		return false
	}
	switch state {
	case "running":
		return len(pod.Status.ContainerStatuses) > 0 && pod.Status.ContainerStatuses[0].Ready
	case "ended":
		return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	}
	p.t.Fatalf("no state %q", state)
	return false
}

// stop runs "stop kubelet/node-1": it ends a process like kill -9. "start" restarts the process.
func (p *player) stop(args arguments) string {
	p.cluster.Stop(args.name)
	return ""
}

func (p *player) start(args arguments) string {
	p.cluster.Start(args.name)
	return ""
}

// cut runs "cut": it cuts a node's link to the bus. "heal" ends the cut.
func (p *player) cut(args arguments) string {
	p.cluster.Cut(args.name)
	return ""
}

func (p *player) heal(args arguments) string {
	p.cluster.Heal(args.name)
	return ""
}

// patch runs "patch NAME finalizers=none | phase=Succeeded".
func (p *player) patch(args arguments) string {
	target, patch := p.target(args.name), ""
	switch {
	case args.named["finalizers"] == "none":
		patch = `{"metadata":{"finalizers":null}}`
	case args.named["phase"] != "":
		target.Subresource = "status"
		patch = fmt.Sprintf(`{"status":{"phase":%q}}`, args.named["phase"])
	default:
		p.t.Fatal("patch what?")
	}
	_, err := p.cluster.API().Patch(p.ctx, target, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return p.formatError(err)
}

// churn makes N writes that no pod watcher sees, so that the store's history moves on.
func (p *player) churn(args arguments) string {
	kind, _ := kinds.ByResource("configmaps")
	target := podapi.Target{Kind: kind, Namespace: "default"}
	count, err := strconv.Atoi(args.name)
	if err != nil {
		p.t.Fatal(err)
	}
	for i := range count {
		target.Name = "churn-" + strconv.Itoa(i)
		_, err := p.cluster.API().Create(p.ctx, target, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: target.Name},
		}, metav1.CreateOptions{})
		if err != nil {
			p.t.Fatal(err)
		}
	}
	return ""
}

// openWatch runs "watch AS [fields=SELECTOR] [from=AS2]". With from, it begins where the watch of
// that name ended.
func (p *player) openWatch(args arguments) string {
	w := p.watches[args.name]
	if w == nil {
		w = &watcher{options: metav1.ListOptions{FieldSelector: args.named["fields"]}}
		list, err := p.cluster.API().List(p.ctx, p.target(""), w.options)
		if err != nil {
			return p.formatError(err)
		}
		w.options.ResourceVersion = list.ResourceVersion
		p.watches[args.name] = w
	}
	stream, err := p.cluster.API().Watch(p.ctx, p.target(""), w.options)
	w.stream = stream
	return p.formatError(err)
}

// readWatch runs "read AS [count]": it prints up to count received events.
func (p *player) readWatch(args arguments) string {
	w, most := p.watches[args.name], 1000
	if args.word != "" {
		most, _ = strconv.Atoi(args.word)
	}
	text := ""
	for range most {
		p.cluster.WaitIdle()
		select {
		case event, open := <-w.stream.ResultChan():
			if !open {
				return text + args.name + " ended\n"
			}
			if status, failed := event.Object.(*metav1.Status); failed {
				text += fmt.Sprintf("%s: ERROR %d %s\n", args.name, status.Code, status.Reason)
				continue
			}
			pod, _ := event.Object.(*corev1.Pod)
			w.options.ResourceVersion = pod.ResourceVersion
			text += fmt.Sprintf("%s: %s %s %s\n", args.name, event.Type, pod.Name, stage.Summary(pod))
		default:
			return text
		}
	}
	return text
}

// closeWatch closes a watch and keeps its last revision.
func (p *player) closeWatch(args arguments) string {
	p.watches[args.name].stream.Stop()
	return ""
}

// printContainers runs "containers node-1": it prints the containers of a node's runtime.
func (p *player) printContainers(args arguments) string {
	return p.cluster.Containers(args.name)
}

func (p *player) target(name string) podapi.Target {
	kind, _ := kinds.ByResource("pods")
	return podapi.Target{Kind: kind, Namespace: "default", Name: name}
}

// formatError prints a refusal. Success shows in the trace.
func (p *player) formatError(err error) string {
	if err == nil {
		return ""
	}
	return fmt.Sprintf("refused: %s %s\n", apierrors.ReasonForError(err), maskIDs(err.Error()))
}

// arguments are a command's: a name, perhaps a word, and named values.
type arguments struct {
	t          *testing.T
	name, word string
	named      map[string]string
	body       string // the lines after the first
}

// parseCommand parses a command line; values with spaces are in double quotes.
func parseCommand(t *testing.T, line string) (string, arguments) {
	t.Helper()
	args := arguments{t: t, named: map[string]string{}}
	var words []string
	for rest := line; rest != ""; {
		word, after, _ := strings.Cut(rest, " ")
		if key, value, quoted := strings.Cut(rest, `="`); quoted && !strings.ContainsAny(key, " ") {
			value, after, _ = strings.Cut(value, `"`)
			word, after = key+"="+value, strings.TrimPrefix(after, " ")
		}
		words, rest = append(words, word), after
	}
	for _, word := range words[1:] {
		switch key, value, named := strings.Cut(word, "="); {
		case named:
			args.named[key] = value
		case args.name == "":
			args.name = word
		default:
			args.word = word
		}
	}
	return words[0], args
}

func (a arguments) number(key string, otherwise int) int {
	a.t.Helper()
	text, given := a.named[key]
	if !given {
		return otherwise
	}
	value, err := strconv.Atoi(text)
	if err != nil {
		a.t.Fatalf("%s=%s: %v", key, text, err)
	}
	return value
}
