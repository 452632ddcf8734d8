// Package customers is what other people do with podfall: programs with client-go's
// informers and leader election, a controller-runtime manager with its own kind of
// resource, and `go test` with podfalltest. It knows of podfall what they know: a
// *rest.Config.
package customers

import (
	"flag"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/podfall/podfall/podfalltest"
)

// TestMain keeps the client libraries quiet: what they say of broken connections is what
// these tests are about.
func TestMain(m *testing.M) {
	flag.Parse()
	klog.SetLogger(logr.Discard())
	ctrl.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// patience is how long a condition may take.
const patience = 3 * time.Minute

// clientFor is a client without a limit of its own to the rate of requests.
func clientFor(t *testing.T, c *podfalltest.Cluster) kubernetes.Interface {
	t.Helper()
	client, err := (&cable{}).through(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func makeNamespace(t *testing.T, client kubernetes.Interface, name string) {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := client.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	limit := time.Now().Add(patience)
	every(func() bool {
		if condition() {
			return true
		}
		if time.Now().After(limit) {
			t.Fatalf("%v later it is still not so that %s", patience, what)
		}
		return false
	})
}

// every asks again and again, until the answer is yes.
func every(done func() bool) {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for !done() {
		<-ticker.C
	}
}

// during runs work, and disturbs it every 300 ms until it is done, but only when it is
// ready to be.
func during(t *testing.T, work func() error, ready func() bool, disturb func()) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- work() }()
	ticker := time.NewTicker(300 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			return
		case <-ticker.C:
			if ready() {
				disturb()
			}
		}
	}
}
