package status

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/kubelet/podstate"
)

// scriptedAPI is an API with one pod that writes down what it is asked.
type scriptedAPI struct {
	live  *corev1.Pod
	asked []string
	fail  []error           // of the next requests
	early func(r *Reporter) // what happens before the reporter runs
}

func (s *scriptedAPI) next(request string) error {
	s.asked = append(s.asked, request)
	if len(s.fail) == 0 {
		return nil
	}
	err := s.fail[0]
	s.fail = s.fail[1:]
	return err
}

var pods = schema.GroupResource{Resource: "pods"}

func (s *scriptedAPI) Get(context.Context, podapi.Target, metav1.GetOptions) (kinds.Object, error) {
	if err := s.next("GET"); err != nil {
		return nil, err
	}
	if s.live == nil {
		return nil, apierrors.NewNotFound(pods, "p")
	}
	return s.live.DeepCopy(), nil
}

func (s *scriptedAPI) Update(_ context.Context, t podapi.Target, obj kinds.Object, _ metav1.UpdateOptions) (kinds.Object, error) {
	if err := s.next("UPDATE " + t.Subresource); err != nil {
		return nil, err
	}
	pod, _ := obj.(*corev1.Pod)
	if s.live == nil {
		return nil, apierrors.NewNotFound(pods, "p")
	}
	if pod.ResourceVersion != s.live.ResourceVersion || pod.UID != s.live.UID {
		return nil, apierrors.NewConflict(pods, "p", errors.New("it has changed"))
	}
	s.live = s.live.DeepCopy()
	s.live.Status = pod.Status
	s.live.ResourceVersion += "0"
	return s.live.DeepCopy(), nil
}

func (s *scriptedAPI) Delete(_ context.Context, _ podapi.Target, opts metav1.DeleteOptions) (runtime.Object, error) {
	if err := s.next("DELETE"); err != nil {
		return nil, err
	}
	if *opts.GracePeriodSeconds != 0 || *opts.Preconditions.UID != s.live.UID {
		return nil, errors.New("not the final delete of this pod")
	}
	return s.live, nil
}

// renamingAPI is an API that fails while the pod's worker reports anew.
type renamingAPI struct {
	scriptedAPI
	reporter *Reporter
}

func (s *renamingAPI) Get(context.Context, podapi.Target, metav1.GetOptions) (kinds.Object, error) {
	s.reporter.Report(markedPod(func(p *corev1.Pod) { p.Name = "other" }), bothExited, Facts{Ended: true})
	return nil, apierrors.NewServiceUnavailable("down")
}

// TestWarningNamesSentPod has a worker report while a step is under way: the warning
// is about the pod as the step took it, not as the worker is about to change it.
func TestWarningNamesSentPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		api := &renamingAPI{}
		r := NewReporter(Config{
			API: api, Copies: &copies{}, Timing: Timing{Batch: time.Minute, Lanes: 1}, Compat: currentCompat(t),
			Log: slog.New(slog.NewTextHandler(&log, nil)),
		})
		api.reporter = r
		r.Report(markedPod(), bothExited, Facts{Ended: true})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- r.Run(ctx) }()
		synctest.Wait()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		}
		if want := "pod=" + podstate.Key(markedPod()) + " "; !strings.Contains(log.String(), want) {
			t.Errorf("want %q in\n%s", want, &log)
		}
	})
}

// copies is a watch that shows one pod, or that has not begun.
type copies struct {
	pod   *corev1.Pod
	known bool
}

func (c *copies) Get(uid types.UID) (*corev1.Pod, bool) {
	if c.pod == nil || c.pod.UID != uid {
		return nil, c.known
	}
	return c.pod, c.known
}

func markedPod(edits ...func(*corev1.Pod)) *corev1.Pod {
	pod := twoContainers(always)
	pod.ResourceVersion = "1"
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Unix(1e9, 0)}, new(int64(30))
	pod.Status.Phase = corev1.PodRunning
	for _, edit := range edits {
		edit(pod)
	}
	return pod
}

var bothExited = podstate.New("u", nil, []*proto.Container{
	{Id: "1", Name: "a", State: proto.ContainerState_CONTAINER_STATE_EXITED},
	{Id: "2", Name: "b", State: proto.ContainerState_CONTAINER_STATE_EXITED},
})

// testReporter runs a reporter over api while story uses it, and compares what it asked.
func testReporter(t *testing.T, api *scriptedAPI, seen *copies, story func(r *Reporter), want ...string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := NewReporter(Config{
			API: api, Copies: seen, Timing: Timing{Batch: 10 * time.Second, Lanes: 1}, Compat: currentCompat(t), Log: slog.New(slog.DiscardHandler),
		})
		if api.early != nil {
			api.early(r)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- r.Run(ctx) }()
		story(r)
		synctest.Wait()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		}
		if !slices.Equal(api.asked, want) {
			t.Errorf("it asked %v, want %v", api.asked, want)
		}
	})
}

func TestReporter(t *testing.T) {
	ended := func(r *Reporter) { r.Report(markedPod(), bothExited, Facts{Ended: true}) }
	t.Run("TD-075 not finished", func(t *testing.T) {
		testReporter(t, &scriptedAPI{live: markedPod()}, &copies{}, ended, "GET", "UPDATE status")
	})
	t.Run("TD-076 finished", func(t *testing.T) {
		api := &scriptedAPI{live: markedPod()}
		api.early = func(r *Reporter) { ended(r); r.Finish(markedPod()) }
		testReporter(t, api, &copies{}, func(*Reporter) {}, "GET", "UPDATE status", "DELETE")
		if api.live.Status.Phase != corev1.PodSucceeded {
			t.Errorf("KBL-64: it was deleted with the phase %s", api.live.Status.Phase)
		}
	})
	t.Run("TD-076 finished later", func(t *testing.T) {
		testReporter(t, &scriptedAPI{live: markedPod()}, &copies{}, func(r *Reporter) {
			ended(r)
			synctest.Wait()
			r.Finish(markedPod())
		}, "GET", "UPDATE status", "DELETE")
	})
	t.Run("TD-077 mirror pods", func(t *testing.T) {
		mirror := markedPod(func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} })
		testReporter(t, &scriptedAPI{live: mirror, early: func(r *Reporter) { ended(r); r.Finish(mirror) }}, &copies{}, func(*Reporter) {}, "GET", "UPDATE status")
	})
	t.Run("TD-078 another UID", func(t *testing.T) {
		other := markedPod(func(p *corev1.Pod) { p.UID = "other" })
		testReporter(t, &scriptedAPI{live: other}, &copies{}, func(r *Reporter) {
			ended(r)
			synctest.Wait()
			if len(r.Known()) > 0 {
				t.Error("KBL-63: the status of the old UID is kept")
			}
			time.Sleep(time.Minute)
		}, "GET")
	})
	t.Run("TD-078 not found", func(t *testing.T) {
		testReporter(t, &scriptedAPI{}, &copies{}, ended, "GET")
	})
	t.Run("a fresh copy saves the GET", func(t *testing.T) {
		testReporter(t, &scriptedAPI{live: markedPod()}, &copies{markedPod(), true}, ended, "UPDATE status")
	})
	t.Run("a stale copy costs a conflict", func(t *testing.T) {
		live := markedPod(func(p *corev1.Pod) { p.ResourceVersion = "2" })
		testReporter(t, &scriptedAPI{live: live}, &copies{markedPod(), true}, ended, "UPDATE status", "GET", "UPDATE status")
	})
	t.Run("a pod that the watch showed deleted needs nothing", func(t *testing.T) {
		testReporter(t, &scriptedAPI{}, &copies{nil, true}, func(r *Reporter) { ended(r); r.Finish(markedPod()) })
	})
	t.Run("nothing new is not sent", func(t *testing.T) {
		testReporter(t, &scriptedAPI{live: markedPod()}, &copies{}, func(r *Reporter) {
			ended(r)
			synctest.Wait()
			ended(r)
		}, "GET", "UPDATE status")
	})
	t.Run("the latest wins", func(t *testing.T) {
		api := &scriptedAPI{live: markedPod(), early: func(r *Reporter) {
			r.Report(markedPod(), podstate.Pod{}, Facts{MayRun: true})
			r.Report(markedPod(), bothExited, Facts{MayRun: true})
		}}
		testReporter(t, api, &copies{}, func(*Reporter) {}, "GET", "UPDATE status")
		if api.live.Status.ContainerStatuses[0].State.Terminated == nil {
			t.Errorf("the API has %+v", api.live.Status)
		}
		api = &scriptedAPI{live: markedPod(), early: func(r *Reporter) {
			r.Report(markedPod(), bothExited, Facts{MayRun: true})
			ended(r)
		}}
		testReporter(t, api, &copies{}, func(*Reporter) {}, "GET", "UPDATE status")
		if api.live.Status.Phase != corev1.PodSucceeded {
			t.Errorf("the API has the phase %s", api.live.Status.Phase)
		}
	})
	t.Run("KBL-65 errors wait for the batch", func(t *testing.T) {
		down := apierrors.NewServiceUnavailable("down")
		api := &scriptedAPI{live: markedPod(), fail: []error{down, nil, down, nil, nil, down}}
		api.early = func(r *Reporter) { ended(r); r.Finish(markedPod()) }
		testReporter(t, api, &copies{}, func(*Reporter) { time.Sleep(45 * time.Second) }, "GET", "GET", "UPDATE status", "GET", "UPDATE status", "DELETE", "DELETE")
	})
	t.Run("KBL-65 the last conflict waits for the batch", func(t *testing.T) {
		moved := apierrors.NewConflict(pods, "p", errors.New("it has changed"))
		api := &scriptedAPI{live: markedPod(), fail: slices.Repeat([]error{nil, moved}, maxAttempts)}
		testReporter(t, api, &copies{}, func(r *Reporter) {
			ended(r)
			time.Sleep(15 * time.Second)
		}, slices.Repeat([]string{"GET", "UPDATE status"}, maxAttempts+1)...)
		if api.live.Status.Phase != corev1.PodSucceeded {
			t.Errorf("the API has the phase %s", api.live.Status.Phase)
		}
	})
	t.Run("TD-078 gone, or of another UID, when it is confirmed", func(t *testing.T) {
		for _, answer := range []error{apierrors.NewNotFound(pods, "p"), apierrors.NewConflict(pods, "p", errors.New("another UID"))} {
			api := &scriptedAPI{live: markedPod(), fail: []error{nil, nil, answer}}
			api.early = func(r *Reporter) { ended(r); r.Finish(markedPod()) }
			testReporter(t, api, &copies{}, func(r *Reporter) {
				time.Sleep(time.Minute)
				if len(r.Known()) > 0 {
					t.Errorf("after %v the status is kept", answer)
				}
			}, "GET", "UPDATE status", "DELETE")
		}
	})
	t.Run("KBL-66 a finalizer keeps the object", func(t *testing.T) {
		api := &scriptedAPI{live: markedPod(), early: func(r *Reporter) { ended(r); r.Finish(markedPod()) }}
		testReporter(t, api, &copies{}, func(*Reporter) { time.Sleep(time.Minute) }, "GET", "UPDATE status", "DELETE")
	})
	t.Run("a pod that is marked after it has finished", func(t *testing.T) {
		alive := markedPod(func(p *corev1.Pod) { p.DeletionTimestamp, p.DeletionGracePeriodSeconds = nil, nil })
		api, seen := &scriptedAPI{live: alive, early: func(r *Reporter) {
			r.Report(alive, bothExited, Facts{Ended: true})
			r.Finish(alive)
		}}, &copies{alive, true}
		testReporter(t, api, seen, func(r *Reporter) {
			synctest.Wait()
			marked := api.live.DeepCopy()
			marked.ResourceVersion = "99"
			marked.DeletionTimestamp, marked.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Unix(1e9, 0)}, new(int64(30))
			api.live, seen.pod = marked, marked
			r.Refresh(marked)
		}, "UPDATE status", "DELETE")
	})
}
