package volumes

import (
	"encoding/json"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// FuzzReplace: whatever a volume's directory looks like that a kubelet finds, after a write
// the volume has the files that it is to have, and shows no others; paths that are refused
// are named, and those that are not stay inside.
func FuzzReplace(f *testing.F) {
	f.Fuzz(func(t *testing.T, name, other string, data []byte, link, old string) {
		files := payload{name: {data, 0o644}, other: {[]byte("other"), 0o600}}
		if err := files.check(); err != nil {
			if !strings.Contains(err.Error(), "invalid path: ") {
				t.Errorf("%q, %q: %v", name, other, err)
			}
			return
		}
		dir := openTempDir(t)
		for _, made := range []error{dir.Mkdir("..stale", 0o755), dir.WriteFile("..stale/"+path.Base(name), data, 0o644), dir.WriteFile("gone", nil, 0o644)} {
			if errors.Is(made, fs.ErrInvalid) || errors.Is(made, fs.ErrPermission) {
				t.Fatal(made)
			}
		}
		_ = dir.WriteFile(old, data, 0o644) // as far as it is a name
		_ = dir.Symlink(link, dataLink)
		for range 2 {
			if err := replaceFiles(dir, files, time.Unix(1_800_000_000, 0)); err != nil {
				if arePossibleNames(name, other) {
					t.Errorf("%q, %q in place of %q: %v", name, other, link, err)
				}
				return
			}
		}
		for at, want := range files {
			if got, err := dir.ReadFile(at); err != nil || string(got) != string(want.data) {
				t.Errorf("%q is %q (%v), want %q", at, got, err, want.data)
			}
		}
		current, err := dir.Readlink(dataLink)
		if err != nil {
			t.Fatal(err)
		}
		shown := listing(t, dir)
		if tops := files.topNames(); len(strings.Split(shown, " ")) != len(tops)+2 && !strings.Contains(name+other, " ") || !strings.Contains(shown, current) {
			t.Errorf("shows %q, want %v, %q and the link", shown, tops, current)
		}
	})
}

// arePossibleNames reports whether a file system can have files of both names.
func arePossibleNames(names ...string) bool {
	for i, name := range names {
		for part := range strings.SplitSeq(name, "/") {
			if len(part) > 255 {
				return false
			}
		}
		for j, other := range names {
			if i != j && (len(name) > 2000 || strings.HasPrefix(other, name+"/")) {
				return false
			}
		}
	}
	return true
}

// FuzzRecord: whatever is in a volume's record, the volume counts as mounted; a record that
// can be read is written and read as the same again, and its files are inside the kubelet's
// directory or at a whole path.
func FuzzRecord(f *testing.F) {
	f.Fuzz(func(t *testing.T, text []byte) {
		s := newTestNode(t)
		const uid, volume = types.UID("u"), "v"
		if err := s.Root.MkdirAll(path.Dir(recordPath(uid, volume)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := s.Root.WriteFile(recordPath(uid, volume), text, 0o600); err != nil {
			t.Fatal(err)
		}
		if all := s.records(uid); len(all) != 1 || all[volume] == nil {
			t.Errorf("%q: %v", text, all)
		}
		r, err := s.readRecord(uid, volume)
		if err != nil {
			if !strings.HasPrefix(err.Error(), `read the record of volume "v": `) {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		pod := podWith("p")
		pod.UID = uid
		if at := s.volumePath(pod, volume, r); !strings.HasPrefix(path.Clean(at), s.Root.Name()+"/") && r.Path == "" || !path.IsAbs(at) {
			t.Errorf("%q is at %q", text, at)
		}
		first := encodeRecord(t, r)
		if err := s.writeRecord(uid, volume, r); err != nil {
			t.Fatal(err)
		}
		if again, err := s.readRecord(uid, volume); err != nil || encodeRecord(t, again) != first {
			t.Errorf("wrote %s, read %+v (%v)", first, again, err)
		}
		if names := s.listNames(path.Dir(recordPath(uid, volume))); !slices.Equal(names, []string{volume}) {
			t.Errorf("records %q", names)
		}
	})
}

func encodeRecord(t *testing.T, r *record) string {
	t.Helper()
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// FuzzEnvFile: a key has the value of its first line, whatever is behind that, and a value is
// a part of one line.
func FuzzEnvFile(f *testing.F) {
	f.Fuzz(func(t *testing.T, before, key, value, after string) {
		if got := findVariable([]byte(before), key); strings.ContainsAny(got, "\n#") || got != "" && !strings.Contains(before, key+"="+got) {
			t.Errorf("%q of %q is %q", key, before, got)
		}
		if strings.ContainsAny(key, "=#\n\r") || strings.ContainsAny(value, "#\n\r") || slices.ContainsFunc(strings.Split(before, "\n"), func(line string) bool { return strings.HasPrefix(line, key+"=") }) {
			return
		}
		text := before + "\n" + key + "=" + value + " # comment\r\n" + after
		if got := findVariable([]byte(text), key); got != value+" " {
			t.Errorf("%q of %q is %q, want %q", key, text, got, value)
		}
	})
}
