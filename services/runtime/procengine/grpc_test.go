package procengine

import (
	"encoding/binary"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestReachGRPC: a gRPC health service is called in its own protocol, by service, and its errors
// are returned.
func TestReachGRPC(t *testing.T) {
	asked := ""
	status := map[string]byte{"": 1, "shop": 2}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = r.URL.Path
		service := ""
		if len(body) > 7 {
			service = string(body[7:])
		}
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Trailer", "Grpc-Status, Grpc-Message")
		serving, known := status[service]
		if !known || r.ProtoMajor != 2 {
			w.Header().Set("Grpc-Status", "5")
			w.Header().Set("Grpc-Message", "unknown service")
			return
		}
		message := []byte{1 << 3, serving}
		_, _ = w.Write(append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...))
		w.Header().Set("Grpc-Status", "0")
	}))
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "http://")
	for service, want := range map[string]int32{"": 1, "shop": 2} {
		answer, err := reachGRPC(t.Context(), address, service)
		if err != nil || answer.Code != want {
			t.Errorf("service %q: %v, %v; want %d", service, answer, err, want)
		}
	}
	if asked != healthCheck {
		t.Errorf("it asked for %s", asked)
	}
	if _, err := reachGRPC(t.Context(), address, "nobody"); err == nil || err.Error() != "rpc error: code = 5 desc = unknown service" {
		t.Errorf("an unknown service: %v", err)
	}
	if _, err := servingStatus([]byte("not gRPC at all")); err == nil {
		t.Error("any answer will do")
	}
}
