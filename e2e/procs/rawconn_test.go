package procs

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	protobuf "google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	layouts "github.com/podfall/podfall/cmd/podfall/cluster"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
)

// rawConn is a bus connection without any of podfall's client-side rules.
type rawConn struct {
	t       *testing.T
	id      proto.Identity
	nc      *nats.Conn
	refused chan error
	asked   int
}

// tryConnect connects with the key of an identity, and returns the error if it is refused.
func tryConnect(t *testing.T, at, keys string, id proto.Identity) (*rawConn, error) {
	t.Helper()
	key, err := nats.NkeyOptionFromSeed(filepath.Join(keys, id.Token()+".nk"))
	if err != nil {
		t.Fatal(err)
	}
	s := &rawConn{t: t, id: id, refused: make(chan error, 100)}
	s.nc, err = nats.Connect(at, key, nats.NoReconnect(), nats.Timeout(conditionTimeout), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		s.refused <- err
	}))
	if err == nil {
		t.Cleanup(s.nc.Close)
	}
	return s, err
}

// connectRaw is tryConnect with a valid key.
func connectRaw(t *testing.T, at, keys string, id proto.Identity) *rawConn {
	t.Helper()
	s, err := tryConnect(t, at, keys, id)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// request sends data and returns the single answer.
func (s *rawConn) request(to proto.Identity, subject string, data []byte) ([]byte, error) {
	s.t.Helper()
	s.asked++
	reply := proto.ReplySubject(s.id, to, fmt.Sprintf("stranger.%d", s.asked))
	answers, err := s.nc.SubscribeSync(reply)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answers.Unsubscribe() }() // fails if the connection is closed
	if err := s.nc.PublishRequest(subject, reply, data); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), conditionTimeout)
	defer cancel()
	msg, err := answers.NextMsgWithContext(ctx)
	if err != nil {
		return nil, err
	}
	if msg.Header.Get("Status") == "503" {
		return nil, nats.ErrNoResponders
	}
	return msg.Data, nil
}

// apiStatus sends a request to the apiserver and returns the Status in its answer.
func (s *rawConn) apiStatus(subject string, data []byte) *metav1.Status {
	s.t.Helper()
	raw, err := s.request(proto.APIServer, subject, data)
	if err != nil {
		s.t.Errorf("%.100s: %v", subject, err)
		return &metav1.Status{}
	}
	answer := &proto.Response{}
	if err := protobuf.Unmarshal(raw, answer); err != nil {
		s.t.Errorf("%.100s: unreadable answer: %v", subject, err)
		return &metav1.Status{}
	}
	decoded, err := kinds.DecodeAny(answer.GetItem().GetObject())
	status, ok := decoded.(*metav1.Status)
	if !ok || status.Code != answer.GetCode() {
		s.t.Errorf("%.100s: answered with code %d and %v (%v), want a Status", subject, answer.GetCode(), decoded, err)
		return &metav1.Status{}
	}
	return status
}

// wantRefused checks that the bus refuses what do sends.
func (s *rawConn) wantRefused(want string, do func() error) {
	s.t.Helper()
	err := do()
	if err == nil {
		err = s.nc.FlushWithContext(s.bounded())
	}
	if err == nil {
		select {
		case err = <-s.refused:
		case <-s.bounded().Done():
		}
	}
	if err == nil || !strings.Contains(err.Error(), want) {
		s.t.Errorf("got %v, want a refusal that says %q", err, want)
	}
}

func (s *rawConn) bounded() context.Context {
	ctx, cancel := context.WithTimeout(s.t.Context(), conditionTimeout)
	s.t.Cleanup(cancel)
	return ctx
}

// hubAddress returns the directory of the cluster's keys, and the hub's URL.
func (c *cluster) hubAddress() (keys, hub string) {
	c.t.Helper()
	layout := layouts.Layout{Root: c.data}
	addresses, err := layout.Addresses()
	if err != nil {
		c.t.Fatal(err)
	}
	return layout.Keys(), addresses.Hub[0]
}

// nodeBusURL returns the URL of a node's private bus.
func nodeBusURL(t *testing.T, c *cluster, node string) string {
	t.Helper()
	var at struct {
		URL string `json:"url"`
	}
	data, err := os.ReadFile(filepath.Join(c.data, "run", "runtime-"+node+".json"))
	if err == nil {
		err = json.Unmarshal(data, &at)
	}
	if err != nil {
		t.Fatal(err)
	}
	return at.URL
}

// inventory returns all stored objects with their versions, except those that change by themselves,
// and the storage class that a controller creates some time after the start.
func inventory(t *testing.T, api client) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, kind := range kinds.All() {
		list, err := api.List(t.Context(), podapi.Target{Kind: kind}, metav1.ListOptions{})
		ownWork := []string{"events", "storageclasses", "customresourcedefinitions"} // controllers create these at any time
		if slices.Contains(ownWork, kind.Resource) || apierrors.IsMethodNotSupported(err) || apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			t.Fatalf("list %s: %v", kind.Resource, err)
		}
		for _, item := range list.Items {
			version := item.GetResourceVersion()
			if kind.Resource == "leases" || kind.Resource == "nodes" {
				version = "" // heartbeats
			}
			found[kind.GroupResource().String()+" "+item.GetNamespace()+"/"+item.GetName()] = version
		}
	}
	return found
}

// initialInventory returns the inventory of a new cluster, once the objects that controllers and
// kubelets create at the start exist: each namespace's account and certificate of the authority, and each
// node's lease.
func initialInventory(t *testing.T, api client) (found map[string]string) {
	t.Helper()
	eventually(t, "each namespace has its account, and each node its lease", func() bool {
		found = inventory(t, api)
		for name := range found {
			_, namespace, _ := strings.Cut(name, "namespaces /")
			_, node, _ := strings.Cut(name, "nodes /")
			_, account := found["serviceaccounts "+namespace+"/default"]
			_, lease := found["leases.coordination.k8s.io "+corev1.NamespaceNodeLease+"/"+node]
			_, authority := found["configmaps "+namespace+"/kube-root-ca.crt"]
			if namespace != "" && (!account || !authority) || node != "" && !lease {
				return false
			}
		}
		return true
	})
	return found
}

// pids returns the PIDs of the cluster's processes; all must run.
func (c *cluster) pids() map[string]int {
	c.t.Helper()
	var status struct {
		Processes []struct {
			Name  string
			PID   int
			State string
		}
	}
	if err := json.Unmarshal([]byte(c.must("status", "-o", "json")), &status); err != nil {
		c.t.Fatal(err)
	}
	pids := map[string]int{}
	for _, process := range status.Processes {
		pids[process.Name] = process.PID
		if process.State != "running" {
			c.t.Errorf("%s is %s", process.Name, process.State)
		}
	}
	return pids
}

func (c *cluster) samePIDs(before map[string]int) {
	c.t.Helper()
	if after := c.pids(); !maps.Equal(before, after) {
		c.t.Errorf("processes were %v, and are %v", before, after)
	}
}

// wantUnharmed checks that no object was added, that no process was replaced or has panicked, and
// that the cluster still works.
func (c *cluster) wantUnharmed(api client, before map[string]string, pids map[string]int) {
	c.t.Helper()
	t, ok := c.t.(*testing.T)
	if !ok {
		c.t.Fatal("not a test")
	}
	after := inventory(t, api)
	for name, version := range after {
		if was, known := before[name]; !known || was != version {
			t.Errorf("%s is at version %q, and was at %q", name, version, was)
		}
	}
	for name := range before {
		if _, there := after[name]; !there {
			t.Errorf("%s is gone", name)
		}
	}
	c.samePIDs(pids)
	if log := c.readLog("apiserver"); strings.Contains(log, "panic") {
		t.Errorf("the apiserver has panicked:\n%s", log)
	}
	c.runPod("still-working", "on TERM exits 0 after 0s", 1)
	c.must("delete", "pod", "still-working")
}
