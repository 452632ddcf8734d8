package kubelet

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
)

// trace is what happened in a test, by who did it, in the order in which each did it.
type trace struct {
	mu    sync.Mutex
	begun time.Time
	lines map[string][]string
}

// begin starts the story: what came before is dropped, and times count from now.
func (t *trace) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.begun, t.lines = time.Now(), map[string][]string{}
}

func (t *trace) add(who, format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lines != nil {
		t.lines[who] = append(t.lines[who], fmt.Sprintf("  %6s  ", "+"+time.Since(t.begun).String())+fmt.Sprintf(format, args...))
	}
}

func (t *trace) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var b strings.Builder
	for _, who := range []string{"watch", "kubelet", "runtime", "events"} {
		fmt.Fprintf(&b, "%s\n", who)
		for _, line := range t.lines[who] {
			b.WriteString(strings.TrimRight(line, " ") + "\n")
		}
	}
	return b.String()
}

// fakeAPI is an apiserver as far as a kubelet notices: objects with revisions, a pod's
// marks and removals, and one follower.
type fakeAPI struct {
	trace *trace

	mu       sync.Mutex
	revision int64
	objects  map[string]kinds.Object
	events   []watch.Event
	changed  chan struct{}
	cut      bool // the kubelet's link
	relist   bool // a healed follower has to list again
	refuse   func(verb, key string) error
}

func newFakeAPI(t *trace) *fakeAPI {
	return &fakeAPI{trace: t, objects: map[string]kinds.Object{}, changed: make(chan struct{})}
}

func keyFor(t podapi.Target, name string) string {
	return t.Kind.Resource + "/" + t.Namespace + "/" + cmp.Or(t.Name, name)
}

func (a *fakeAPI) gate(verb, key string) error {
	if a.cut {
		return apierrors.NewServiceUnavailable("the link is cut")
	}
	if a.refuse != nil {
		return a.refuse(verb, key)
	}
	return nil
}

// put stores obj under a new revision and tells the follower.
func (a *fakeAPI) put(kind watch.EventType, key string, obj kinds.Object) {
	a.revision++
	obj.SetResourceVersion(strconv.FormatInt(a.revision, 10))
	a.objects[key] = obj
	if kind == watch.Deleted {
		delete(a.objects, key)
	}
	if pod, ok := obj.(*corev1.Pod); ok {
		a.events = append(a.events, watch.Event{Type: kind, Object: pod.DeepCopy()})
		a.trace.add("watch", "%s %s", string(kind)[:1], describe(pod))
		close(a.changed)
		a.changed = make(chan struct{})
	}
}

// describe is a pod's line in a trace.
func describe(pod *corev1.Pod) string {
	text := pod.Name
	if pod.DeletionTimestamp != nil {
		text += fmt.Sprintf(" dgps=%d", *pod.DeletionGracePeriodSeconds)
	}
	text += fmt.Sprintf(" gen=%d/%d %s", pod.Generation, pod.Status.ObservedGeneration, cmp.Or(pod.Status.Phase, "-"))
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			text += " ready=" + string(c.Status)
			if c.Reason != "" {
				text += ":" + c.Reason
			}
		}
	}
	for _, c := range pod.Status.ContainerStatuses {
		text += " " + c.Name + "="
		switch {
		case c.State.Running != nil:
			text += "running"
		case c.State.Terminated != nil:
			text += fmt.Sprintf("%s:%d", c.State.Terminated.Reason, c.State.Terminated.ExitCode)
		case c.State.Waiting != nil:
			text += c.State.Waiting.Reason
		}
	}
	if pod.Status.Reason != "" {
		text += " reason=" + pod.Status.Reason
	}
	return text
}

func (a *fakeAPI) Create(_ context.Context, t podapi.Target, obj kinds.Object, _ metav1.CreateOptions) (kinds.Object, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	key := keyFor(t, obj.GetName())
	if err := a.gate("create", key); err != nil {
		return nil, err
	}
	if a.objects[key] != nil {
		return nil, apierrors.NewAlreadyExists(t.Kind.GroupResource(), obj.GetName())
	}
	if event, ok := obj.(*corev1.Event); ok {
		a.trace.add("events", "%s %s: %s", event.Type, event.Reason, event.Message)
	}
	obj = obj.DeepCopyObject().(kinds.Object)
	if obj.GetUID() == "" {
		obj.SetUID(types.UID("uid-" + obj.GetName()))
	}
	a.put(watch.Added, key, obj)
	return obj.DeepCopyObject().(kinds.Object), nil
}

func (a *fakeAPI) Get(_ context.Context, t podapi.Target, _ metav1.GetOptions) (kinds.Object, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	key := keyFor(t, "")
	if t.Kind.Resource == "pods" {
		a.trace.add("kubelet", "get %s", t.Name)
	}
	if err := a.gate("get", key); err != nil {
		return nil, err
	}
	obj := a.objects[key]
	if obj == nil {
		return nil, apierrors.NewNotFound(t.Kind.GroupResource(), t.Name)
	}
	return obj.DeepCopyObject().(kinds.Object), nil
}

func (a *fakeAPI) Update(_ context.Context, t podapi.Target, obj kinds.Object, _ metav1.UpdateOptions) (kinds.Object, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	key := keyFor(t, "")
	pod, isPod := obj.(*corev1.Pod)
	if isPod {
		a.trace.add("kubelet", "update %s/%s %s", t.Name, t.Subresource, cmp.Or(pod.Status.Phase, "-"))
	}
	if err := a.gate("update", key); err != nil {
		return nil, err
	}
	live := a.objects[key]
	if live == nil {
		return nil, apierrors.NewNotFound(t.Kind.GroupResource(), t.Name)
	}
	if live.GetResourceVersion() != obj.GetResourceVersion() || live.GetUID() != obj.GetUID() {
		return nil, apierrors.NewConflict(t.Kind.GroupResource(), t.Name, fmt.Errorf("have %s", live.GetResourceVersion()))
	}
	stored := obj.DeepCopyObject().(kinds.Object)
	if isPod { // only /status is updated
		next := live.(*corev1.Pod).DeepCopy()
		next.Status = *pod.Status.DeepCopy()
		stored = next
	}
	a.put(watch.Modified, key, stored)
	return stored.DeepCopyObject().(kinds.Object), nil
}

func (a *fakeAPI) Patch(_ context.Context, t podapi.Target, _ types.PatchType, patch []byte, _ metav1.PatchOptions) (kinds.Object, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	obj := a.objects[keyFor(t, "")]
	if obj == nil {
		return nil, apierrors.NewNotFound(t.Kind.GroupResource(), t.Name)
	}
	if event, ok := obj.(*corev1.Event); ok {
		count, _, _ := strings.Cut(strings.TrimPrefix(string(patch), `{"count":`), ",")
		a.trace.add("events", "%s %s: %s (x%s)", event.Type, event.Reason, event.Message, count)
	}
	return obj, nil
}

func (a *fakeAPI) Delete(_ context.Context, t podapi.Target, opts metav1.DeleteOptions) (kruntime.Object, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.trace.add("kubelet", "delete %s grace=%d uid=%s", t.Name, *opts.GracePeriodSeconds, *opts.Preconditions.UID)
	if err := a.gate("delete", keyFor(t, "")); err != nil {
		return nil, err
	}
	return a.delete(t, opts)
}

// delete is rounds 1 and 3 as a user or a kubelet asks for them. The caller holds the
// lock.
func (a *fakeAPI) delete(t podapi.Target, opts metav1.DeleteOptions) (kruntime.Object, error) {
	key := keyFor(t, "")
	live, ok := a.objects[key].(*corev1.Pod)
	if !ok {
		return nil, apierrors.NewNotFound(t.Kind.GroupResource(), t.Name)
	}
	if opts.Preconditions != nil && *opts.Preconditions.UID != live.UID {
		return nil, apierrors.NewConflict(t.Kind.GroupResource(), t.Name, fmt.Errorf("UID in precondition: %s", *opts.Preconditions.UID))
	}
	pod := live.DeepCopy()
	grace := *pod.Spec.TerminationGracePeriodSeconds
	if opts.GracePeriodSeconds != nil {
		grace = *opts.GracePeriodSeconds
	}
	if terminal(pod) {
		grace = 0
	}
	if pod.DeletionTimestamp == nil || grace < *pod.DeletionGracePeriodSeconds {
		if pod.DeletionTimestamp == nil {
			pod.Generation++
		}
		pod.DeletionTimestamp = &metav1.Time{Time: time.Now().Add(time.Duration(grace) * time.Second)}
		pod.DeletionGracePeriodSeconds = &grace
		a.put(watch.Modified, key, pod)
	}
	if grace == 0 && len(pod.Finalizers) == 0 {
		a.put(watch.Deleted, key, pod.DeepCopy())
	}
	return pod, nil
}

func (a *fakeAPI) Follow(ctx context.Context, _ podapi.Target, _ metav1.ListOptions, sink podapi.Sink) error {
	next := -1 // of events; -1 before a list
	for {
		a.mu.Lock()
		changed := a.changed
		switch {
		case a.cut:
		case next < 0 || a.relist:
			var items []kinds.Object
			for _, key := range slices.Sorted(maps.Keys(a.objects)) {
				if pod, ok := a.objects[key].(*corev1.Pod); ok {
					items = append(items, pod.DeepCopy())
				}
			}
			sink.Replace(items, "")
			next, a.relist = len(a.events), false
		default:
			for ; next < len(a.events); next++ {
				sink.Apply(a.events[next])
			}
		}
		a.mu.Unlock()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

// fakeRuntime runs containers by script. It outlives kubelets.
type fakeRuntime struct {
	trace *trace

	mu         sync.Mutex
	purges     bool // trace removals too
	down       bool
	lies       bool  // StopContainer says OK and does nothing
	sandboxErr error // of StopPodSandbox
	sandboxes  []*proto.Sandbox
	containers []*fakeContainer
	next       int
}

type fakeContainer struct {
	*proto.Container
	script   string
	signaled time.Time
}

var errDown = &proto.RuntimeError{Code: proto.CodeUnavailable, Desc: "connection refused"}

// live brings a container's state up to now by its script. The caller holds the lock.
func (c *fakeContainer) live() *proto.Container {
	if c.State == proto.ContainerState_CONTAINER_STATE_RUNNING {
		if at, code, ok := c.exit(); ok && !time.Now().Before(at) {
			c.end(at, code)
		}
	}
	return protoCopy(c.Container)
}

func (c *fakeContainer) exit() (at time.Time, code int32, ok bool) {
	var d time.Duration
	var n int32
	if f := strings.Fields(c.script); len(f) == 6 && f[1] == "TERM" { // on TERM exits N after D
		d, _ = time.ParseDuration(f[5])
		fmt.Sscan(f[3], &n)
		return c.signaled.Add(d), n, !c.signaled.IsZero()
	} else if len(f) == 4 && f[0] == "exits" { // exits N after D
		d, _ = time.ParseDuration(f[3])
		fmt.Sscan(f[1], &n)
		return time.Unix(0, c.StartedAtUnixNano).Add(d), n, true
	}
	return time.Time{}, 0, false
}

func (c *fakeContainer) end(at time.Time, code int32) {
	c.State, c.FinishedAtUnixNano, c.ExitCode = proto.ContainerState_CONTAINER_STATE_EXITED, at.UnixNano(), code
	c.Reason = "Completed"
	if code != 0 {
		c.Reason = "Error"
	}
}

func protoCopy(c *proto.Container) *proto.Container {
	return &proto.Container{
		Id: c.Id, SandboxId: c.SandboxId, Name: c.Name, Attempt: c.Attempt, Image: c.Image, State: c.State,
		CreatedAtUnixNano: c.CreatedAtUnixNano, StartedAtUnixNano: c.StartedAtUnixNano, FinishedAtUnixNano: c.FinishedAtUnixNano,
		ExitCode: c.ExitCode, Reason: c.Reason, Message: c.Message, Labels: c.Labels, Annotations: c.Annotations,
	}
}

func (r *fakeRuntime) RunPodSandbox(_ context.Context, req *proto.RunPodSandboxRequest) (*proto.Sandbox, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.trace.add("runtime", "RunPodSandbox %s attempt=%d", req.PodName, req.Attempt)
	r.next++
	s := &proto.Sandbox{
		Id: fmt.Sprintf("s%d", r.next), PodName: req.PodName, PodNamespace: req.PodNamespace, PodUid: req.PodUid,
		Attempt: req.Attempt, CreatedAtUnixNano: time.Now().UnixNano(), Ip: fmt.Sprintf("10.0.0.%d", r.next), Labels: req.Labels,
	}
	r.sandboxes = append(r.sandboxes, s)
	return sandboxCopy(s), nil
}

func sandboxCopy(s *proto.Sandbox) *proto.Sandbox {
	return &proto.Sandbox{
		Id: s.Id, PodName: s.PodName, PodNamespace: s.PodNamespace, PodUid: s.PodUid, Attempt: s.Attempt,
		State: s.State, CreatedAtUnixNano: s.CreatedAtUnixNano, Ip: s.Ip, Labels: s.Labels,
	}
}

func (r *fakeRuntime) StopPodSandbox(_ context.Context, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.trace.add("runtime", "StopPodSandbox")
	if r.sandboxErr != nil {
		return r.sandboxErr
	}
	for _, s := range r.sandboxes {
		if s.Id == id {
			s.State = proto.SandboxState_SANDBOX_STATE_NOTREADY
		}
	}
	return nil
}

func (r *fakeRuntime) RemovePodSandbox(_ context.Context, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.purges {
		r.trace.add("runtime", "RemovePodSandbox")
	}
	r.sandboxes = slices.DeleteFunc(r.sandboxes, func(s *proto.Sandbox) bool { return s.Id == id })
	return nil
}

func (r *fakeRuntime) PodSandboxStatus(context.Context, string) (*proto.Sandbox, error) {
	return nil, nil
}

func (r *fakeRuntime) ListPodSandbox(_ context.Context, uid string) ([]*proto.Sandbox, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.down {
		return nil, errDown
	}
	var all []*proto.Sandbox
	for _, s := range r.sandboxes {
		if uid == "" || s.PodUid == uid {
			all = append(all, sandboxCopy(s))
		}
	}
	return all, nil
}

func (r *fakeRuntime) CreateContainer(_ context.Context, req *proto.CreateContainerRequest) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.trace.add("runtime", "CreateContainer %s attempt=%d", req.Name, req.Attempt)
	r.next++
	c := &fakeContainer{script: req.Script, Container: &proto.Container{
		Id: fmt.Sprintf("c%d", r.next), SandboxId: req.SandboxId, Name: req.Name, Attempt: req.Attempt, Image: req.Image,
		CreatedAtUnixNano: time.Now().UnixNano(), Labels: req.Labels,
	}}
	r.containers = append(r.containers, c)
	return c.Id, nil
}

func (r *fakeRuntime) find(id string) *fakeContainer {
	for _, c := range r.containers {
		if c.Id == id {
			return c
		}
	}
	return nil
}

func (r *fakeRuntime) StartContainer(_ context.Context, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.find(id)
	r.trace.add("runtime", "StartContainer %s", c.Name)
	c.State, c.StartedAtUnixNano = proto.ContainerState_CONTAINER_STATE_RUNNING, time.Now().UnixNano()
	return nil
}

func (r *fakeRuntime) StopContainer(ctx context.Context, id string, timeout int64) error {
	r.mu.Lock()
	if r.down {
		r.mu.Unlock()
		return errDown
	}
	c := r.find(id)
	if c == nil {
		r.mu.Unlock()
		return nil
	}
	r.trace.add("runtime", "StopContainer %s timeout=%d", c.Name, timeout)
	if c.live(); c.State != proto.ContainerState_CONTAINER_STATE_RUNNING || r.lies {
		r.mu.Unlock()
		return nil
	}
	if c.signaled.IsZero() { // only once over all calls (CRI-07)
		c.signaled = time.Now()
		r.trace.add("runtime", "  TERM %s", c.Name)
	}
	until := time.Now().Add(time.Duration(timeout) * time.Second)
	if at, _, ok := c.exit(); ok && at.Before(until) {
		until = at
	}
	r.mu.Unlock()
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.live(); c.State == proto.ContainerState_CONTAINER_STATE_RUNNING {
		c.end(time.Now(), 137)
		r.trace.add("runtime", "  KILL %s", c.Name)
	}
	return nil
}

func (r *fakeRuntime) RemoveContainer(_ context.Context, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.purges {
		r.trace.add("runtime", "RemoveContainer")
	}
	r.containers = slices.DeleteFunc(r.containers, func(c *fakeContainer) bool { return c.Id == id })
	return nil
}

func (r *fakeRuntime) ContainerStatus(context.Context, string) (*proto.Container, error) {
	return nil, nil
}

func (r *fakeRuntime) ListContainers(_ context.Context, uid string) ([]*proto.Container, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.down {
		return nil, errDown
	}
	var all []*proto.Container
	for _, c := range r.containers {
		if uid == "" || c.Labels["io.kubernetes.pod.uid"] == uid {
			all = append(all, c.live())
		}
	}
	return all, nil
}

func (r *fakeRuntime) ExecSync(context.Context, *proto.ExecSyncRequest) (*proto.ExecSyncResponse, error) {
	return nil, nil
}

func (r *fakeRuntime) ContainerLogs(context.Context, *proto.ContainerLogsRequest) ([]byte, error) {
	return []byte("hello\n"), nil
}
