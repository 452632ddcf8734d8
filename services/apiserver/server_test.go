package apiserver_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/bus"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver"
)

// TestBadInput sends what no client of ours would: each gets a Status that names the part
// that is wrong, nothing is written, and the apiserver goes on (guarantee N5).
func TestBadInput(t *testing.T) {
	good := func() *proto.Request { return &proto.Request{Version: proto.Version, Operation: "op"} }
	with := func(change func(*proto.Request)) []byte {
		request := good()
		change(request)
		return marshal(request)
	}
	const self = "api.client:me."
	rows := []struct {
		what, subject string
		data          []byte
		code          int32
		message       string
	}{
		{"not an envelope", self + "get.pods.default.p", []byte("GET / HTTP/1.1"), 400, "envelope: want an encoded podfall.v1.Request: "},
		{"an empty envelope", self + "get.pods.default.p", nil, 400, "envelope: version: this apiserver speaks 1, not 0"},
		{"another version", self + "get.pods.default.p", with(func(r *proto.Request) { r.Version = 7 }), 400, "envelope: version: this apiserver speaks 1, not 7"},
		{"no operation", self + "get.pods.default.p", with(func(r *proto.Request) { r.Operation = "" }), 400, "envelope: operation: want 1 to 64 printable ASCII characters, not \"\""},
		{"a long operation", self + "get.pods.default.p", with(func(r *proto.Request) { r.Operation = strings.Repeat("x", 65) }), 400, "envelope: operation: want 1 to 64"},
		{"an unprintable operation", self + "get.pods.default.p", with(func(r *proto.Request) { r.Operation = "a\nb" }), 400, "envelope: operation: want 1 to 64"},
		{"a long boot", self + "get.pods.default.p", with(func(r *proto.Request) { r.Boot = strings.Repeat("x", 65) }), 400, "envelope: boot: want at most 64"},
		{"no verb", self + "eat.pods.default.p", marshal(good()), 400, `verb "eat": want one of [get list watch create update patch delete deletecollection]`},
		{"no resource", self + "get.podz.default.p", marshal(good()), 404, `the server could not find the requested resource: resource "podz": want a plural with its group, such as pods or deployments.apps`},
		{"no such version", self + "get.pods.default.p", with(func(r *proto.Request) { r.ApiVersion = "v9" }), 404, `the server could not find the requested resource: envelope: api_version: pods has no version "v9"`},
		{"a version of another group", self + "get.pods.default.p", with(func(r *proto.Request) { r.ApiVersion = "apps/v1" }), 404, `the server could not find the requested resource: envelope: api_version: pods has no version "apps/v1"`},
		{"no subresource", self + "get.pods/soul.default.p", marshal(good()), 404, `the server could not find the requested resource`},
		{"a subresource of another day", self + "create.pods/proxy.default.p", marshal(good()), 404, `the server could not find the requested resource`},
		{"a verb that a subresource has not", self + "delete.pods/status.default.p", marshal(good()), 405, "delete is not supported on resources of kind \"pods\""},
		{"a slash in a name", self + "get.pods.default.a%2Fb", marshal(good()), 400, `name "a/b": may not contain '/'`},
		{"up and away", self + "get.pods.%2E%2E.p", marshal(good()), 400, `namespace "..": may not be '..'`},
		{"a zero byte", self + "get.pods.default.a%00b", marshal(good()), 400, `name "a\x00b": want printable ASCII characters`},
		{"a long name", self + "get.pods.default." + strings.Repeat("x", 254), marshal(good()), 400, "name: want at most 253 bytes, not 254"},
		{"a broken escape", self + "get.pods.default.a%G", marshal(good()), 400, "subject: not a request subject"},
		{"no name", self + "get.pods.default._", marshal(good()), 400, "name: get is about one, so want it named"},
		{"a name too many", self + "list.pods.default.p", marshal(good()), 400, "name: list is about many, so want it empty"},
		{"no namespace", self + "get.pods._.p", marshal(good()), 400, "namespace: pods have one, so want it named"},
		{"a namespace too many", self + "get.nodes.default.n", marshal(good()), 400, "namespace: nodes have none, so want it empty"},
		{"options of nothing", self + "get.pods.default.p", with(func(r *proto.Request) { r.Options = []byte{0xff, 0xff} }), 400, "options: want an encoded v1.GetOptions: "},
		{"a body of nothing", self + "create.pods.default._", with(func(r *proto.Request) { r.ContentType = "application/json"; r.Body = []byte("{") }), 400, ""},
		{"a body of another kind", self + "create.pods.default._", with(func(r *proto.Request) {
			r.ContentType = "application/json"
			r.Body = []byte(`{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"}}`)
		}), 400, ""},
		{"a body of another type", self + "create.pods.default._", with(func(r *proto.Request) { r.ContentType = "text/yaml"; r.Body = []byte(`a: b`) }), 415, ""},
		{"a body that is too large", self + "create.configmaps.default._", with(func(r *proto.Request) { r.ContentType = "application/json"; r.Body = make([]byte, 4<<20) }), 413, ""},
		{"a request that comes late", self + "delete.pods.default.p", with(func(r *proto.Request) { r.DeadlineUnixNano = 1 }), 504, "Timeout: the request came "},
		{"a kubelet's local identity", "api.kubelet.get.pods.default.p", marshal(good()), 403, `pods "p" is forbidden: identity "kubelet" belongs on a node bus`},
	}
	synctest.Test(t, func(t *testing.T) {
		s := newHarness(t)
		conns := map[string]*bus.Conn{"client:me": s.dial("client:me"), "kubelet": s.dial(proto.Kubelet)}
		user := s.client("client:me")
		user.create()
		w := user.watch(metav1.ListOptions{})
		for _, row := range rows {
			response, status := s.raw(conns[strings.Split(row.subject, ".")[1]], row.subject, row.data)
			if status == nil || response.GetCode() != row.code || !strings.HasPrefix(status.Message, row.message) {
				t.Errorf("%s:\n got %d %v\nwant %d %s", row.what, response.GetCode(), status, row.code, row.message)
			}
			if response.GetVersion() != proto.Version || response.GetBoot() != "boot-1" {
				t.Errorf("%s: the answer is of version %d and boot %q", row.what, response.GetVersion(), response.GetBoot())
			}
		}
		w.expectNone()
		user.delete(grace(0))
	})
}

func TestNodeEpochs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newHarness(t)
		user := s.client("client:me")
		user.create()
		user.bind()
		ask := func(id proto.Identity, boot string) int32 {
			response, _ := s.raw(s.dial(id), "api."+id.Token()+".get.pods.default.p",
				marshal(&proto.Request{Version: proto.Version, Operation: "op", Boot: boot}))
			return response.GetCode()
		}
		rows := []struct {
			id   proto.Identity
			boot string
			want int32
		}{
			{"node:n1", "b2", 200},
			{"node:n1", "b1", 403},
			{"node:n1", "b2", 200},
			{"node:n1", "b3", 200},
			{"node:n1", "b2", 403},
			{"node:n1", "", 403},
			{"controllers", "b2", 200},
			{"controllers", "b1", 200}, // another process, with other duties
			{"client:me", "b2", 200},
			{"client:me", "b1", 200},
		}
		for _, row := range rows {
			if got := ask(row.id, row.boot); got != row.want {
				t.Errorf("%s boot %q: %d, want %d", row.id, row.boot, got, row.want)
			}
		}
		// The clock of the host was set back between two starts of its kubelet.
		for _, step := range []struct {
			wait time.Duration
			boot string
			want int32
		}{
			{40 * time.Second, "b2", 403}, // b3 may still be there
			{0, "b3", 200},
			{30 * time.Second, "b2", 403}, // what is refused does not keep b3 alive, or away
			{11 * time.Second, "b2", 200},
			{0, "b2", 200},
			{0, "b1", 403},
		} {
			time.Sleep(step.wait)
			if got := ask("node:n1", step.boot); got != step.want {
				t.Errorf("boot %q after %v: %d, want %d", step.boot, step.wait, got, step.want)
			}
		}
	})
}

// TestNodes is a node that reaches for what is not its own (guarantee N4).
func TestNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newHarness(t)
		user, other := s.client("client:me"), s.client(proto.Node("n2"))
		user.create()
		user.bind()
		w := user.watch(metav1.ListOptions{})
		ctx := t.Context()
		pod := user.get()
		_, get := other.api.Get(ctx, pods("p", ""), metav1.GetOptions{})
		_, list := other.api.List(ctx, pods("", ""), metav1.ListOptions{})
		_, watch := other.api.Watch(ctx, pods("", ""), metav1.ListOptions{FieldSelector: "spec.nodeName=n1"})
		_, status := other.api.Update(ctx, pods("p", "status"), pod, metav1.UpdateOptions{})
		_, update := other.api.Update(ctx, pods("p", ""), pod, metav1.UpdateOptions{})
		_, deleted := other.api.Delete(ctx, pods("p", ""), grace(0))
		_, all := other.api.DeleteCollection(ctx, pods("", ""), grace(0), metav1.ListOptions{FieldSelector: "spec.nodeName=n2"})
		for what, err := range map[string]error{
			"get": get, "list": list, "watch": watch, "status": status, "update": update, "delete": deleted, "deletecollection": all,
		} {
			if !apierrors.IsForbidden(err) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if _, err := other.api.Get(ctx, pods("q", ""), metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("a pod that is gone: %v", err)
		}
		w.expectNone()
	})
}

// TestTwiceAtOnce sends one operation twice without waiting (guarantee N1).
func TestTwiceAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newHarness(t)
		user := s.client("client:me")
		w := user.watch(metav1.ListOptions{})
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "p-", Namespace: "default"},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "scripted"}}},
		}
		body, err := kinds.Encode(pod)
		if err != nil {
			t.Fatal(err)
		}
		request := marshal(&proto.Request{
			Version: proto.Version, Operation: "twice", ContentType: kinds.ContentTypeProtobuf, Body: body,
		})
		conn := s.dial("client:me")
		names := make(chan string, 2)
		for range 2 {
			go func() {
				response, _ := s.raw(conn, "api.client:me.create.pods.default._", request)
				obj, err := kinds.Decode(response.GetItem().GetObject())
				if err != nil || response.GetCode() != 201 {
					t.Errorf("%d %v", response.GetCode(), err)
					names <- ""
					return
				}
				names <- obj.GetName()
			}()
		}
		if one, two := <-names, <-names; one != two {
			t.Errorf("%q and %q", one, two)
		}
		w.expect("ADDED gen=1 Pending")
		w.expectNone()
	})
}

// TestDeadline is a request whose time is over while it waits.
func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newHarness(t)
		user := s.client("client:me")
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := user.api.List(ctx, pods("", ""), metav1.ListOptions{ResourceVersion: "99999"})
		if err == nil || time.Since(began) > time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

func TestUnusableDataDir(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub, err := bus.StartServer(t.Context(), bus.ServerConfig{Port: bus.InProcessOnly})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(hub.Close)
		conn, err := bus.Dial(t.Context(), bus.Config{Identity: proto.APIServer, InProcess: hub.InProcessConn})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conn.Close)
		err = apiserver.Run(t.Context(), apiserver.Config{Bus: conn, DataDir: "/dev/null/nowhere"})
		if err == nil || errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), "apiserver: ") {
			t.Error(err)
		}
	})
}
