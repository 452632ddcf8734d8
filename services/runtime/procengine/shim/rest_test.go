package shim

import (
	"bytes"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/proto"
)

// TestBufferedOutput: a shim that was stalled past the deadline still reads what a command wrote
// before its end, although another process could still write.
func TestBufferedOutput(t *testing.T) {
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	defer from.Close()
	text := strings.Repeat("0123456789abcdef", pipeCapacity()/16)
	if _, err := to.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := from.SetReadDeadline(clock.Clock{}.Now().Add(-drainTime)); err != nil {
		t.Fatal(err)
	}
	var kept bytes.Buffer
	if readLimited(&kept, from); kept.String() != text {
		t.Errorf("%d bytes of %d were kept", kept.Len(), len(text))
	}
	if left := readBuffered(from); len(left) > 0 {
		t.Errorf("nobody has written %q", left)
	}
}

// TestBufferedFarewell: a shim that was stalled past the deadline still tells a reading client how
// its command ended. It does not wait longer for a client that does not read.
func TestBufferedFarewell(t *testing.T) {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	client, err := new(net.Dialer).DialContext(t.Context(), "unix", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	p := &peer{conn: conn}
	if err := conn.SetWriteDeadline(clock.Clock{}.Now().Add(-farewellTimeout)); err != nil {
		t.Fatal(err)
	}
	last := proto.StatusFrame(proto.ExitStatus(7))
	if err := p.sendFrame(last); err != nil {
		t.Error(err)
	}
	var heard message
	if err := json.NewDecoder(client).Decode(&heard); err != nil || !bytes.Equal(heard.Frame, last) {
		t.Errorf("it heard %q, %v", heard.Frame, err)
	}
	for range 1 << 10 { // until nothing more fits in between
		if err = p.sendFrame(make([]byte, proto.MaxStreamFrame)); err != nil {
			break
		}
	}
	if err == nil {
		t.Error("a client that does not listen takes all")
	}
}
