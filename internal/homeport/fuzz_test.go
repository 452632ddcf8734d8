package homeport

import (
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strconv"
	"testing"
)

// FuzzHomesIn: whatever a file holds, the ports that it names are home ports, each in it behind
// a colon, and there again in its other half where a line ends between them; a URL that is
// written as JSON names its port if that is a home port, and no other.
func FuzzHomesIn(f *testing.F) {
	f.Fuzz(func(t *testing.T, text []byte, host string, port uint16) {
		got := findHomePorts(text)
		for _, home := range got {
			if home < firstPort || home > lastPort {
				t.Errorf("%q names %d, which is no home port", text, home)
			}
		}
		if want := colons(text); !slices.Equal(got, want) {
			t.Errorf("%q names %v, want %v", text, got, want)
		}
		if net.ParseIP(host) == nil { // a name could hold a port
			host = "localhost"
		}
		written, err := json.Marshal(map[string]string{"url": fmt.Sprintf("nats://%s", net.JoinHostPort(host, strconv.Itoa(int(port))))})
		if err != nil {
			t.Fatal(err)
		}
		if home := port >= firstPort && port <= lastPort; slices.Contains(findHomePorts(written), int(port)) != home {
			t.Errorf("%s names %v, and %d is a home port: %v", written, findHomePorts(written), port, home)
		}
		both := slices.Concat(text, []byte("\n"), written)
		if want := slices.Concat(got, findHomePorts(written)); !slices.Equal(findHomePorts(both), want) {
			t.Errorf("%q names %v, want %v", both, findHomePorts(both), want)
		}
	})
}

// colons are the home ports of a text as they are read a byte at a time.
func colons(text []byte) []int {
	var ports []int
	behind, port, digits := false, 0, 0
	for _, c := range append(slices.Clone(text), '\n') {
		switch {
		case behind && c >= '0' && c <= '9':
			port, digits = min(port*10+int(c-'0'), lastPort+1), digits+1
			continue
		case behind && digits > 0 && port >= firstPort && port <= lastPort:
			ports = append(ports, port)
		}
		behind, port, digits = c == ':', 0, 0
	}
	return ports
}
