package loop

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// log notes when keys were looked at, in milliseconds since the bubble began.
type log struct {
	mu    sync.Mutex
	begin time.Time
	lines []string
	times []time.Duration
}

func (l *log) note(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, key)
	l.times = append(l.times, time.Since(l.begin))
}

func run(t *testing.T, cfg Config, sync func(*log, string) error) (*Loop[string], *log) {
	notes := &log{begin: time.Now()}
	l := New(cfg, func(_ context.Context, key string) error {
		notes.note(key)
		return sync(notes, key)
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- l.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the loop ended with %v", err)
		}
	})
	return l, notes
}

func TestFailuresComeBackLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left := 4
		l, notes := run(t, Config{}, func(*log, string) error {
			if left--; left >= 0 {
				return errors.New("not yet")
			}
			return nil
		})
		l.Add("a")
		time.Sleep(time.Minute)
		want := []time.Duration{0, 5 * time.Millisecond, 15 * time.Millisecond, 35 * time.Millisecond, 75 * time.Millisecond}
		if !slices.Equal(notes.times, want) {
			t.Errorf("looked at %v, want %v", notes.times, want)
		}
		// A success forgets the failures.
		left, notes.times, notes.begin = 1, nil, time.Now()
		l.Add("a")
		time.Sleep(time.Minute)
		if want := []time.Duration{0, 5 * time.Millisecond}; !slices.Equal(notes.times, want) {
			t.Errorf("looked at %v, want %v", notes.times, want)
		}
	})
}

func TestRetriesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, notes := run(t, Config{Retries: 3}, func(*log, string) error { return errors.New("never") })
		l.Add("a")
		time.Sleep(time.Hour)
		if len(notes.lines) != 4 {
			t.Errorf("looked %d times, want once and 3 retries", len(notes.lines))
		}
	})
}

func TestManyFailuresShareABucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := map[string]bool{}
		l, notes := run(t, Config{}, func(_ *log, key string) error {
			if failed[key] {
				return nil
			}
			failed[key] = true
			return errors.New("once")
		})
		for i := range 120 {
			l.Add(string(rune('a' + i)))
		}
		time.Sleep(time.Minute)
		if last := notes.times[len(notes.times)-1]; last != 2*time.Second {
			t.Errorf("the last of 120 came back at %v, want 2s: 10/s after the first 100", last)
		}
	})
}

func TestOneKeyIsNeverTwiceAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		at := map[string]int{}
		l, notes := run(t, Config{Workers: 4}, func(_ *log, key string) error {
			mu.Lock()
			at[key]++
			if at[key] > 1 {
				t.Errorf("%s is looked at twice at once", key)
			}
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			at[key]--
			mu.Unlock()
			return nil
		})
		l.Add("a")
		l.Add("a")
		synctest.Wait()
		for range 3 {
			l.Add("a") // while a worker has it: once more after that
			l.Add("b")
		}
		time.Sleep(time.Minute)
		slices.Sort(notes.lines)
		if want := []string{"a", "a", "b"}; !slices.Equal(notes.lines, want) {
			t.Errorf("looked at %v, want %v", notes.lines, want)
		}
	})
}

func TestAddAfterKeepsTheEarliest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, notes := run(t, Config{}, func(*log, string) error { return nil })
		l.AddAfter("a", 10*time.Second)
		l.AddAfter("a", 3*time.Second)
		l.AddAfter("a", 5*time.Second)
		l.AddAfter("c", 4*time.Second)
		l.AddAfter("b", 4*time.Second)
		l.Add("d")
		time.Sleep(time.Minute)
		if want := []string{"d", "a", "c", "b"}; !slices.Equal(notes.lines, want) {
			t.Errorf("looked at %v, want %v", notes.lines, want)
		}
	})
}
