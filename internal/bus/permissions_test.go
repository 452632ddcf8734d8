package bus_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/podfall/podfall/internal/bus"
	"github.com/podfall/podfall/proto"
)

// subjects is one of each kind that exists, and of the kinds that must not be used.
var subjects = []string{
	"api.apiserver.get.pods.default.web",
	"api.client:ann.delete.pods.default.web",
	"api.client:bob.delete.pods.default.web",
	"api.node:n1.delete.pods.default.web",
	"api.node:n2.delete.pods.default.web",
	"api.controllers.delete.pods.default.web",
	"api.gateway.delete.pods.default.web",
	"api.>",
	"r.apiserver.node:n1.c.1",
	"r.node:n1.apiserver.c.1",
	"r.node:n1.>",
	"r.node:n2.apiserver.c.1",
	"r.node:n2.node:n1.c.1",
	"r.client:ann.apiserver.c.1",
	"r.client:ann.node:n1.c.1",
	"r.*.apiserver.c.1",
	"r.>",
	"watch.cluster.g1",
	"watch.cluster.>",
	"watch.node.n1.g1",
	"watch.node.n2.g1",
	"watch.>",
	"node.n1.logs",
	"node.n2.logs",
	"node.>",
	"cri.StopContainer",
	"mgmt.board",
	"mgmt.board.get",
	"mgmt.board.set",
	"mgmt.listen",
	"mgmt.history.kubelet%2Fn1",
	"mgmt.history.apiserver",
	"mgmt.history.*",
	"mgmt.inspect.kubelet%2Fn1",
	"mgmt.inspect.apiserver",
	"mgmt.cut.n1",
	"mgmt.>",
	"r.mgmt:bus.client:admin.c.1",
	"r.mgmt:kubelet%2Fn1.mgmt:bus.c.1",
	"_INBOX.abc",
	"$SYS.REQ.SERVER.PING",
	"$JS.API.INFO",
	">",
}

// allowed is written by hand from the comment of PermissionsFor (T6, T16), for subjects above.
var allowed = map[proto.Identity]struct{ publish, subscribe []string }{
	proto.APIServer: {
		publish: []string{
			"r.node:n1.apiserver.c.1", "r.node:n2.apiserver.c.1", "r.client:ann.apiserver.c.1",
			"watch.cluster.g1", "watch.node.n1.g1", "watch.node.n2.g1",
		},
		subscribe: []string{
			"api.apiserver.get.pods.default.web",
			"api.client:ann.delete.pods.default.web", "api.client:bob.delete.pods.default.web",
			"api.node:n1.delete.pods.default.web", "api.node:n2.delete.pods.default.web",
			"api.controllers.delete.pods.default.web", "api.gateway.delete.pods.default.web", "api.>",
			"r.apiserver.node:n1.c.1",
		},
	},
	proto.Controllers: {
		publish:   []string{"api.controllers.delete.pods.default.web"},
		subscribe: []string{"watch.cluster.g1", "watch.cluster.>"},
	},
	proto.Gateway: {
		publish:   []string{"api.gateway.delete.pods.default.web", "node.n1.logs", "node.n2.logs"},
		subscribe: []string{"watch.cluster.g1", "watch.cluster.>"},
	},
	proto.Bus: {
		subscribe: []string{"watch.cluster.g1", "watch.cluster.>"},
	},
	proto.Client("ann"): {
		publish: []string{"api.client:ann.delete.pods.default.web", "node.n1.logs", "node.n2.logs"},
		subscribe: []string{
			"r.client:ann.apiserver.c.1", "r.client:ann.node:n1.c.1", "watch.cluster.g1", "watch.cluster.>",
		},
	},
	proto.Node("n1"): {
		publish: []string{
			"api.node:n1.delete.pods.default.web", "r.apiserver.node:n1.c.1", "r.node:n2.node:n1.c.1",
			"r.client:ann.node:n1.c.1",
		},
		subscribe: []string{"r.node:n1.apiserver.c.1", "r.node:n1.>", "watch.node.n1.g1", "node.n1.logs"},
	},
	proto.Admin: {
		publish: []string{
			"node.n1.logs", "node.n2.logs", "mgmt.board.get", "mgmt.board.set",
			"mgmt.inspect.kubelet%2Fn1", "mgmt.inspect.apiserver", "r.mgmt:bus.client:admin.c.1",
		},
		subscribe: []string{
			"watch.cluster.g1", "watch.cluster.>", "mgmt.board",
		},
	},
	proto.Mgmt("kubelet/n1"): {
		publish: []string{"mgmt.board.get"},
		subscribe: []string{
			"mgmt.board", "mgmt.inspect.kubelet%2Fn1", "r.mgmt:kubelet%2Fn1.mgmt:bus.c.1",
		},
	},
	proto.Mgmt("bus"): {
		publish:   []string{"mgmt.board", "mgmt.board.get", "r.mgmt:kubelet%2Fn1.mgmt:bus.c.1"},
		subscribe: []string{"mgmt.board", "mgmt.board.get", "mgmt.board.set", "r.mgmt:bus.client:admin.c.1"},
	},
	proto.Mgmt("controllers"): {
		publish: []string{
			"mgmt.board.get", "mgmt.board.set", "mgmt.inspect.kubelet%2Fn1", "mgmt.inspect.apiserver",
		},
		subscribe: []string{"mgmt.board"},
	},
	proto.Mgmt("gateway"): {
		publish:   []string{"mgmt.board.get", "mgmt.inspect.kubelet%2Fn1", "mgmt.inspect.apiserver"},
		subscribe: []string{"mgmt.board"},
	},
	proto.Mgmt("apiserver"): {
		publish:   []string{"mgmt.board.get"},
		subscribe: []string{"mgmt.board", "mgmt.inspect.apiserver"},
	},
	proto.Kubelet: {
		publish: []string{"cri.StopContainer"},
	},
	proto.Runtime: {
		subscribe: []string{"cri.StopContainer"},
	},
}

// TestPermissions asks a running server, not the table: what it refuses is what counts.
func TestPermissions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := newKeyring(t)
		for id := range allowed {
			keys.add(id)
		}
		server := startServer(t, bus.ServerConfig{Port: bus.InProcessOnly, Users: keys.users})
		for id, may := range allowed {
			for _, subject := range subjects {
				want := slices.Contains(may.publish, subject)
				if got := rawAllowed(t, server, keys.seeds[id], func(nc *nats.Conn) error {
					return nc.Publish(subject, nil)
				}); got != want && !strings.ContainsAny(subject, "*>") { // wildcards have no responder
					t.Errorf("%s publishes %s: allowed %v, want %v", id, subject, got, want)
				}
				want = slices.Contains(may.subscribe, subject)
				if got := rawAllowed(t, server, keys.seeds[id], func(nc *nats.Conn) error {
					_, err := nc.SubscribeSync(subject)
					return err
				}); got != want {
					t.Errorf("%s reads %s: allowed %v, want %v", id, subject, got, want)
				}
			}
		}
	})
}

// rawAllowed does what a program without our code could do with a stolen seed.
func rawAllowed(t *testing.T, server *bus.Server, seed []byte, do func(*nats.Conn) error) bool {
	t.Helper()
	pair, err := nkeys.FromSeed(seed)
	if err != nil {
		t.Fatal(err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect("", nats.InProcessServer(server), nats.Nkey(public, pair.Sign),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if err := do(nc); err != nil {
		t.Fatal(err)
	}
	if err := nc.FlushWithContext(boundedContext(t)); err != nil {
		t.Fatal(err)
	}
	return !errors.Is(nc.LastError(), nats.ErrPermissionViolation)
}

func TestAnUnknownKeyIsRefused(t *testing.T) {
	keys := newKeyring(t).add(proto.APIServer)
	server := startServer(t, bus.ServerConfig{Users: keys.users})
	seed, _, err := bus.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	for name, seed := range map[string][]byte{"unknown key": seed, "no key": nil} {
		_, err := bus.Dial(boundedContext(t), bus.Config{
			Identity: proto.APIServer, Seed: seed, URLs: []string{server.URL()},
		})
		if !errors.Is(err, bus.ErrForbidden) {
			t.Errorf("%s: Dial: %v, want %v", name, err, bus.ErrForbidden)
		}
	}
}
