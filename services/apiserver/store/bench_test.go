package store_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"path/filepath"
	goruntime "runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"go.etcd.io/bbolt"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver/store"
)

// podsPerWriter is how many pods a writer updates in turn.
const podsPerWriter = 50

// BenchmarkCommit is what writers get done, beside what bbolt itself does when the same
// bytes are put, once each, by a writer that groups them in the same way: raw is given
// the bytes, encoded encodes the object each time, as the store has to.
func BenchmarkCommit(b *testing.B) {
	for _, writers := range []int{1, 16, 64, 256} {
		b.Run(fmt.Sprintf("writers=%d/store", writers), func(b *testing.B) { benchStore(b, writers) })
		b.Run(fmt.Sprintf("writers=%d/raw", writers), func(b *testing.B) { benchRaw(b, writers, noEncode) })
		b.Run(fmt.Sprintf("writers=%d/encoded", writers), func(b *testing.B) { benchRaw(b, writers, kinds.Encode) })
	}
}

func benchStore(b *testing.B, writers int) {
	template := podNamed("pod")
	s := open(b, store.Config{Path: filepath.Join(b.TempDir(), "store.db")})
	perWriter(b, writers, func(w, i int) error {
		p := new(corev1.Pod)
		*p = *template // what it refers to is shared
		p.Name = "pod-" + strconv.Itoa(w) + "-" + strconv.Itoa(i%podsPerWriter)
		p.Generation = int64(i)
		_, err := s.Commit(b.Context(), store.Commit{Cause: "operation-" + strconv.Itoa(w) + "-" + strconv.Itoa(i), Writes: []store.Write{
			{Key: keyOf(p), Expect: store.Any, Object: p},
		}})
		return err
	})
}

// noEncode stands for kinds.Encode if the bytes are known already.
func noEncode(runtime.Object) ([]byte, error) { return nil, nil }

func benchRaw(b *testing.B, writers int, encode func(runtime.Object) ([]byte, error)) {
	db, err := bbolt.Open(filepath.Join(b.TempDir(), "raw.db"), 0o600, &bbolt.Options{
		NoFreelistSync: true, FreelistType: bbolt.FreelistMapType, InitialMmapSize: 256 << 20,
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	template := podNamed("pod")
	data, err := kinds.Encode(template)
	if err != nil {
		b.Fatal(err)
	}
	type put struct {
		value []byte
		done  chan error
	}
	queue := make(chan put, 1024)
	ctx, cancel := context.WithCancel(b.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() {
		var revision uint64
		for {
			var batch []put
			select {
			case first := <-queue:
				batch = append(batch, first)
			case <-ctx.Done():
				return
			}
			for yielded := false; ; {
				select {
				case next := <-queue:
					batch = append(batch, next)
					yielded = false
					continue
				default:
				}
				if yielded {
					break
				}
				goruntime.Gosched()
				yielded = true
			}
			err := db.Update(func(tx *bbolt.Tx) error {
				bucket, err := tx.CreateBucketIfNotExists([]byte("raw"))
				if err != nil {
					return err
				}
				bucket.FillPercent = 1
				for _, p := range batch {
					revision++
					if err := bucket.Put(binary.BigEndian.AppendUint64(nil, revision), p.value); err != nil {
						return err
					}
				}
				return nil
			})
			for _, p := range batch {
				p.done <- err
			}
		}
	})
	perWriter(b, writers, func(_, i int) error {
		p := put{value: data, done: make(chan error, 1)}
		pod := *template
		pod.Generation = int64(i)
		encoded, err := encode(&pod)
		if err != nil {
			return err
		}
		if encoded != nil {
			p.value = encoded
		}
		queue <- p
		return <-p.done
	})
}

// perWriter runs b.N operations on so many goroutines and reports operations a second.
func perWriter(b *testing.B, writers int, do func(writer, i int) error) {
	b.Helper()
	b.ReportAllocs()
	var left atomic.Int64
	left.Store(int64(b.N))
	var group sync.WaitGroup
	b.ResetTimer()
	for w := range writers {
		group.Go(func() {
			for i := 0; left.Add(-1) >= 0; i++ {
				if err := do(w, i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "writes/s")
}
