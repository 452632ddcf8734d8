package apiserver

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver/store"
)

// TestNodeEpochsSurviveARestart: an older kubelet is refused although the apiserver that heard the
// newer one is gone, because the newer one's own writes are enough (N6).
func TestNodeEpochsSurviveARestart(t *testing.T) {
	t.Parallel()
	compat, err := proto.CompatFor("")
	if err != nil {
		t.Fatal(err)
	}
	begin := func(image *store.Image) *Inline {
		i, err := NewInline(t.Context(), InlineConfig{
			Boot: "b", Compat: compat, Image: image, Keep: 100, Publish: func(string, *proto.Frame) error { return nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		return i
	}
	call := func(i *Inline, who proto.Identity, boot proto.Boot, verb proto.Verb, name string, body []byte) int32 {
		t.Helper()
		subject := proto.APISubject{Identity: who, Verb: verb, Resource: "nodes", Name: name}
		parts, err := i.Call(t.Context(), subject.String(), &proto.Request{
			Version: proto.Version, Operation: rand.Text(), Boot: string(boot), Body: body, ContentType: kinds.ContentTypeJSON,
		})
		if err != nil || len(parts) == 0 {
			t.Fatalf("%d parts, %v", len(parts), err)
		}
		return parts[len(parts)-1].GetCode()
	}
	older, newer := proto.NewBoot(time.Unix(100, 0), [4]byte{1}), proto.NewBoot(time.Unix(200, 0), [4]byte{2})
	first := begin(nil)
	for node, bootID := range map[string]string{"n1": string(newer), "n2": "zzz, which somebody has made up"} {
		body, err := json.Marshal(&corev1.Node{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: node},
			Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{BootID: bootID}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if code := call(first, proto.Admin, newer, proto.VerbCreate, "", body); code != http.StatusCreated {
			t.Fatalf("create %s: %d", node, code)
		}
	}
	second := begin(first.Image())
	for _, row := range []struct {
		node string
		boot proto.Boot
		want int32
	}{{"n1", older, http.StatusForbidden}, {"n1", newer, http.StatusOK}, {"n2", older, http.StatusOK}} {
		if code := call(second, proto.Node(row.node), row.boot, proto.VerbGet, row.node, nil); code != row.want {
			t.Errorf("%s of boot %s: %d, want %d", row.node, row.boot, code, row.want)
		}
	}
}
