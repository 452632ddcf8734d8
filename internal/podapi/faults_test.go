package podapi

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/internal/fault"
	"github.com/podfall/podfall/proto"
)

// tableWithFault is a table with one fault of a point.
func tableWithFault(t *testing.T, point fault.Point, where fault.Attributes, effect fault.Effect) *fault.Table {
	t.Helper()
	f, err := fault.New("f", fault.Spec{Point: point, Where: where, Effect: effect, Count: 1}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	table := fault.NewTable(fault.Config{})
	table.Set([]fault.Fault{f})
	return table
}

func TestRequestFaults(t *testing.T) {
	mine := fault.Attributes{Client: "client:ann", Verb: "get", Resource: "pods", Namespace: "default", Name: "web"}
	for name, row := range map[string]struct {
		where  fault.Attributes
		effect fault.Effect
		took   time.Duration
		asked  int
		check  func(error) bool
	}{
		"an error":        {mine, fault.Effect{Kind: fault.Error, Code: "409"}, 0, 0, apierrors.IsConflict},
		"without a code":  {mine, fault.Effect{Kind: fault.Error}, 0, 0, apierrors.IsInternalError},
		"not mine":        {fault.Attributes{Client: "controllers"}, fault.Effect{Kind: fault.Error}, 0, 1, func(err error) bool { return err == nil }},
		"a delay":         {mine, fault.Effect{Kind: fault.Delay, Delay: metav1.Duration{Duration: 3 * time.Second}}, 3 * time.Second, 1, func(err error) bool { return err == nil }},
		"held":            {mine, fault.Effect{Kind: fault.Hang}, 30 * time.Second, 0, apierrors.IsTimeout},
		"sent twice":      {mine, fault.Effect{Kind: fault.Duplicate}, 0, 2, func(err error) bool { return err == nil }},
		"the answer lost": {mine, fault.Effect{Kind: fault.Drop}, 10*time.Second + minRetryDelay, 2, func(err error) bool { return err == nil }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				link := &scriptedLink{answer: func(int, proto.APISubject, *proto.Request) ([]*proto.Response, error) {
					return okResponse(podItem(t, "web", 7)), nil
				}}
				c := newClient(link, Config{Faults: tableWithFault(t, fault.APIRequest, row.where, row.effect)})
				began := time.Now()
				_, err := c.Get(t.Context(), web, metav1.GetOptions{})
				if !row.check(err) || len(link.asked) != row.asked || time.Since(began) != row.took {
					t.Errorf("%v after %s and %d requests, want %s and %d", err, time.Since(began), len(link.asked), row.took, row.asked)
				}
				for _, request := range link.asked {
					if request.GetOperation() != link.asked[0].GetOperation() {
						t.Error("it was sent as another operation")
					}
				}
			})
		})
	}
}

func TestClientNames(t *testing.T) {
	c := newClient(&scriptedLink{}, Config{})
	for want, got := range map[string]string{
		"client:ann": c.clientName(t.Context()), "controllers/job": c.WithName("controllers/job").clientName(t.Context()),
		"gateway/kubectl": c.WithName("x").clientName(WithClientName(t.Context(), "gateway/kubectl")),
	} {
		if got != want {
			t.Errorf("the speaker is %q, want %q", got, want)
		}
	}
}

func TestDeliveryFaults(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	where := fault.Attributes{Client: "me", Verb: "MODIFIED", Resource: "pods", Name: "web"}
	for want, effect := range map[string]fault.Effect{
		"":                        {Kind: fault.Drop},
		"MODIFIED@0s MODIFIED@0s": {Kind: fault.Duplicate},
		"MODIFIED@2s":             {Kind: fault.Delay, Delay: metav1.Duration{Duration: 2 * time.Second}},
		"ERROR@0s over":           {Kind: fault.Expire},
		"MODIFIED@1m0s":           {Kind: fault.Hang},
	} {
		synctest.Test(t, func(t *testing.T) {
			table := tableWithFault(t, fault.WatchDeliver, where, effect)
			if effect.Kind == fault.Hang {
				timer := time.AfterFunc(time.Minute, func() { table.Set(nil) })
				defer timer.Stop()
			}
			began, over := time.Now(), errors.New("over")
			var got []string
			err := DeliverWithFaults(t.Context(), table, "me", Target{Kind: podKind}, watch.Event{Type: watch.Modified, Object: pod}, func(event watch.Event) error {
				got = append(got, fmt.Sprintf("%s@%s", event.Type, time.Since(began)))
				if event.Type == watch.Error {
					return over
				}
				return nil
			})
			if err != nil {
				got = append(got, err.Error())
			}
			if text := strings.Join(got, " "); text != want {
				t.Errorf("%s: delivered %q, want %q", effect.Kind, text, want)
			}
		})
	}
}
