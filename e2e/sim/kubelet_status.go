package sim

import (
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/kubelet"
	"github.com/podfall/podfall/services/kubelet/node"
	"github.com/podfall/podfall/services/kubelet/volumes"
)

// do asks the apiserver.
func (k *kubeletProcess) do(now time.Time, ask Ask, out Out, then Then) {
	uid := ""
	if ask.Object != nil {
		uid = string(ask.Object.GetUID())
	}
	if opts, is := ask.Options.(*metav1.DeleteOptions); is && opts.Preconditions != nil && opts.Preconditions.UID != nil {
		uid = string(*opts.Preconditions.UID)
	}
	answered := k.api.contacts.Asks(ask.Verb, ask.Target, uid)
	err := k.api.client.Do(now, out, ask, func(now time.Time, got Got, out Out) {
		answered(got.Err)
		then(now, got, out)
	})
	if err != nil {
		panic("sim: " + err.Error()) // a mistake in the simulator
	}
}

// speaker speaks for the node: what it knows of its object and its lease.
type speaker struct {
	node.Config

	object   *corev1.Node
	lease    *coordinationv1.Lease
	reported time.Time
	// fine is the version of the object that says of a node without problems what there is to
	// say.
	fine string
	// devices are the volumes that it uses.
	devices *volumes.Devices
	// reporting is how many reports of its status have not been answered.
	reporting int
	// asked numbers what is said about each; an answer to an earlier one is of no interest.
	askedNode, askedLease uint64
}

// nodeHealth is how the node is, for package node.
type nodeHealth struct{ problems []string }

func (h nodeHealth) Problems() []string                  { return h.problems }
func (nodeHealth) Pressures() []corev1.NodeConditionType { return nil }

// speak registers the node, and then speaks for it.
func (k *kubeletProcess) speak(now time.Time, out Out) {
	s := &k.speaker
	s.Config = node.Config{
		Name: k.of.node, Boot: k.begun.boot, Capacity: kubelet.DefaultCapacity(), Volumes: s.devices, Timing: k.of.timing.Node,
		Labels: map[string]string{corev1.LabelHostname: k.of.node},
	}
	k.after(now.Add(firstRelist), out, k.register)
}

func (k *kubeletProcess) nodeTarget(subresource string) podapi.Target {
	return podapi.Target{Kind: k.of.kinds.nodes, Name: k.of.node, Subresource: subresource}
}

// current is the configuration with the node's present health.
func (k *kubeletProcess) current(now time.Time) node.Config {
	cfg := k.speaker.Config
	cfg.Health = nodeHealth{k.runtime.views.Problems(now, k.of.timing.Relist)}
	return cfg
}

// register makes the Node object, or takes over the one that is there.
func (k *kubeletProcess) register(now time.Time, out Out) {
	fresh := k.current(now).Fresh(out.Shows(now))
	ask := Ask{Verb: proto.VerbCreate, Target: podapi.Target{Kind: k.of.kinds.nodes}, Object: fresh, Options: &metav1.CreateOptions{}}
	k.do(now, ask, out, func(now time.Time, got Got, out Out) {
		switch made, ok := got.Object.(*corev1.Node); {
		case apierrors.IsAlreadyExists(got.Err):
			k.fetch(now, out, k.introduce)
		case got.Err != nil || !ok:
			k.after(now.Add(k.of.timing.Node.Retry), out, k.register)
		default:
			k.speaker.object = made
			k.introduce(now, out)
		}
	})
}

// fetch reads the node's object, and goes on; or registers when there is none.
func (k *kubeletProcess) fetch(now time.Time, out Out, then func(time.Time, Out)) {
	ask := Ask{Verb: proto.VerbGet, Target: k.nodeTarget(""), Options: &metav1.GetOptions{}}
	k.do(now, ask, out, func(now time.Time, got Got, out Out) {
		if found, ok := got.Object.(*corev1.Node); ok && got.Err == nil {
			k.speaker.object = found
			then(now, out)
			return
		}
		if k.speaker.object == nil || apierrors.IsNotFound(got.Err) {
			k.after(now.Add(k.of.timing.Node.Retry), out, k.register)
		}
	})
}

// introduce says how the node is for the first time, and then at every tick.
func (k *kubeletProcess) introduce(now time.Time, out Out) {
	if k.timers["lease"] == nil {
		k.renewLater(now, out)
		k.computeLater(now, out)
		k.renew(now, out)
	}
	k.report(now, out)
}

func (k *kubeletProcess) renewLater(now time.Time, out Out) {
	k.timers.set("lease", k.boundary(now, k.of.timing.Node.LeaseRenew), func(now time.Time, out Out) {
		k.renewLater(now, out)
		k.renew(now, out)
	}, out)
}

func (k *kubeletProcess) computeLater(now time.Time, out Out) {
	k.timers.set("compute", k.boundary(now, k.of.timing.Node.Compute), func(now time.Time, out Out) {
		k.computeLater(now, out)
		k.fetch(now, out, k.report)
	}, out)
}

// report updates the node's status if it has changed, or has not been reported for long.
func (k *kubeletProcess) report(now time.Time, out Out) {
	s, cfg := &k.speaker, k.current(now)
	well, early := len(cfg.Health.Problems()) == 0, now.Sub(s.reported) < k.of.timing.Node.Report
	used := s.object.Status.VolumesInUse
	if well && early && s.fine == s.object.ResourceVersion && slices.Equal(used, s.devices.InUse()) {
		s.took(used)
		return
	}
	wanted, changed := cfg.Status(s.object.Status, out.Shows(now))
	if !changed && early {
		if well {
			s.fine = s.object.ResourceVersion
		}
		s.took(used)
		return
	}
	update := *s.object
	update.Status = wanted
	s.askedNode++
	s.reporting++
	mine, asked := s.askedNode, now
	ask := Ask{Verb: proto.VerbUpdate, Target: k.nodeTarget("status"), Object: &update, Options: &metav1.UpdateOptions{}}
	k.do(now, ask, out, func(now time.Time, got Got, out Out) {
		stored, ok := got.Object.(*corev1.Node)
		s.reporting--
		switch {
		case mine != s.askedNode:
		case got.Err == nil && ok:
			s.object, s.reported = stored, now
			s.devices.Reported(wanted.VolumesInUse)
			for _, c := range wanted.Conditions {
				if c.Type == corev1.NodeReady {
					out.Note("", Lasted{history.Ready{Node: k.of.node, Value: string(c.Status)}, asked})
				}
			}
		case apierrors.IsNotFound(got.Err): // somebody deleted the node: it comes back
			k.register(now, out)
		case apierrors.IsConflict(got.Err):
			k.fetch(now, out, k.report)
		}
	})
}

// took notes that the API has these volumes in the node's status, unless it is being told
// others.
func (s *speaker) took(used []corev1.UniqueVolumeName) {
	if s.reporting == 0 {
		s.devices.Reported(used)
	}
}

// renew says that the kubelet lives (KBL-80).
func (k *kubeletProcess) renew(now time.Time, out Out) {
	s := &k.speaker
	lease := s.Lease(s.lease, s.object, out.Shows(now))
	ask := Ask{Verb: proto.VerbUpdate, Object: lease, Options: &metav1.UpdateOptions{}, Target: podapi.Target{
		Kind: k.of.kinds.leases, Namespace: lease.Namespace, Name: lease.Name,
	}}
	if s.lease == nil {
		ask.Verb, ask.Options, ask.Target.Name = proto.VerbCreate, &metav1.CreateOptions{}, ""
	}
	s.askedLease++
	mine, asked := s.askedLease, now
	k.do(now, ask, out, func(now time.Time, got Got, out Out) {
		if mine != s.askedLease {
			return
		}
		stored, ok := got.Object.(*coordinationv1.Lease)
		switch {
		case got.Err == nil && ok:
			s.lease = stored
			out.Note("", Lasted{history.Lease{Node: k.of.node}, asked})
		case apierrors.IsConflict(got.Err), apierrors.IsNotFound(got.Err), apierrors.IsAlreadyExists(got.Err):
			k.fetchLease(now, lease, mine, out)
		}
	})
}

// fetchLease reads the lease that somebody else has written, and renews it.
func (k *kubeletProcess) fetchLease(now time.Time, lease *coordinationv1.Lease, mine uint64, out Out) {
	s := &k.speaker
	s.lease = nil
	ask := Ask{Verb: proto.VerbGet, Options: &metav1.GetOptions{}, Target: podapi.Target{
		Kind: k.of.kinds.leases, Namespace: lease.Namespace, Name: lease.Name,
	}}
	k.do(now, ask, out, func(now time.Time, got Got, out Out) {
		found, ok := got.Object.(*coordinationv1.Lease)
		if mine != s.askedLease || got.Err != nil && !apierrors.IsNotFound(got.Err) {
			return
		}
		if ok {
			s.lease = found
		}
		k.renew(now, out)
	})
}
