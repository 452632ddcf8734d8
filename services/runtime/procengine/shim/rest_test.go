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

// TestWhatWasWrittenInTime has what a command wrote before its end taken in by a shim that
// stood still until the time for that was over, although somebody could write on.
func TestWhatWasWrittenInTime(t *testing.T) {
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	defer from.Close()
	text := strings.Repeat("0123456789abcdef", mostRest()/16)
	if _, err := to.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := from.SetReadDeadline(clock.Clock{}.Now().Add(-drain)); err != nil {
		t.Fatal(err)
	}
	var kept bytes.Buffer
	if keep(&kept, from); kept.String() != text {
		t.Errorf("%d bytes of %d were kept", kept.Len(), len(text))
	}
	if left := rest(from); len(left) > 0 {
		t.Errorf("nobody has written %q", left)
	}
}

// TestAFarewellInTime has a client that listens told how its command ended by a shim that stood
// still until the time for that was over; one that does not listen is waited for no longer.
func TestAFarewellInTime(t *testing.T) {
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
	if err := conn.SetWriteDeadline(clock.Clock{}.Now().Add(-farewell)); err != nil {
		t.Fatal(err)
	}
	last := proto.StatusFrame(proto.ExitStatus(7))
	if err := p.frame(last); err != nil {
		t.Error(err)
	}
	var heard message
	if err := json.NewDecoder(client).Decode(&heard); err != nil || !bytes.Equal(heard.Frame, last) {
		t.Errorf("it heard %q, %v", heard.Frame, err)
	}
	for range 1 << 10 { // until nothing more fits in between
		if err = p.frame(make([]byte, proto.MaxStreamFrame)); err != nil {
			break
		}
	}
	if err == nil {
		t.Error("a client that does not listen takes all")
	}
}
