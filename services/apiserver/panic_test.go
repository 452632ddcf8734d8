package apiserver

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	protobuf "google.golang.org/protobuf/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/bus"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver/verbs"
)

// TestPanic is a mistake of ours: one request gets a 500, the log a stack, and the
// process goes on.
func TestPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub, err := bus.StartServer(t.Context(), bus.ServerConfig{Port: bus.InProcessOnly})
		if err != nil {
			t.Fatal(err)
		}
		defer hub.Close()
		dial := func(id proto.Identity) *bus.Conn {
			conn, err := bus.Dial(t.Context(), bus.Config{Identity: id, InProcess: hub.InProcessConn})
			if err != nil {
				t.Fatal(err)
			}
			return conn
		}
		serving, asking := dial(proto.APIServer), dial("client:me")
		defer serving.Close()
		defer asking.Close()
		var log bytes.Buffer
		broken := newServer(Config{Bus: serving, Log: slog.New(slog.NewTextHandler(&log, nil))}, verbs.New(verbs.Config{}))
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() {
			if err := serving.Serve(ctx, callSubjects, broken.serveCall); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		request, err := protobuf.Marshal(&proto.Request{Version: proto.Version, Operation: "op"})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			answer, err := asking.Request(t.Context(), proto.APIServer, "api.client:me.get.pods.default.p", request)
			if err != nil {
				t.Fatal(err)
			}
			response := &proto.Response{}
			if err := protobuf.Unmarshal(answer, response); err != nil {
				t.Fatal(err)
			}
			decoded, err := kinds.DecodeAny(response.GetItem().GetObject())
			status, _ := decoded.(*metav1.Status)
			if err != nil || response.GetCode() != 500 || status == nil || !strings.Contains(status.Message, "made the apiserver panic") {
				t.Errorf("%d %v %v", response.GetCode(), status, err)
			}
		}
		cancel()
		running.Wait()
		if !strings.Contains(log.String(), "verbs.(*API).get") {
			t.Errorf("the log has no stack:\n%s", log.String())
		}
	})
}
