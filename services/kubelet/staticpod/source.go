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

// Config is what a Source works with.
type Config struct {
	// Dir is the directory of manifests; one that is not there is empty.
	Dir   string
	Node  string
	Clock clock.Clock
	// Period is between two looks at the directory.
	Period time.Duration
	// Replace is told the complete set of pods, first of all and whenever it changes.
	Replace func(pods []kinds.Object)
	// Refused is told what is wrong with a file, or with the directory: once, until that
	// changes. The error names the field, where it is one.
	Refused func(path string, err error)
	Log     *slog.Logger
}

// Source reads a node's manifests.
type Source struct {
	cfg   Config
	files map[string]manifest
	// wrong is why the directory could not be read when that was last tried; empty when it
	// was.
	wrong string
}

// manifest is a file as it was read last, if it could ever be.
type manifest struct {
	read bool
	text string
	pod  *corev1.Pod // nil for one that is wrong
	// wrong is why the file could not be read when that was last tried; empty when it was.
	wrong string
}

// largest is the most that a manifest may hold, in bytes.
const largest = 1 << 20

// NewSource has read nothing yet.
func NewSource(cfg Config) *Source { return &Source{cfg: cfg} }

// Run looks at the directory until ctx ends.
func (s *Source) Run(ctx context.Context) error {
	ticker := s.cfg.Clock.Ticker(s.cfg.Period)
	defer ticker.Stop()
	for {
		s.look(ctx)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// look reads what has changed. A file that cannot be read now stays as it was.
func (s *Source) look(ctx context.Context) {
	names, err := s.list()
	if s.wrong = s.refuse(ctx, "", s.wrong, err); err != nil && s.files != nil {
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
			was.wrong = s.refuse(ctx, name, was.wrong, err)
			files[name] = was
		case known && was.read && text == was.text:
			was.wrong = ""
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

// refuse says what is wrong with a file, or with the directory when it has no name, if that
// was not said before, and returns what was said.
func (s *Source) refuse(ctx context.Context, name, before string, err error) string {
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

// list is the manifests' names. Files whose names begin with a dot are being written.
func (s *Source) list() ([]string, error) {
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
	if info.Size() > largest {
		return "", fmt.Errorf("it has %d bytes: want at most %d", info.Size(), largest)
	}
	data, err := os.ReadFile(path)
	return string(data), err
}

func (s *Source) parse(ctx context.Context, name, text string) manifest {
	pod, err := Parse(name, []byte(text), s.cfg.Node)
	if err != nil {
		s.refuse(ctx, name, "", err)
		return manifest{read: true, text: text}
	}
	now := s.cfg.Clock.Now()
	pod.CreationTimestamp = metav1.Time{Time: now.Truncate(time.Second)}
	pod.Annotations[podstate.AnnotationSeen] = now.UTC().Format(time.RFC3339Nano)
	return manifest{read: true, text: text, pod: pod}
}

// pods are those of all files; of two with one UID the first counts.
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
