package podapi

import (
	"errors"
	"testing"
	"time"

	"github.com/podfall/podfall/proto"
)

func TestCursorAccepts(t *testing.T) {
	for name, row := range map[string]struct {
		frame *proto.Frame
		news  bool
		err   error
	}{
		"the next":     {&proto.Frame{Boot: "b", Sequence: 8}, true, nil},
		"the last":     {&proto.Frame{Boot: "b", Sequence: 7}, false, nil},
		"an early one": {&proto.Frame{Boot: "b", Sequence: 1}, false, nil},
		"a gap":        {&proto.Frame{Boot: "b", Sequence: 9}, false, errGap},
		"an old boot":  {&proto.Frame{Boot: "a", Sequence: 8}, false, nil},
		"a new boot":   {&proto.Frame{Boot: "c", Sequence: 8}, false, errBoot},
	} {
		t.Run(name, func(t *testing.T) {
			c := Cursor{}
			c.Join(&proto.Join{Boot: "b", Sequence: 7, Revision: 3})
			news, err := c.Accept(row.frame)
			if news != row.news || !errors.Is(err, row.err) {
				t.Errorf("got %t, %v", news, err)
			}
			if want := uint64(7); !row.news && c.sequence != want {
				t.Errorf("moved to %d", c.sequence)
			}
		})
	}
}

func TestCursorNeverGoesBack(t *testing.T) {
	c := Cursor{Revision: 9} // a watch from a revision that is still to come
	c.Join(&proto.Join{Boot: "b", Sequence: 7, Revision: 3})
	if c.Revision != 9 {
		t.Errorf("went back to %d", c.Revision)
	}
}

func TestBackoff(t *testing.T) {
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	var b backoff
	for _, want := range []string{"800ms", "1.6s", "3.2s", "6.4s", "12.8s", "25.6s", "30s", "30s"} {
		var wait time.Duration
		if wait, b = b.advance(now, 0); wait.String() != want {
			t.Errorf("waits %s, want %s", wait, want)
		}
		now = now.Add(2 * time.Minute)
	}
	if wait, _ := b.advance(now, 0.5); wait != 45*time.Second {
		t.Errorf("with chance 0.5 it waits %s, want 45s", wait)
	}
	if wait, _ := b.advance(now.Add(time.Nanosecond), 0); wait != 800*time.Millisecond {
		t.Errorf("after two minutes of peace it waits %s, want 800ms", wait)
	}
}

func TestRNGIsSeeded(t *testing.T) {
	a, b, c := newRNG(1), newRNG(1), newRNG(2)
	same := true
	for range 1000 {
		x, y, z := a.fraction(), b.fraction(), c.fraction()
		if x != y || x < 0 || x >= 1 {
			t.Fatalf("drew %v and %v from one seed", x, y)
		}
		same = same && x == z
	}
	if same {
		t.Error("two seeds draw the same")
	}
}

func TestATargetIsNamed(t *testing.T) {
	for want, target := range map[string]Target{
		"pods":                    {Kind: podKind},
		"pods default":            {Kind: podKind, Namespace: "default"},
		"pods default/web":        web,
		"pods/status default/web": {Kind: podKind, Namespace: "default", Name: "web", Subresource: "status"},
	} {
		if got := target.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
