package procs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	protobuf "google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	layouts "github.com/podfall/podfall/cmd/podfall/cluster"
	"github.com/podfall/podfall/proto"
)

// TestTheBusRefuses sends messages that the bus itself must refuse, to the hub and to a node bus.
func TestTheBusRefuses(t *testing.T) {
	t.Parallel()
	c := up(t, "--nodes", "1")
	c.runPod("web", "ignores TERM", 1)
	api := c.dial()
	before, pids := initialInventory(t, api), c.pids()
	keys, hub := c.hubAddress()
	layout := layouts.Layout{Root: c.data}
	private := nodeBusURL(t, c, "node-1")
	t.Run("another's subjects", func(t *testing.T) { sendForbidden(t, hub, keys) })
	t.Run("keys of another bus", func(t *testing.T) {
		for at, strangers := range map[string]struct {
			keys string
			ids  []proto.Identity
		}{
			hub:     {layout.NodeKeys("node-1"), []proto.Identity{proto.Kubelet, proto.Runtime}},
			private: {keys, []proto.Identity{proto.Client("admin"), proto.Node("node-1"), proto.APIServer}},
		} {
			for _, id := range strangers.ids {
				if _, err := tryConnect(t, at, strangers.keys, id); !errors.Is(err, nats.ErrAuthorization) {
					t.Errorf("%s was let in: %v", id, err)
				}
			}
			if _, err := nats.Connect(at, nats.NoReconnect(), nats.Timeout(conditionTimeout)); !errors.Is(err, nats.ErrAuthorization) {
				t.Errorf("someone without a key was let in: %v", err)
			}
		}
	})
	t.Run("calls to the runtime", func(t *testing.T) { sendInvalidCalls(t, private, layout.NodeKeys("node-1")) })
	t.Run("64 MiB", func(t *testing.T) {
		sendHugeMessages(t, hub, "api.client:admin.create.pods.default.bad", connectRaw(t, hub, keys, proto.Client("admin")))
		sendHugeMessages(t, private, proto.CRISubject("ListContainers"), connectRaw(t, private, layout.NodeKeys("node-1"), proto.Kubelet))
		createHugeObject(t, api)
	})
	c.wantUnharmed(api, before, pids)
}

// sendForbidden sends, as the administrator, messages that belong to other identities.
func sendForbidden(t *testing.T, hub, keys string) {
	t.Helper()
	data := validCall(proto.VerbDelete, "web").encode(t)
	for _, subject := range []string{
		"api.apiserver.delete.pods.default.web", "api.node:node-1.delete.pods.default.web", "api.client:root.delete.pods.default.web",
		"api.*.delete.pods.default.web", "watch.cluster.forged", "r.node:node-1.apiserver.forged", "cri.StopContainer", "mgmt.fault", "$SYS.REQ.SERVER.PING",
	} {
		admin := connectRaw(t, hub, keys, proto.Client("admin"))
		admin.wantRefused(strings.ToLower("Permissions Violation"), func() error { return lower(admin.nc.Publish(subject, data)) })
	}
	for _, subject := range []string{"api.>", ">", "r.>", "r.node:node-1.>", "watch.node.node-1.>", "node.node-1.logs"} {
		admin := connectRaw(t, hub, keys, proto.Client("admin"))
		admin.wantRefused(strings.ToLower("Permissions Violation"), func() error {
			_, err := admin.nc.SubscribeSync(subject)
			return lower(err)
		})
	}
}

// lower is an error as the server's errors are written.
func lower(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(strings.ToLower(err.Error()))
}

// sendInvalidCalls sends a runtime calls that no kubelet sends.
func sendInvalidCalls(t *testing.T, private, keys string) {
	t.Helper()
	kubelet := connectRaw(t, private, keys, proto.Kubelet)
	request := func(spoil func(*proto.RuntimeRequest)) []byte {
		good := &proto.RuntimeRequest{Version: proto.Version, Boot: "boot", Call: "1", Caller: "stranger"}
		spoil(good)
		data, err := protobuf.Marshal(good)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	for name, row := range map[string]struct {
		method string
		data   []byte
		code   string
		want   string
	}{
		"random bytes":    {"StopContainer", []byte("\xff\x00random"), proto.CodeInvalidArgument, "not a RuntimeRequest"},
		"nothing":         {"StopContainer", nil, proto.CodeInvalidArgument, "speaks version 1"},
		"another version": {"StopContainer", request(func(r *proto.RuntimeRequest) { r.Version = 9 }), proto.CodeInvalidArgument, "speaks version 1"},
		"another body": {
			"StopContainer", request(func(r *proto.RuntimeRequest) { r.Body = []byte("\xff\xff\xff") }),
			proto.CodeInvalidArgument, "not a StopContainerRequest",
		},
		"nobody's container": {
			"ContainerStatus", request(func(r *proto.RuntimeRequest) { r.Body = []byte("\x0a\x06../../") }), proto.CodeNotFound, "../../",
		},
	} {
		raw, err := kubelet.request(proto.Runtime, proto.CRISubject(row.method), row.data)
		answer := &proto.RuntimeResponse{}
		if err == nil {
			err = protobuf.Unmarshal(raw, answer)
		}
		if err != nil || answer.GetCode() != row.code || !strings.Contains(answer.GetMessage(), row.want) {
			t.Errorf("%s: %v %v, want %s that says %q", name, answer, err, row.code, row.want)
		}
	}
	if _, err := kubelet.request(proto.Runtime, proto.CRISubject("Explode"), nil); !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("an unknown method: %v", err)
	}
	for range 100 { // none of them cancels a call
		if err := kubelet.nc.Publish(proto.CRISubject("Cancel"), []byte("\xff\x00random")); err != nil {
			t.Error(err)
		}
	}
	runtime := connectRaw(t, private, keys, proto.Runtime)
	runtime.wantRefused("permissions violation", func() error { return lower(runtime.nc.Publish(proto.CRISubject("StopContainer"), nil)) })
}

// hugeSize exceeds the size of every permitted message.
const hugeSize = 64 << 20

// sendHugeMessages sends messages of 64 MiB, with a client that follows NATS's rules and with one
// that does not, while other clients continue.
func sendHugeMessages(t *testing.T, at, subject string, honest *rawConn) {
	t.Helper()
	honest.t = t
	if err := honest.nc.Publish(subject, make([]byte, hugeSize)); !errors.Is(err, nats.ErrMaxPayload) {
		t.Errorf("publish of 64 MiB: %v, want %v", err, nats.ErrMaxPayload)
	}
	address, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	rude, err := net.Dial("tcp", address.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer rude.Close()
	if err := rude.SetDeadline(time.Now().Add(conditionTimeout)); err != nil {
		t.Fatal(err)
	}
	_, _ = fmt.Fprintf(rude, "CONNECT {\"verbose\":true}\r\nPUB %s %d\r\n", subject, hugeSize)
	_, _ = rude.Write(make([]byte, 1<<20)) // it may be closed by now
	said, _ := io.ReadAll(rude)            // until the server closes the connection
	if !bytes.Contains(said, []byte("-ERR")) {
		t.Errorf("the server said %q to one who sends 64 MiB, want an error", said)
	}
	if err := honest.nc.FlushWithContext(honest.bounded()); err != nil {
		t.Errorf("the connection did not survive: %v", err)
	}
}

// createHugeObject creates an object that exceeds the bus's limit.
func createHugeObject(t *testing.T, api client) {
	t.Helper()
	large := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "large"}, BinaryData: map[string][]byte{"a": make([]byte, hugeSize)}}
	_, err := api.Create(t.Context(), configMap("large"), large, metav1.CreateOptions{})
	if !apierrors.IsRequestEntityTooLargeError(err) || !strings.Contains(err.Error(), "the bus carries 8388608") {
		t.Errorf("create of 64 MiB: %v, want 413 and the limit", err)
	}
	if _, err := api.Get(t.Context(), pods("web"), metav1.GetOptions{}); err != nil {
		t.Errorf("the client's own connection did not survive: %v", err)
	}
}
