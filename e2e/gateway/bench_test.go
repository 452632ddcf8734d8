package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
)

func podsKind() kinds.Kind {
	kind, _ := kinds.ByResource("pods")
	return kind
}

// BenchmarkWatches changes one object while a thousand clients watch its scope, and waits
// until every one of them has been told. An operation is one change.
func BenchmarkWatches(b *testing.B) {
	for _, watches := range []int{1, 1000} {
		b.Run(strconv.Itoa(watches), func(b *testing.B) {
			r := newRig(b)
			r.made("POST "+pods, podJSON("web"))
			ctx, cancel := context.WithCancel(b.Context())
			var reading sync.WaitGroup
			told := make(chan struct{}, 2*watches)
			for range watches {
				resp := r.stream(ctx, "GET "+pods+"?watch=1", "")
				lines := stream{b, nil, resp}.scanner()
				reading.Go(func() {
					defer resp.close()
					for lines.Scan() {
						told <- struct{}{}
					}
				})
				<-told // the initial event
			}
			b.ResetTimer()
			for i := range b.N {
				r.made("PATCH "+pods+"/web", fmt.Sprintf(`{"metadata":{"labels":{"i":"%d"}}}`, i), "Content-Type: application/merge-patch+json")
				for range watches {
					<-told
				}
			}
			b.StopTimer()
			b.ReportMetric(float64(b.N*watches)/b.Elapsed().Seconds(), "events/s")
			cancel()
			reading.Wait() // there is room for what they were told last
		})
	}
}

// BenchmarkList reads 10,000 pods, through the gateway in both encodings, and over the bus.
func BenchmarkList(b *testing.B) {
	r := newRig(b)
	bus := podapi.New(r.dial(proto.Client("bench")), podapi.Config{Timeout: time.Minute})
	const many = 10_000
	var making sync.WaitGroup
	for part := range 50 {
		making.Go(func() {
			for i := range many / 50 {
				r.made("POST "+pods, podJSON(fmt.Sprintf("web-%d-%d", part, i)))
			}
		})
	}
	making.Wait()
	b.Run("JSON", func(b *testing.B) {
		for range b.N {
			b.SetBytes(int64(len(r.made("GET "+pods, ""))))
		}
	})
	b.Run("protobuf", func(b *testing.B) {
		for range b.N {
			b.SetBytes(int64(len(r.made("GET "+pods, "", "Accept: application/vnd.kubernetes.protobuf"))))
		}
	})
	b.Run("Table", func(b *testing.B) {
		for range b.N {
			b.SetBytes(int64(len(r.made("GET "+pods, "", "Accept: application/json;as=Table;v=v1;g=meta.k8s.io"))))
		}
	})
	b.Run("bus", func(b *testing.B) {
		for range b.N {
			page, err := bus.List(b.Context(), podapi.Target{Kind: podsKind(), Namespace: "default"}, metav1.ListOptions{})
			if err != nil || len(page.Items) != many {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkLife creates, reads and deletes a pod: through the gateway, and over the bus.
func BenchmarkLife(b *testing.B) {
	r := newRig(b)
	api := podapi.New(r.dial(proto.Client("bench")), podapi.Config{})
	for _, beside := range []int{1, 64} {
		b.Run(fmt.Sprintf("gateway-%d", beside), func(b *testing.B) {
			b.SetParallelism(beside)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					data := r.made("POST "+pods, strings.Replace(podJSON("x"), `"name":"x"`, `"generateName":"x-"`, 1))
					var pod corev1.Pod
					if err := json.Unmarshal(data, &pod); err != nil {
						b.Error(err)
						return
					}
					r.made("GET "+pods+"/"+pod.Name, "")
					r.kill(pod.Name)
				}
			})
		})
		b.Run(fmt.Sprintf("bus-%d", beside), func(b *testing.B) {
			b.SetParallelism(beside)
			b.RunParallel(func(pb *testing.PB) {
				where := podapi.Target{Kind: podsKind(), Namespace: "default"}
				for pb.Next() {
					made, err := api.CreateRaw(b.Context(), where, "application/json",
						[]byte(strings.Replace(podJSON("x"), `"name":"x"`, `"generateName":"x-"`, 1)), metav1.CreateOptions{})
					if err != nil {
						b.Error(err)
						return
					}
					one := where
					one.Name = made.GetName()
					if _, err := api.Get(b.Context(), one, metav1.GetOptions{}); err != nil {
						b.Error(err)
					}
					if _, err := api.Delete(b.Context(), one, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}
