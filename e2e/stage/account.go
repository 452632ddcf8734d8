package stage

import (
	"net"
	"path/filepath"
	"slices"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/runtimeapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/runtime"
	"github.com/podfall/podfall/services/runtime/store"
)

// Observe returns a second client of a node's runtime. It does not act as a kubelet, whose boot
// would shut out the node's own. The client is closed with the test.
func (c *Cluster) Observe(node string) *runtimeapi.Client {
	c.t.Helper()
	conn := c.dial(proto.Client("observer"), func() (net.Conn, error) { return c.parts.NodeBus(node) })
	c.t.Cleanup(conn.Close)
	return runtimeapi.NewClient(conn, clock.Clock{})
}

// Signals returns the runtime's log of sent signals, oldest first. The runtime is stopped for that.
func (c *Cluster) Signals(node string) []store.Entry {
	c.t.Helper()
	c.Stop("runtime/" + node)
	records, _, err := store.Open(store.Config{Path: filepath.Join(c.dir, node, "runtime", runtime.File), NoSync: true})
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() {
		if err := records.Close(); err != nil {
			c.t.Error(err)
		}
	}()
	entries, err := records.History(0, 1<<20)
	if err != nil {
		c.t.Fatal(err)
	}
	return slices.DeleteFunc(entries, func(entry store.Entry) bool { return entry.What != store.Signaled })
}
