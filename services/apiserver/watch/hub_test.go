package watch

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	protobuf "google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver/store"
)

func TestTransition(t *testing.T) {
	for name, row := range map[string]struct {
		was, is bool
		want    proto.EventType
	}{
		"TD-040 no/yes":  {false, true, proto.EventType_EVENT_TYPE_ADDED},
		"TD-040 yes/yes": {true, true, proto.EventType_EVENT_TYPE_MODIFIED},
		"TD-040 yes/no":  {true, false, proto.EventType_EVENT_TYPE_DELETED},
		"TD-040 no/no":   {false, false, proto.EventType_EVENT_TYPE_UNSPECIFIED},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Transition(row.was, row.is); got != row.want {
				t.Errorf("got %v, want %v", got, row.want)
			}
		})
	}
}

// hubRig is a hub that is driven by hand.
type hubRig struct {
	*Hub
	// matched counts the calls of Match, and tried the matching of objects by groups.
	matched  int
	revision int64
}

func newHubRig(t testing.TB) *hubRig {
	t.Helper()
	s, err := store.Open(t.Context(), store.Config{Path: filepath.Join(t.TempDir(), "store"), NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	rig := &hubRig{revision: s.Snapshot().Revision()}
	rig.Hub = New(Config{
		Boot: "boot", Store: s,
		Publish: func(string, *proto.Frame) error { return nil },
		Match: func(_ string, obj kinds.Object) (labels.Set, fields.Set) {
			rig.matched++
			p, ok := obj.(*corev1.Pod)
			if !ok {
				t.Errorf("looked at a %T", obj)
				return nil, nil
			}
			return p.Labels, fields.Set{"metadata.name": p.Name, "spec.nodeName": p.Spec.NodeName}
		},
	})
	return rig
}

func (r *hubRig) join(t testing.TB, scope proto.WatchScope) *proto.Join {
	t.Helper()
	selected, err := newSelection(scope)
	if err != nil {
		t.Fatal(err)
	}
	join, _ := r.joinGroup("cluster", selected)
	return join
}

// bind is the record of a pod on a node, after another.
func (r *hubRig) bind(name, node string, before *store.Record) store.Event {
	r.revision++
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns"}, Spec: corev1.PodSpec{NodeName: node}}
	record := &store.Record{
		Key: store.Key{Resource: "pods", Namespace: "ns", Name: name}, Revision: r.revision, Object: p, Data: []byte(node),
	}
	kind := store.Modified
	if before == nil {
		kind = store.Added
	}
	return store.Event{Revision: r.revision, Type: kind, Record: record, Previous: before}
}

func onNode(node string) proto.WatchScope {
	return proto.WatchScope{Resource: "pods", FieldSelector: "spec.nodeName=" + node}
}

func TestAChangeIsTriedOnlyWhereItMayMatter(t *testing.T) {
	rig := newHubRig(t)
	for i := range 1000 {
		rig.join(t, onNode(fmt.Sprint("n", i)))
	}
	rig.join(t, proto.WatchScope{Resource: "pods"})
	rig.join(t, proto.WatchScope{Resource: "pods", FieldSelector: "metadata.name=a"})
	rig.join(t, proto.WatchScope{Resource: "nodes"})
	added := rig.bind("a", "n1", nil)
	moved := rig.bind("a", "n2", added.Record)
	of := rig.groups.byResource["pods"]
	for name, row := range map[string]struct {
		before, after view
		want          []string
	}{
		"one node":      {view{}, rig.views.get(added.Record), []string{"", "metadata.name=a", "spec.nodeName=n1"}},
		"node and node": {rig.views.get(added.Record), rig.views.get(moved.Record), []string{"", "metadata.name=a", "spec.nodeName=n1", "spec.nodeName=n2"}},
		"removed":       {rig.views.get(moved.Record), view{}, []string{"", "metadata.name=a", "spec.nodeName=n2"}},
	} {
		var tried []string
		of.forEachCandidate(row.before, row.after, func(g *group) { tried = append(tried, g.scope.FieldSelector) })
		slices.Sort(tried)
		if !slices.Equal(tried, row.want) {
			t.Errorf("%s: tried %v, want %v", name, tried, row.want)
		}
	}
}

func TestAVersionIsLookedAtOnce(t *testing.T) {
	rig := newHubRig(t)
	for i := range 10 {
		rig.join(t, proto.WatchScope{Resource: "pods", LabelSelector: fmt.Sprint("n!=", i)})
	}
	var before *store.Record
	for i := range 100 {
		event := rig.bind("a", fmt.Sprint("n", i), before)
		rig.backlog.add(event.Revision, []store.Event{event})
		if frames := rig.nextFrames(); len(frames) != 10 {
			t.Fatalf("%d frames, want one for each group", len(frames))
		}
		before = event.Record
	}
	if rig.matched != 100 {
		t.Errorf("looked %d times at 100 versions", rig.matched)
	}
}

// racing is a store that is written to, and tells the hub, while a reader takes its
// snapshot.
type racing struct {
	Store
	meanwhile func()
}

func (r racing) Snapshot() *store.Snapshot {
	taken := r.Store.Snapshot()
	r.meanwhile()
	return taken
}

func TestAChangeAfterTheSnapshotComesAfterTheJoin(t *testing.T) {
	rig := newHubRig(t)
	rig.join(t, proto.WatchScope{Resource: "pods"})
	var later []frame
	rig.cfg.Store = racing{rig.cfg.Store, func() {
		event := rig.bind("a", "n1", nil)
		rig.backlog.add(event.Revision, []store.Event{event})
		later = rig.nextFrames()
	}}
	join := rig.join(t, proto.WatchScope{Resource: "pods"})
	if len(later) != 1 || later[0].GetSequence() <= join.GetSequence() {
		t.Errorf("joined at sequence %d and revision %d, which leaves out %v", join.GetSequence(), join.GetRevision(), later)
	}
}

// circling is a store whose history does not go on.
type circling struct{ Store }

func (circling) SinceAtMost(int64, int) ([]store.Event, error) {
	return []store.Event{{Revision: 7, Record: &store.Record{}}}, nil
}

// TestAHistoryThatDoesNotGoOn has a watch of one end, where it would be read for ever.
func TestAHistoryThatDoesNotGoOn(t *testing.T) {
	rig := newHubRig(t)
	rig.cfg.Store = circling{rig.cfg.Store}
	reading := &partSender{hub: rig.Hub}
	if _, err := reading.addHistory(t.Context(), selection{}, 7, 9); err == nil {
		t.Error("it has come to an end")
	}
}

func TestABatchIsOneFrameForAGroup(t *testing.T) {
	rig := newHubRig(t)
	join := rig.join(t, proto.WatchScope{Resource: "pods"})
	rig.join(t, proto.WatchScope{Resource: "pods", Namespace: "other"})
	a := rig.bind("a", "n1", nil)
	b := rig.bind("b", "n1", nil)
	rig.backlog.add(a.Revision, []store.Event{a})
	rig.backlog.add(b.Revision+5, []store.Event{b}) // five changes of other kinds
	frames := rig.nextFrames()
	if len(frames) != 1 || len(frames[0].GetEvents()) != 2 {
		t.Fatalf("got %v, want one frame of two events", frames)
	}
	if frames[0].GetSequence() != join.GetSequence()+1 || int64(frames[0].GetRevision()) != b.Revision+5 {
		t.Errorf("got sequence %d, revision %d", frames[0].GetSequence(), frames[0].GetRevision())
	}
	beats := rig.heartbeatFrames()
	if len(beats) != 2 {
		t.Fatalf("%d heartbeats, want one for each group", len(beats))
	}
	for _, beat := range beats {
		if int64(beat.GetRevision()) != b.Revision+5 || len(beat.GetEvents()) != 0 {
			t.Errorf("heartbeat %v", beat)
		}
	}
}

func TestASequenceIsNeverUsedAgain(t *testing.T) {
	rig := newHubRig(t)
	first := rig.join(t, onNode("n1"))
	for range 5 {
		rig.heartbeatFrames()
	}
	rig.groups.dropIdle(time.Now().Add(time.Hour))
	if rig.GroupsForTest() != 0 || len(rig.groups.byResource) != 0 {
		t.Fatalf("%d groups are left", rig.GroupsForTest())
	}
	if rig.Renew("cluster", onNode("n1")) {
		t.Error("a group that is gone was renewed")
	}
	// A reader of the old group waits for the frame after its sixth.
	again := rig.join(t, onNode("n1"))
	if next := again.GetSequence() + 1; next <= first.GetSequence()+6 {
		t.Errorf("the next frame has sequence %d, which a reader of the old group takes for its own", next)
	}
	if !rig.Renew("cluster", onNode("n1")) {
		t.Error("a live group was not renewed")
	}
}

func TestAnOverrunLeavesAHoleInEverySequence(t *testing.T) {
	rig := newHubRig(t)
	join := rig.join(t, onNode("n1"))
	event := rig.bind("a", "n1", nil)
	rig.backlog.add(event.Revision, make([]store.Event, backlogLimit))
	rig.backlog.add(event.Revision, []store.Event{event})
	if frames := rig.nextFrames(); len(frames) != 0 {
		t.Fatalf("got %d frames of what was forgotten", len(frames))
	}
	beat := rig.heartbeatFrames()[0]
	if beat.GetSequence() != join.GetSequence()+2 || int64(beat.GetRevision()) != event.Revision {
		t.Errorf("got sequence %d and revision %d, want a hole after %d", beat.GetSequence(), beat.GetRevision(), join.GetSequence())
	}
}

func TestAnEventIsEncodedAsItIsStored(t *testing.T) {
	rig := newHubRig(t)
	rig.join(t, onNode("n1"))
	added := rig.bind("a", "n1", nil)
	left := rig.bind("a", "n2", added.Record)
	rig.backlog.add(left.Revision, []store.Event{added, left})
	events := rig.nextFrames()[0].GetEvents()
	want := []*proto.Event{
		{Type: proto.EventType_EVENT_TYPE_ADDED, Revision: uint64(added.Revision), Object: []byte("n1")},
		{Type: proto.EventType_EVENT_TYPE_DELETED, Revision: uint64(left.Revision), Object: []byte("n1")},
	}
	for i := range want {
		if !protobuf.Equal(events[i], want[i]) {
			t.Errorf("event %d is %v, want %v", i, events[i], want[i])
		}
	}
}

// BenchmarkMatch is one change among thousands of groups: two concern it.
func BenchmarkMatch(b *testing.B) {
	for _, nodes := range []int{10, 5000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			rig := newHubRig(b)
			rig.join(b, proto.WatchScope{Resource: "pods"})
			for i := range nodes {
				rig.join(b, onNode(fmt.Sprint("n", i)))
			}
			var before *store.Record
			for b.Loop() {
				event := rig.bind("a", "n1", before)
				before = event.Record
				rig.backlog.add(event.Revision, []store.Event{event})
				if frames := rig.nextFrames(); len(frames) != 2 {
					b.Fatalf("%d frames, want 2", len(frames))
				}
			}
		})
	}
}

// TestWhatCouldNotBeSentEndsTheWatch has the history say what nobody was sent.
func TestWhatCouldNotBeSentEndsTheWatch(t *testing.T) {
	rig, dir := newHubRig(t), t.TempDir()
	recorder, err := history.Open(history.Config{Dir: dir, Process: "apiserver", Boot: "boot"})
	if err != nil {
		t.Fatal(err)
	}
	rig.join(t, onNode("n1"))
	rig.join(t, onNode("n2"))
	lost := proto.WatchSubject("cluster", onNode("n2"))
	rig.cfg.History, rig.cfg.Publish = recorder, func(subject string, _ *proto.Frame) error {
		if subject == lost {
			return errors.New("the connection is broken")
		}
		return nil
	}
	for i, node := range []string{"n1", "n2"} {
		rig.OnCommit(rig.cfg.Store.Snapshot(), []store.Event{rig.bind(fmt.Sprint(i), node, nil)})
	}
	rig.publish(t.Context(), rig.nextFrames())
	recorder.Close()
	log, err := history.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	sent, ended := map[string]int{}, map[string]int{}
	for _, e := range log.Events {
		switch fact := e.Fact.(type) {
		case history.WatchEvent:
			sent[fact.Watch]++
		case history.WatchEnd:
			ended[fact.Watch]++
		}
	}
	whole := proto.WatchSubject("cluster", onNode("n1"))
	if sent[whole] != 1 || sent[lost] != 0 || ended[whole] != 0 || ended[lost] != 1 {
		t.Errorf("sent %v, ended %v; want %s sent and %s ended", sent, ended, whole, lost)
	}
}
