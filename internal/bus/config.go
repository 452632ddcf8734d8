package bus

import (
	"fmt"
	"strings"
)

// NATSConfig returns the configuration file for a stock nats-server with the same users,
// permissions and limits. Pass it to `nats-server -c` and the server's URL to --bus. Port 0 or less
// lets the server pick a port.
func (cfg ServerConfig) NATSConfig() string {
	cfg = cfg.withDefaults()
	var b strings.Builder
	port := cfg.Port
	if port <= 0 {
		port = -1
	}
	fmt.Fprintf(&b, "listen: \"%s:%d\"\n", cfg.Host, port)
	fmt.Fprintf(&b, "max_payload: %d\n", cfg.MaxPayload)
	fmt.Fprintf(&b, "write_deadline: %q\n", writeDeadline)
	fmt.Fprintf(&b, "no_fast_producer_stall: true\n")
	if len(cfg.Users) == 0 {
		return b.String()
	}
	b.WriteString("authorization {\n  users = [\n")
	for _, user := range cfg.Users {
		may := PermissionsFor(user.Identity)
		fmt.Fprintf(&b, "    # %s\n    {\n      nkey: %s\n      permissions: {\n", user.Identity.Token(), user.Public)
		fmt.Fprintf(&b, "        publish: { allow: %s }\n", quoteList(may.Publish))
		fmt.Fprintf(&b, "        subscribe: { allow: %s }\n      }\n    }\n", quoteList(may.Subscribe))
	}
	b.WriteString("  ]\n}\n")
	return b.String()
}

func quoteList(subjects []string) string {
	list := make([]string, len(subjects))
	for i, subject := range subjects {
		list[i] = fmt.Sprintf("%q", subject)
	}
	return "[" + strings.Join(list, ", ") + "]"
}
