// Package pulls brings a container's image to the node before the container is created: it asks
// the runtime, pulls, sends events, and retries failed pulls with a back-off. reference.go and
// backoff.go are pure; this file is the shell. What an image is, the runtime knows.
package pulls

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/fault"
)

// The reasons for which a container waits for its image.
const (
	ReasonPull     = "ErrImagePull"
	ReasonBackOff  = "ImagePullBackOff"
	ReasonInvalid  = "InvalidImageName"
	ReasonInspect  = "ImageInspectError"
	ReasonNeverHad = "ErrImageNeverPull"
)

// Error says why a container's image is not on the node.
type Error struct {
	Reason, Message string
	// After is the time until the next pull; 0 unless it is in back-off.
	After time.Duration
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

// Images is the part of the runtime that a Puller uses.
type Images interface {
	ImageStatus(ctx context.Context, image string) (present bool, err error)
	PullImage(ctx context.Context, image string) (size int64, err error)
}

// Events sends events to users; it never blocks.
type Events interface {
	ContainerEvent(pod *corev1.Pod, container, kind, reason, message string)
}

// Config holds what a Puller uses.
type Config struct {
	Images Images
	Events Events
	Clock  clock.Clock
	Timing Timing
	// Parallel is how many images are pulled at a time; 0 means 1, as upstream.
	Parallel int
	Faults   *fault.Table
}

// Puller brings images to the node. It is safe for concurrent use.
type Puller struct {
	cfg   Config
	lanes chan struct{}

	mu       sync.Mutex
	backoffs map[key]backoff
	// known are the images that are known to be on the node.
	known map[string]bool
}

// key identifies a back-off.
type key struct {
	uid   types.UID
	image string
}

// New returns a puller that has pulled nothing.
func New(cfg Config) *Puller {
	return &Puller{
		cfg: cfg, lanes: make(chan struct{}, max(cfg.Parallel, 1)), backoffs: map[key]backoff{}, known: map[string]bool{},
	}
}

// Ensure returns when the image of a container is on the node, or with an [*Error] that says why it
// is not. It waits as long as the pull takes.
func (p *Puller) Ensure(ctx context.Context, pod *corev1.Pod, spec *corev1.Container) error {
	image, err := withDefaultTag(spec.Image)
	if err != nil {
		return p.refuse(pod, spec, ReasonInvalid, "InspectFailed", fmt.Sprintf("Failed to apply default image tag %q: %v", spec.Image, err))
	}
	present, err := p.isPresent(ctx, pod, spec, image)
	switch {
	case err != nil:
		return p.refuse(pod, spec, ReasonInspect, "InspectFailed", fmt.Sprintf("Failed to inspect image %q: %v", spec.Image, err))
	case mustPull(spec.ImagePullPolicy, present):
		return p.pull(ctx, pod, spec, image)
	case !present:
		return p.refuse(pod, spec, ReasonNeverHad, ReasonNeverHad,
			fmt.Sprintf("Container image %q is not present with pull policy of Never", spec.Image))
	}
	p.cfg.Events.ContainerEvent(pod, spec.Name, corev1.EventTypeNormal, "Pulled",
		fmt.Sprintf("Container image %q already present on machine and can be accessed by the pod", spec.Image))
	return nil
}

// refuse sends an event about an image that is unavailable, and returns the error.
func (p *Puller) refuse(pod *corev1.Pod, spec *corev1.Container, reason, event, message string) error {
	p.cfg.Events.ContainerEvent(pod, spec.Name, corev1.EventTypeWarning, event, message)
	return &Error{Reason: reason, Message: message}
}

// isPresent reports whether the image is on the node. An image that this kubelet has seen stays. An
// image whose pulls have a fault must be pulled first.
func (p *Puller) isPresent(ctx context.Context, pod *corev1.Pod, spec *corev1.Container, image string) (bool, error) {
	if p.isKnown(image) {
		return true, nil
	}
	if p.cfg.Faults.HasMatch(fault.ImagePull, attributesOf(pod, spec)) {
		return false, nil
	}
	present, err := p.cfg.Images.ImageStatus(ctx, image)
	if present && err == nil {
		p.recordPresent(image)
	}
	return present, err
}

func attributesOf(pod *corev1.Pod, spec *corev1.Container) fault.Attributes {
	return fault.Attributes{Namespace: pod.Namespace, Pod: pod.Name, Container: spec.Name, Image: spec.Image}
}

// pull pulls the image, unless a pull failed a short time ago.
func (p *Puller) pull(ctx context.Context, pod *corev1.Pod, spec *corev1.Container, image string) error {
	k := key{pod.UID, image}
	if last := p.backoffOf(k); last.remaining(p.cfg.Clock.Steady()) > 0 {
		message := fmt.Sprintf("Back-off pulling image %q", spec.Image)
		p.cfg.Events.ContainerEvent(pod, spec.Name, corev1.EventTypeNormal, "BackOff", message)
		return &Error{
			Reason: ReasonBackOff, Message: fmt.Sprintf("%s: %s: %s", message, ReasonPull, last.lastErr), After: last.remaining(p.cfg.Clock.Steady()),
		}
	}
	p.cfg.Events.ContainerEvent(pod, spec.Name, corev1.EventTypeNormal, "Pulling", fmt.Sprintf("Pulling image %q", spec.Image))
	asked := p.cfg.Clock.Steady()
	took, size, err := p.pullInTurn(ctx, pod, spec, image)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err() // the kubelet leaves
		}
		p.cfg.Events.ContainerEvent(pod, spec.Name, corev1.EventTypeWarning, "Failed", fmt.Sprintf("Failed to pull image %q: %v", spec.Image, err))
		p.recordFailure(k, err.Error())
		return &Error{Reason: ReasonPull, Message: err.Error()}
	}
	p.recordPresent(image)
	p.cfg.Events.ContainerEvent(pod, spec.Name, corev1.EventTypeNormal, "Pulled", fmt.Sprintf(
		"Successfully pulled image %q in %v (%v including waiting). Image size: %v bytes.",
		spec.Image, took.Truncate(time.Millisecond), p.cfg.Clock.Steady().Sub(asked).Truncate(time.Millisecond), size))
	return nil
}

// pullInTurn pulls when a lane is free, and returns how long the pull took.
func (p *Puller) pullInTurn(ctx context.Context, pod *corev1.Pod, spec *corev1.Container, image string) (took time.Duration, size int64, err error) {
	select {
	case p.lanes <- struct{}{}:
		defer func() { <-p.lanes }()
	case <-ctx.Done():
		return 0, 0, ctx.Err()
	}
	began := p.cfg.Clock.Steady()
	if err := p.cfg.Faults.Inject(ctx, fault.ImagePull, attributesOf(pod, spec)); err != nil {
		if _, injected := errors.AsType[*fault.Injected](err); injected {
			err = fmt.Errorf("rpc error: code = Unknown desc = failed to pull and unpack image %q: %w", image, err)
		}
		return 0, 0, err
	}
	size, err = p.cfg.Images.PullImage(ctx, image)
	return p.cfg.Clock.Steady().Sub(began), size, err
}

// Forget drops the back-offs of a pod.
func (p *Puller) Forget(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for k := range p.backoffs {
		if k.uid == uid {
			delete(p.backoffs, k)
		}
	}
}

func (p *Puller) backoffOf(k key) backoff {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.backoffs[k]
}

func (p *Puller) recordFailure(k key, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.backoffs[k] = p.backoffs[k].next(p.cfg.Clock.Steady(), why, p.cfg.Timing)
}

func (p *Puller) recordPresent(image string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known[image] = true
}

func (p *Puller) isKnown(image string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known[image]
}
