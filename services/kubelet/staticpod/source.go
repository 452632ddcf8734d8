package staticpod

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/kubelet/podstate"
)

// Config holds what a Source uses.
type Config struct {
	// Dir is the directory of manifests; a missing directory counts as empty.
	Dir   string
	Node  string
	Clock clock.Clock
	// Period is the interval at which the directory is read.
	Period time.Duration
	// Replace is called with the complete set of pods, at first and whenever it changes.
	Replace func(pods []kinds.Object)
	// Refused is called with what is wrong with a file or the directory, once until that changes.
	// The error names the field, if there is one.
	Refused func(path string, err error)
	Log     *slog.Logger
}

// Source reads a node's manifests.
type Source struct {
	cfg   Config
	files map[string]manifest
	// readErr is why the last reading of the directory failed; empty if it succeeded.
	readErr string
}

// manifest is a file as last read.
type manifest struct {
	read bool
	text string
	pod  *corev1.Pod // nil for one that is wrong
	// readErr is why the last reading of the file failed; empty if it succeeded.
	readErr string
}

// maxManifest is the largest size of a manifest, in bytes.
const maxManifest = 1 << 20

// NewSource returns a source that has read nothing.
func NewSource(cfg Config) *Source { return &Source{cfg: cfg} }

// Run reads the directory until ctx ends.
func (s *Source) Run(ctx context.Context) error {
	ticker := s.cfg.Clock.Ticker(s.cfg.Period)
	defer ticker.Stop()
	for {
		s.scan(ctx)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// scan reads what has changed. A file that cannot be read now stays as it was.
func (s *Source) scan(ctx context.Context) {
	names, err := s.listFiles()
	if s.readErr = s.reportRefused(ctx, "", s.readErr, err); err != nil && s.files != nil {
		return
	}
	files, changed := map[string]manifest{}, s.files == nil || len(names) != len(s.files)
	for _, name := range names {
		was, known := s.files[name]
		text, err := s.read(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			changed = true
			continue
		case err != nil:
			was.readErr = s.reportRefused(ctx, name, was.readErr, err)
			files[name] = was
		case known && was.read && text == was.text:
			was.readErr = ""
			files[name] = was
		default:
			files[name], changed = s.parse(ctx, name, text), true
		}
	}
	s.files = files
	if changed {
		s.cfg.Replace(s.pods())
	}
}

// reportRefused reports what is wrong with a file, or with the directory if name is empty, unless
// it was reported before. It returns what was reported.
func (s *Source) reportRefused(ctx context.Context, name, before string, err error) string {
	if err == nil {
		return ""
	}
	path := filepath.Join(s.cfg.Dir, name)
	if err.Error() != before {
		s.cfg.Log.ErrorContext(ctx, "no static pod can be made of a manifest", "file", path, "err", err)
		s.cfg.Refused(path, err)
	}
	return err.Error()
}

// listFiles returns the names of the manifests. Files whose names begin with a dot are being
// written.
func (s *Source) listFiles() ([]string, error) {
	entries, err := os.ReadDir(s.cfg.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), ".") && entry.Type().IsRegular() {
			names = append(names, entry.Name())
		}
	}
	return names, err
}

func (s *Source) read(name string) (string, error) {
	path := filepath.Join(s.cfg.Dir, name)
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if info.Size() > maxManifest {
		return "", fmt.Errorf("it has %d bytes: want at most %d", info.Size(), maxManifest)
	}
	data, err := os.ReadFile(path)
	return string(data), err
}

func (s *Source) parse(ctx context.Context, name, text string) manifest {
	pod, err := Parse(name, []byte(text), s.cfg.Node)
	if err != nil {
		s.reportRefused(ctx, name, "", err)
		return manifest{read: true, text: text}
	}
	now := s.cfg.Clock.Now()
	pod.CreationTimestamp = metav1.Time{Time: now.Truncate(time.Second)}
	pod.Annotations[podstate.AnnotationSeen] = now.UTC().Format(time.RFC3339Nano)
	return manifest{read: true, text: text, pod: pod}
}

// pods returns the pods of all files; if two have one UID the first counts.
func (s *Source) pods() []kinds.Object {
	pods := []kinds.Object{}
	for _, name := range slices.Sorted(maps.Keys(s.files)) {
		pod := s.files[name].pod
		twice := func(other kinds.Object) bool { return other.GetUID() == pod.UID }
		if pod != nil && !slices.ContainsFunc(pods, twice) {
			pods = append(pods, pod)
		}
	}
	return pods
}
