package gateway

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/proto/kinds"
)

// TestTableAgeAtEvent: get -w runs for hours, and the age in each row is the pod's at the event.
func TestTableAgeAtEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kind, _ := kinds.ByResource("pods")
		f := &framer{printer: printer{kind: kind, form: form{media: mediaJSON, as: asTable, metaVersion: "v1"}}}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", CreationTimestamp: metav1.Now()}}
		for _, want := range []string{`"0s"`, `"90s"`} {
			frame, err := f.frameEvent(&event{Event: watch.Event{Type: watch.Modified, Object: pod}})
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(frame), want) {
				t.Errorf("want the age %s in %s", want, frame)
			}
			time.Sleep(90 * time.Second)
		}
	})
}
