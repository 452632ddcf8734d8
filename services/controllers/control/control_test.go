package control

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto/kinds"
)

// fakeAPI notes patches and deletes.
type fakeAPI struct {
	API
	patches []string
	deletes []metav1.DeleteOptions
}

func (f *fakeAPI) Patch(_ context.Context, _ podapi.Target, _ types.PatchType, patch []byte, _ metav1.PatchOptions) (kinds.Object, error) {
	f.patches = append(f.patches, string(patch))
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: patched}}, nil
}

// patched is the resource version of what was patched.
const patched = "7"

func (f *fakeAPI) Delete(_ context.Context, _ podapi.Target, options metav1.DeleteOptions) (runtime.Object, error) {
	f.deletes = append(f.deletes, options)
	return &corev1.Pod{}, nil
}

func TestSlowStart(t *testing.T) {
	var mu sync.Mutex
	var asked []int
	count := func(fails int) func(int) error {
		return func(i int) error {
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, i)
			if i == fails {
				return errors.New("no")
			}
			return nil
		}
	}
	good, err := SlowStart(10, count(-1))
	slices.Sort(asked)
	if good != 10 || err != nil || !slices.Equal(asked, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}) {
		t.Errorf("%d, %v, %v; want each of 10 once", good, err, asked)
	}
	asked = nil
	if good, err = SlowStart(1000, count(4)); good != 6 || err == nil || len(asked) != 7 {
		t.Errorf("%d of %d went well, %v; want 6 of 7: batches of 1, 2 and 4", good, len(asked), err)
	}
	asked = nil
	if good, err = SlowStart(1000, count(0)); good != 0 || err == nil || len(asked) != 1 {
		t.Errorf("%d of %d went well, %v; want none of 1", good, len(asked), err)
	}
}

// TestDeleteIsOfOneObject has a delete carry the UID of what was seen.
func TestDeleteIsOfOneObject(t *testing.T) {
	api := &fakeAPI{}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u"}}
	if err := Of[*corev1.Pod](api, "pods").Delete(t.Context(), pod, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if p := api.deletes[0].Preconditions; p == nil || p.UID == nil || *p.UID != "u" {
		t.Errorf("preconditions %+v, want the UID", p)
	}
}

func TestClaimer(t *testing.T) {
	owner := &corev1.ReplicationController{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "rc", UID: "rc"}}
	pod := func(name string, labels map[string]string, owner types.UID) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), Labels: labels}}
		if owner != "" {
			p.OwnerReferences = []metav1.OwnerReference{{UID: owner, Controller: new(true)}}
		}
		return p
	}
	web := map[string]string{"app": "web"}
	pods := []*corev1.Pod{pod("mine", web, "rc"), pod("other", web, "x"), pod("orphan", web, ""), pod("moved", nil, "rc")}
	for _, c := range []struct {
		name    string
		fresh   *corev1.ReplicationController
		claimed int
		patches []string
		fails   bool
	}{
		{"adopts and releases", owner, 2, []string{
			`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ReplicationController","name":"rc","uid":"rc","controller":true,"blockOwnerDeletion":true}],"uid":"orphan"}}`,
			`{"metadata":{"ownerReferences":[{"$patch":"delete","uid":"rc"}],"uid":"moved"}}`,
		}, false},
		{"adopts nothing for another of its name", &corev1.ReplicationController{ObjectMeta: metav1.ObjectMeta{UID: "new"}}, 1, []string{
			`{"metadata":{"ownerReferences":[{"$patch":"delete","uid":"rc"}],"uid":"moved"}}`,
		}, true},
	} {
		api := &fakeAPI{}
		mine, err := Claimer[*corev1.Pod]{
			Objects: Of[*corev1.Pod](api, "pods"), Owner: owner, OwnerKind: corev1.SchemeGroupVersion.WithKind("ReplicationController"),
			Selector: labels.SelectorFromSet(web), Fresh: func(context.Context) (kinds.Object, error) { return c.fresh, nil },
		}.Claim(t.Context(), pods)
		if len(mine) != c.claimed || (err != nil) != c.fails || !slices.Equal(api.patches, c.patches) {
			t.Errorf("%s: %d pods, %v, patches %q; want %d, %q", c.name, len(mine), err, api.patches, c.claimed, c.patches)
		}
		if !c.fails && mine[1].ResourceVersion != patched {
			t.Errorf("%s: it goes on with the version %q of what it has adopted, not with that which it has written", c.name, mine[1].ResourceVersion)
		}
	}
}
