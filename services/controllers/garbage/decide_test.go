package garbage

import (
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// item is a Thing; its owners are "uid" or "uid!" for one that it blocks.
func item(uid string, owners ...string) Item {
	i := Item{Kind: schema.GroupVersionKind{Version: "v1", Kind: "Thing"}, Namespace: "default", Name: uid, UID: types.UID(uid)}
	for _, owner := range owners {
		ref := metav1.OwnerReference{APIVersion: "v1", Kind: "Thing", Name: owner, UID: types.UID(owner)}
		if owner[len(owner)-1] == '!' {
			ref.Name, ref.UID, ref.BlockOwnerDeletion = owner[:len(owner)-1], types.UID(owner[:len(owner)-1]), new(true)
		}
		i.Owners = append(i.Owners, ref)
	}
	return i
}

func (i Item) deleted(finalizers ...string) Item {
	i.Deleting, i.Finalizers = true, finalizers
	return i
}

const foreground, orphan = metav1.FinalizerDeleteDependents, metav1.FinalizerOrphanDependents

func TestDecide(t *testing.T) {
	rows := []struct {
		name       string
		latest     Item
		owners     []OwnerState
		dependents []Item
		want       Decision
	}{
		{name: "no owner", latest: item("a")},
		{name: "being deleted", latest: item("a", "o").deleted(), owners: []OwnerState{Absent}},
		{name: "owner is there", latest: item("a", "o"), owners: []OwnerState{Solid}},
		{
			name: "owner is gone", latest: item("a", "o"), owners: []OwnerState{Absent},
			want: Decision{Outcome: Delete, Policy: metav1.DeletePropagationBackground},
		},
		{
			name: "one of two is gone", latest: item("a", "o", "p"), owners: []OwnerState{Absent, Solid},
			want: Decision{Outcome: Release, References: item("a", "p").Owners},
		},
		{
			name: "one is gone, one waits", latest: item("a", "o", "p"), owners: []OwnerState{Absent, Waiting},
			want: Decision{Outcome: Delete, Policy: metav1.DeletePropagationBackground},
		},
		{
			name: "owner waits, has dependents", latest: item("a", "o"), owners: []OwnerState{Waiting}, dependents: []Item{item("b", "a")},
			want: Decision{Outcome: Delete, Policy: metav1.DeletePropagationForeground},
		},
		{
			name: "a circle", latest: item("a", "o!"), owners: []OwnerState{Waiting}, dependents: []Item{item("o", "a!").deleted(foreground)},
			want: Decision{Outcome: Delete, Policy: metav1.DeletePropagationForeground, Unblock: true},
		},
		{
			name: "owner is gone, asks to orphan", latest: func() Item { i := item("a", "o"); i.Finalizers = []string{orphan}; return i }(),
			owners: []OwnerState{Absent}, want: Decision{Outcome: Delete, Policy: metav1.DeletePropagationOrphan},
		},
		{name: "owner cannot be looked up", latest: item("a", "o", "p"), owners: []OwnerState{Unresolvable, Absent}},
		{name: "nothing blocks", latest: item("a").deleted(foreground), dependents: []Item{item("b", "a")}, want: Decision{Outcome: Finish}},
		{
			name: "one blocks", latest: item("a").deleted(foreground),
			dependents: []Item{item("b", "a!"), item("c", "a!").deleted(foreground), item("d", "a")},
			want:       Decision{Process: []types.UID{"b"}},
		},
	}
	for _, row := range rows {
		if got := Decide(row.latest, row.owners, row.dependents); !reflect.DeepEqual(got, row.want) {
			t.Errorf("%s: %+v, want %+v", row.name, got, row.want)
		}
	}
}

func TestStateOf(t *testing.T) {
	ref := item("a", "o").Owners[0]
	other, waits := item("x"), item("o").deleted(foreground)
	there := item("o").deleted("somebody/else")
	for want, found := range map[OwnerState][]*Item{Absent: {nil, &other}, Waiting: {&waits}, Solid: {&there}} {
		for _, f := range found {
			if got := StateOf(ref, f); got != want {
				t.Errorf("%v: %v, want %v", f, got, want)
			}
		}
	}
}

func TestGraph(t *testing.T) {
	g := NewGraph()
	look := func(what string, work Work, want ...types.UID) {
		t.Helper()
		if len(work.Process) != len(want) || len(want) > 0 && !reflect.DeepEqual(work.Process, want) {
			t.Errorf("%s: look at %q, want %q", what, work.Process, want)
		}
	}
	look("a dependent before its owner", g.Set(item("a", "o!")), "a", "o")
	if _, virtual, known := g.Get("o"); !virtual || !known {
		t.Error("the owner is not virtual")
	}
	look("the owner", g.Set(item("o")))
	look("nothing new", g.Set(item("a", "o!")))
	look("the owner in the foreground", g.Set(item("o").deleted(foreground)), "a", "o")
	unblocked := item("a", "o!")
	unblocked.Owners = Unblocked(unblocked)
	look("no longer blocked", g.Set(unblocked), "o")
	look("the dependent goes", g.Remove("a"), "o")
	if work := g.Set(item("p").deleted(orphan)); len(work.Orphan) != 1 || work.Orphan[0] != "p" {
		t.Errorf("orphan %q", work.Orphan)
	}
	g.Set(item("b", "q"))
	g.Set(item("c", "q"))
	look("the owner was never there", g.Remove("q"), "b", "c")
	if got := g.Dependents("q"); len(got) != 0 {
		t.Errorf("dependents of nobody: %v", got)
	}

	elsewhere := item("q")
	elsewhere.Namespace = "other"
	g.Set(item("d", "q"))
	work := g.Set(elsewhere)
	look("an owner in another namespace", work, "d")
	if len(work.Misplaced) != 1 {
		t.Fatalf("misplaced %v", work.Misplaced)
	}
	want := `ownerRef [v1/Thing, namespace: default, name: q, uid: q] does not exist in namespace "default"`
	if got := MisplacedMessage(work.Misplaced[0]); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	work = g.Replace(elsewhere.Kind.GroupKind(), []Item{item("d", "q")})
	look("a list without the owner", work, "d")
}

func TestGone(t *testing.T) {
	g := NewGraph()
	g.Set(item("a", "o"))
	if g.CheckSeen("o") == nil || g.CheckSeen("a") != nil || g.CheckSeen("nobody") != nil {
		t.Error("only the owner was never seen")
	}
	g.RecordAbsent("a")
	g.RecordAbsent("o")
	if g.IsAbsent("a") || !g.IsAbsent("o") {
		t.Error("what is there was taken for gone, or what is gone was not")
	}
	g.Set(item("o"))
	if g.CheckSeen("o") != nil {
		t.Error("the owner was seen")
	}
}

func TestOptions(t *testing.T) {
	options := Decision{Policy: metav1.DeletePropagationForeground}.Options(item("a"))
	if *options.Preconditions.UID != "a" || *options.PropagationPolicy != metav1.DeletePropagationForeground || options.GracePeriodSeconds != nil {
		t.Errorf("options %v", options)
	}
}

func TestPatches(t *testing.T) {
	i := item("a", "o")
	i.Version = "7"
	data, err := ReferencesPatch(i, nil)
	if want := `{"metadata":{"ownerReferences":null,"resourceVersion":"7","uid":"a"}}`; err != nil || string(data) != want {
		t.Errorf("%s %v", data, err)
	}
	i.Finalizers = []string{"x", foreground}
	data, err = FinalizerPatch(i, foreground)
	if want := `{"metadata":{"finalizers":["x"],"resourceVersion":"7","uid":"a"}}`; err != nil || string(data) != want {
		t.Errorf("%s %v", data, err)
	}
}
