package volumes

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func openTempDir(t *testing.T) *os.Root {
	t.Helper()
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return root
}

func payloadOf(pairs ...string) payload {
	files := payload{}
	for i := 0; i < len(pairs); i += 2 {
		files[pairs[i]] = file{[]byte(pairs[i+1]), 0o644}
	}
	return files
}

// listing is what a directory shows: links with where they lead, files with what they say.
func listing(t *testing.T, dir *os.Root) string {
	t.Helper()
	entries, err := fs.ReadDir(dir.FS(), ".")
	if err != nil {
		t.Fatal(err)
	}
	var text []string
	for _, entry := range entries {
		name := entry.Name()
		if to, err := dir.Readlink(name); err == nil {
			name += "->" + to
		}
		text = append(text, name)
	}
	return strings.Join(text, " ")
}

// TestReplace is how a volume changes: all at once, by a link.
func TestReplace(t *testing.T) {
	t.Parallel()
	dir, now := openTempDir(t), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, row := range []struct {
		files payload
		want  string
	}{
		{payloadOf("a", "1", "d/e/f", "2"), "..2026_01_02_03_04_05.0 ..data->..2026_01_02_03_04_05.0 a->..data/a d->..data/d"},
		{payloadOf("a", "1", "d/e/f", "2"), "..2026_01_02_03_04_05.0 ..data->..2026_01_02_03_04_05.0 a->..data/a d->..data/d"},
		{payloadOf("a", "1", "g", "2"), "..2026_01_02_03_04_05.1 ..data->..2026_01_02_03_04_05.1 a->..data/a g->..data/g"},
		{payloadOf(), "..2026_01_02_03_04_05.2 ..data->..2026_01_02_03_04_05.2"},
	} {
		if err := replaceFiles(dir, row.files, now); err != nil {
			t.Fatal(err)
		}
		if got := listing(t, dir); got != row.want {
			t.Errorf("%v:\n got %s\nwant %s", row.files, got, row.want)
		}
	}
}

// TestReplaceAfterAKill puts right what a kubelet left that was killed at any step.
func TestReplaceAfterAKill(t *testing.T) {
	t.Parallel()
	old, fresh := payloadOf("a", "1", "gone", "1"), payloadOf("a", "2", "b", "2")
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	steps := map[string]func(dir *os.Root) error{
		"an empty directory":     func(dir *os.Root) error { return dir.Mkdir("..half", 0o755) },
		"half of the files":      func(dir *os.Root) error { return dir.WriteFile("..2026_01_02_03_04_05.0/b", []byte("2"), 0o600) },
		"a link without a file":  func(dir *os.Root) error { return dir.Symlink("..data/b", "b") },
		"the draft of the link":  func(dir *os.Root) error { return dir.Symlink("..nowhere", draftLink) },
		"no link":                func(dir *os.Root) error { return dir.Remove(dataLink) },
		"the link leads nowhere": func(dir *os.Root) error { return dir.RemoveAll("..2026_01_02_03_04_05.0") },
		"a visible link lacks":   func(dir *os.Root) error { return dir.Remove("a") },
	}
	for name, kill := range steps {
		dir := openTempDir(t)
		if err := replaceFiles(dir, old, now); err != nil {
			t.Fatal(err)
		}
		if err := kill(dir); err != nil {
			t.Fatal(err)
		}
		if err := replaceFiles(dir, fresh, now); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		entries, _ := fs.ReadDir(dir.FS(), ".")
		a, errA := dir.ReadFile("a")
		b, errB := dir.ReadFile("b")
		if string(a) != "2" || string(b) != "2" || errA != nil || errB != nil || len(entries) != 4 {
			t.Errorf("%s: %s; a %q %v, b %q %v", name, listing(t, dir), a, errA, b, errB)
		}
	}
}

// TestReplaceUnderAReader never shows a program half of an update.
func TestReplaceUnderAReader(t *testing.T) {
	t.Parallel()
	dir := openTempDir(t)
	versions := []string{"one", "two"}
	if err := replaceFiles(dir, payloadOf("a", "one", "b", "one"), time.Time{}); err != nil {
		t.Fatal(err)
	}
	var writer sync.WaitGroup
	stop := make(chan struct{})
	writer.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			if err := replaceFiles(dir, payloadOf("a", versions[i%2], "b", versions[i%2]), time.Time{}); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for range 2000 {
		current, err := os.Readlink(filepath.Join(dir.Name(), dataLink))
		if err != nil {
			t.Errorf("the link is gone: %v", err)
			break
		}
		a, errA := os.ReadFile(filepath.Join(dir.Name(), current, "a"))
		b, errB := os.ReadFile(filepath.Join(dir.Name(), current, "b"))
		if errA != nil || errB != nil {
			continue // replaced meanwhile: the directory is gone
		}
		if string(a) != string(b) {
			t.Fatalf("a is of %q, b of %q", a, b)
		}
	}
	close(stop)
	writer.Wait()
}
