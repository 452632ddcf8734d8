package customers

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// change is one change of a pod, as the response reported it. A removal has the revision of the
// object's last content.
type change struct {
	uid      types.UID
	revision string
	removed  bool
}

// record holds every change to the pods of a namespace, written by their only author.
type record struct {
	mu      sync.Mutex
	changes map[string][]change
}

func (r *record) add(pod *corev1.Pod, c change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.changes == nil {
		r.changes = make(map[string][]change)
	}
	r.changes[pod.Name] = append(r.changes[pod.Name], c)
}

// all returns a copy.
func (r *record) all() map[string][]change {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make(map[string][]change, len(r.changes))
	for name, changes := range r.changes {
		all[name] = append([]change{}, changes...)
	}
	return all
}

// lengths returns the number of changes of each pod.
func (r *record) lengths() map[string]int {
	lengths := make(map[string]int)
	for name, changes := range r.all() {
		lengths[name] = len(changes)
	}
	return lengths
}

// storedRevisions returns the revision of each existing pod.
func (r *record) storedRevisions() map[string]string {
	revisions := make(map[string]string)
	for name, changes := range r.all() {
		if last := changes[len(changes)-1]; !last.removed {
			revisions[name] = last.revision
		}
	}
	return revisions
}

// author changes pods. It is the only one: no scheduler and no kubelet handles them.
type author struct {
	client    kubernetes.Interface
	namespace string
	record    record
}

func unscheduled(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"turn": "0"}},
		Spec: corev1.PodSpec{
			SchedulerName:                 "nobody",
			TerminationGracePeriodSeconds: new(int64(0)),
			Containers:                    []corev1.Container{{Name: "main", Image: "nginx"}},
		},
	}
}

// writers is how many goroutines write concurrently.
const writers = 8

// write makes n random changes to each of the pods.
func (a *author) write(ctx context.Context, pods, n int, seed uint64) error {
	var (
		group  sync.WaitGroup
		mu     sync.Mutex
		failed error
	)
	for hand := range writers {
		group.Go(func() {
			chance := rand.New(rand.NewPCG(seed, uint64(hand)))
			for turn := range n {
				for i := hand; i < pods; i += writers {
					if err := a.changeOnce(ctx, fmt.Sprintf("pod-%d", i), fmt.Sprint(seed, "-", turn), chance); err != nil {
						mu.Lock()
						failed = err
						mu.Unlock()
						return
					}
				}
			}
		})
	}
	group.Wait()
	return failed
}

// changeOnce makes one change to a pod: it creates the pod if there is none, else changes a label
// or, one time in four, deletes it.
func (a *author) changeOnce(ctx context.Context, name, turn string, chance *rand.Rand) error {
	pods := a.client.CoreV1().Pods(a.namespace)
	a.record.mu.Lock()
	past := a.record.changes[name]
	a.record.mu.Unlock()
	if len(past) == 0 || past[len(past)-1].removed {
		pod, err := pods.Create(ctx, unscheduled(name), metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("create %s: %w", name, err)
		}
		a.record.add(pod, change{uid: pod.UID, revision: pod.ResourceVersion})
		return nil
	}
	last := past[len(past)-1]
	if chance.IntN(4) > 0 {
		patch := fmt.Appendf(nil, `{"metadata":{"labels":{"turn":%q}}}`, turn)
		pod, err := pods.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
		if err != nil {
			return fmt.Errorf("patch %s: %w", name, err)
		}
		a.record.add(pod, change{uid: pod.UID, revision: pod.ResourceVersion})
		return nil
	}
	precondition := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &last.uid, ResourceVersion: &last.revision}}
	if err := pods.Delete(ctx, name, precondition); err != nil {
		return fmt.Errorf("delete %s: %w", name, err)
	}
	a.record.add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}, change{uid: last.uid, removed: true})
	return nil
}
