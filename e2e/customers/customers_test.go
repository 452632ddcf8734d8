// Package customers tests how other programs use podfall: client-go informers and leader election,
// a controller-runtime manager with a custom resource, and `go test` with podfalltest. Its only
// access to podfall is a *rest.Config.
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

// TestMain silences the client libraries, because these tests break connections on purpose.
func TestMain(m *testing.M) {
	flag.Parse()
	klog.SetLogger(logr.Discard())
	ctrl.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// conditionTimeout bounds how long a condition may take.
const conditionTimeout = 3 * time.Minute

// newClient returns a client without a rate limit of its own.
func newClient(t *testing.T, c *podfalltest.Cluster) kubernetes.Interface {
	t.Helper()
	client, err := (&flakyDialer{}).newClient(c.Config())
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
	limit := time.Now().Add(conditionTimeout)
	pollUntil(func() bool {
		if condition() {
			return true
		}
		if time.Now().After(limit) {
			t.Fatalf("%v later it is still not so that %s", conditionTimeout, what)
		}
		return false
	})
}

// pollUntil calls done repeatedly until it returns true.
func pollUntil(done func() bool) {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for !done() {
		<-ticker.C
	}
}

// disturbWhile runs work, and calls disturb every 300 ms until work is done, if ready returns true.
func disturbWhile(t *testing.T, work func() error, ready func() bool, disturb func()) {
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
