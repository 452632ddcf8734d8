package gateway

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/gateway/podlog"
)

// logOptions are the parameters of a log request.
type logOptions struct {
	container  string
	follow     bool
	previous   bool
	timestamps bool
	tail       *int64
	limit      *int64
	since      *int64
	sinceTime  time.Time
}

// parseLogOptions reads a query (upstream's PodLogOptions). Unreadable values are a 400, invalid
// ones a 422.
func parseLogOptions(query url.Values) (logOptions, error) {
	opts := logOptions{
		container: query.Get("container"), follow: isTrue(query, "follow"),
		previous: isTrue(query, "previous"), timestamps: isTrue(query, "timestamps"),
	}
	for name, into := range map[string]**int64{"tailLines": &opts.tail, "limitBytes": &opts.limit, "sinceSeconds": &opts.since} {
		if text := query.Get(name); text != "" {
			number, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return opts, apierrors.NewBadRequest(fmt.Sprintf("%s: want a whole number: %v", name, err))
			}
			*into = &number
		}
	}
	if text := query.Get("sinceTime"); text != "" {
		var err error
		if opts.sinceTime, err = time.Parse(time.RFC3339Nano, text); err != nil {
			return opts, apierrors.NewBadRequest(fmt.Sprintf("sinceTime: want a time as RFC 3339 writes it: %v", err))
		}
	}
	if wrong := opts.validate(); len(wrong) > 0 {
		return opts, apierrors.NewInvalid(schema.GroupKind{Kind: "PodLogOptions"}, "", wrong)
	}
	return opts, nil
}

// validate is upstream's ValidatePodLogOptions.
func (o logOptions) validate() (errs field.ErrorList) {
	if o.tail != nil && *o.tail < 0 {
		errs = append(errs, field.Invalid(field.NewPath("tailLines"), *o.tail, "must be greater than or equal to 0"))
	}
	if o.limit != nil && *o.limit < 1 {
		errs = append(errs, field.Invalid(field.NewPath("limitBytes"), *o.limit, "must be greater than 0"))
	}
	if o.since != nil && *o.since < 1 {
		errs = append(errs, field.Invalid(field.NewPath("sinceSeconds"), *o.since, "must be greater than 0"))
	}
	if o.since != nil && !o.sinceTime.IsZero() {
		errs = append(errs, field.Forbidden(field.NewPath(""), "at most one of `sinceTime` or `sinceSeconds` may be specified"))
	}
	return errs
}

// serveLog serves a container's log.
func (c *call) serveLog() error {
	if c.r.Method != http.MethodGet {
		return notAllowed()
	}
	opts, err := parseLogOptions(c.query)
	if err != nil {
		return err
	}
	pod, err := c.getPod(c.r.Context())
	if err != nil {
		return err
	}
	if opts.container, err = selectContainer(pod, opts.container); err != nil {
		return err
	}
	if pod.Spec.NodeName == "" {
		c.w.WriteHeader(http.StatusNoContent) // as upstream does for a pod that is nowhere
		return nil
	}
	if opts.since != nil {
		opts.sinceTime = secondsBefore(c.cfg.Clock.Now(), *opts.since)
	}
	t := &logReader{call: c, pod: pod, opts: opts, bytesLeft: -1}
	if opts.limit != nil {
		t.bytesLeft = *opts.limit
	}
	t.reader = podlog.NewReader(t.askKubelet, proto.LogsRequest{
		Namespace: pod.Namespace, Pod: pod.Name, UID: pod.UID, Container: opts.container,
		Previous: opts.previous, SinceTime: opts.sinceTime, TailLines: opts.tail,
	})
	return t.run(c.r.Context())
}

// secondsBefore is so many seconds before now, at most the longest duration.
func secondsBefore(now time.Time, seconds int64) time.Time {
	return now.Add(-time.Duration(min(seconds, math.MaxInt64/int64(time.Second))) * time.Second)
}

func (c *call) getPod(ctx context.Context) (*corev1.Pod, error) {
	target := c.target()
	target.Subresource = ""
	obj, err := c.api.Get(ctx, target, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return nil, apierrors.NewInternalError(fmt.Errorf("%s is a %T", target, obj))
	}
	return pod, nil
}

// selectContainer returns the container asked for, or the only one.
func selectContainer(pod *corev1.Pod, name string) (string, error) {
	var regular, initial []string
	for _, container := range pod.Spec.Containers {
		regular = append(regular, container.Name)
	}
	for _, container := range pod.Spec.InitContainers {
		initial = append(initial, container.Name)
	}
	ephemeral := slices.ContainsFunc(pod.Spec.EphemeralContainers, func(e corev1.EphemeralContainer) bool { return e.Name == name })
	switch {
	case name != "" && (ephemeral || slices.Contains(regular, name) || slices.Contains(initial, name)):
		return name, nil
	case name != "":
		return "", apierrors.NewBadRequest(fmt.Sprintf("container %s is not valid for pod %s", name, pod.Name))
	case len(regular) == 1 && len(initial) == 0:
		return regular[0], nil
	case len(initial) > 0:
		return "", apierrors.NewBadRequest(fmt.Sprintf(
			"a container name must be specified for pod %s, choose one of: %v or one of the init containers: %v", pod.Name, regular, initial))
	}
	return "", apierrors.NewBadRequest(fmt.Sprintf(
		"a container name must be specified for pod %s, choose one of: %v", pod.Name, regular))
}

// logReader sends one log to a client.
type logReader struct {
	*call
	pod    *corev1.Pod
	opts   logOptions
	reader *podlog.Reader
	// bytesLeft is how many bytes may still be sent; negative for no limit.
	bytesLeft  int64
	headerSent bool
	// terminating is whether the pod is being deleted, and its log with it.
	terminating bool
}

// Kubelets keep no streams of logs: the gateway polls a followed log, and at once when the pod changes.
const (
	// followInterval is the time between two requests, in cluster time and at most as long in
	// wall-clock time: a program writes on while the cluster's clock is slow or paused.
	followInterval = time.Second
	// followTerminatingInterval is the same for a terminating pod, in wall-clock time: its last
	// lines are deleted with it.
	followTerminatingInterval = 100 * time.Millisecond
)

// run sends the log, and if it is followed the lines that are added until the container has ended.
func (t *logReader) run(ctx context.Context) error {
	var changes *watchReader
	if t.opts.follow {
		target := t.target()
		byName := withName("", target.Name)
		target.Name, target.Subresource = "", ""
		var err error
		if changes, err = t.streams.join(ctx, target, metav1.ListOptions{FieldSelector: byName}); err != nil {
			return err
		}
		defer changes.close()
	}
	for {
		ended := !t.opts.follow || t.hasEnded(ctx)
		lines, err := t.reader.Next(ctx, ended)
		if err != nil {
			if t.headerSent {
				return nil // the log went with the container, or with its node
			}
			return err
		}
		if !t.writeLines(lines) || ended || !t.waitForMore(ctx, changes) {
			return nil
		}
	}
}

// waitForMore returns when it is time to ask again; false if the client has left or the gateway
// ends.
func (t *logReader) waitForMore(ctx context.Context, changes *watchReader) bool {
	every := t.cfg.Clock.ClampWallDuration(0, followInterval)
	if t.terminating {
		every = min(every, followTerminatingInterval)
	}
	again := clock.Clock{}.Timer(every)
	defer again.Stop()
	news := changes.ready()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-t.ending:
			return false
		case <-again.C:
			return true
		case <-news:
			change := changes.next()
			if change != nil && change.Type != watch.Bookmark {
				return true
			}
			if news = changes.ready(); change == nil {
				news = nil // the watch is over; there is still the time
			}
		}
	}
}

// hasEnded reports whether the container will write no more.
func (t *logReader) hasEnded(ctx context.Context) bool {
	pod, err := t.getPod(ctx)
	if err != nil {
		return apierrors.IsNotFound(err) || ctx.Err() != nil
	}
	t.terminating = pod.DeletionTimestamp != nil
	return podlog.HasEnded(pod, t.pod.UID, t.opts.container)
}

// askKubelet requests lines of the log from the kubelet.
func (t *logReader) askKubelet(ctx context.Context, request []byte) ([]byte, error) {
	node := t.pod.Spec.NodeName
	ctx, cancel := clock.Clock{}.Timeout(ctx, nodeTimeout)
	defer cancel()
	answer, err := t.cfg.Bus.Request(ctx, proto.Node(node), proto.NodeSubject(node, "logs"), request)
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("logs of pod %s: node %s does not answer: %w", t.pod.Name, node, err))
	}
	return answer, nil
}

// writeLines sends lines to the client; false if the client has left or the limit is reached.
func (t *logReader) writeLines(lines []podlog.Line) bool {
	if !t.headerSent {
		t.headerSent = true
		t.w.Header().Set("Content-Type", "text/plain")
		t.w.WriteHeader(http.StatusOK)
	}
	for _, line := range lines {
		text := line.Format(t.opts.timestamps)
		if t.bytesLeft >= 0 {
			text = text[:min(int64(len(text)), t.bytesLeft)]
			t.bytesLeft -= int64(len(text))
		}
		if _, err := t.w.Write(text); err != nil || t.bytesLeft == 0 {
			return false
		}
	}
	return http.NewResponseController(t.w).Flush() == nil
}
