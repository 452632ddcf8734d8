package scenario

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/podfall/podfall/internal/aliases"
	"github.com/podfall/podfall/internal/fault"
	"github.com/podfall/podfall/proto/kinds"
)

// maxFile is the maximum size of a scenario in bytes, also after expanding its aliases.
const maxFile = 1 << 20

// Parse parses a scenario. Unknown fields and invalid values are errors that name the step and the
// field.
func Parse(file []byte) (Scenario, error) {
	var s Scenario
	if len(file) > maxFile {
		return s, fmt.Errorf("a scenario of %d bytes: want at most %d", len(file), maxFile)
	}
	if err := aliases.Check(file, maxFile); err != nil {
		return s, err
	}
	document, err := yaml.YAMLToJSONStrict(file)
	if err != nil {
		return s, err
	}
	unknown, err := json.UnmarshalStrict(document, &s)
	if err := errors.Join(append(unknown, err)...); err != nil {
		return s, err
	}
	return s, s.validate()
}

func (s Scenario) validate() error {
	var wrong []error
	for _, text := range validation.IsDNS1123Label(s.Name) {
		wrong = append(wrong, fmt.Errorf("scenario %q: %s", s.Name, text))
	}
	for name, text := range map[string]string{"title": s.Title, "about": s.About} {
		if strings.TrimSpace(text) == "" {
			wrong = append(wrong, fmt.Errorf("%s: want a text that says what the scenario shows", name))
		}
	}
	if s.Cluster.Nodes < 0 {
		wrong = append(wrong, fmt.Errorf("cluster.nodes %d: must not be negative", s.Cluster.Nodes))
	}
	if len(s.Steps) == 0 {
		wrong = append(wrong, errors.New("steps: want at least one"))
	}
	if !slices.ContainsFunc(s.Steps, func(step Step) bool { return step.Expect != nil }) {
		wrong = append(wrong, errors.New("steps: want at least one that expects something"))
	}
	for i, step := range s.Steps {
		if err := step.validate(); err != nil {
			wrong = append(wrong, fmt.Errorf("steps[%d]: %w", i, err))
		}
	}
	return errors.Join(wrong...)
}

// alternative is one of several fields, of which exactly one must be set.
type alternative struct {
	name string
	set  bool
}

// oneOf fails unless exactly one field is set.
func oneOf(fields ...alternative) error {
	var set, all []string
	for _, f := range fields {
		all = append(all, f.name)
		if f.set {
			set = append(set, f.name)
		}
	}
	if len(set) != 1 {
		return fmt.Errorf("has %s, want exactly one of %s", joinNames(set), strings.Join(all, ", "))
	}
	return nil
}

func joinNames(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, " and ")
}

func (s Step) alternatives() []alternative {
	return []alternative{
		{"apply", s.Apply != ""},
		{"delete", s.Delete != nil},
		{"evict", s.Evict != nil},
		{"patch", s.Patch != nil},
		{"break", s.Break != nil},
		{"mend", s.Mend != nil},
		{"remember", len(s.Remember) > 0},
		{"wait", s.Wait != nil},
		{"expect", s.Expect != nil},
	}
}

// name returns the name of the step's field.
func (s Step) name() string {
	for _, f := range s.alternatives() {
		if f.set {
			return f.name
		}
	}
	return ""
}

func (s Step) validate() error {
	if err := oneOf(s.alternatives()...); err != nil {
		return err
	}
	var err error
	switch {
	case s.Unbroken != "" && s.Apply == "":
		err = errors.New("unbroken: is for apply alone")
	case s.Delete != nil:
		err = s.Delete.validate()
	case s.Evict != nil:
		err = s.Evict.Object.validate()
	case s.Patch != nil:
		err = s.Patch.Object.validate()
		if len(s.Patch.Merge) == 0 {
			err = errors.Join(err, errors.New("merge: want what is to become different"))
		}
	case s.Break != nil:
		err = s.Break.validate()
	case s.Mend != nil:
		err = s.Mend.validate()
	case s.Remember != nil:
		for ref := range s.Remember {
			err = errors.Join(err, ref.validate())
		}
	case s.Wait != nil && s.Wait.Duration <= 0:
		err = fmt.Errorf("%s: must be more than 0", s.Wait.Duration)
	case s.Expect != nil:
		err = s.Expect.validate()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", s.name(), err)
	}
	return nil
}

// validate checks the syntax of the reference, not whether the kind exists.
func (r Ref) validate() error {
	_, err := r.parse(func(string) (kinds.Kind, bool) { return kinds.Kind{}, true })
	return err
}

func (d Delete) validate() error {
	if d.Background && d.Refused != "" {
		return errors.New("refused: nobody waits for the answer of a delete in the background")
	}
	switch d.Propagation {
	case "", metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan:
		return d.Object.validate()
	}
	return fmt.Errorf("propagation %q: want Background, Foreground or Orphan", d.Propagation)
}

func (b Break) validate() error {
	err := oneOf(alternative{"cut", b.Cut != nil}, alternative{"fault", b.Fault != nil}, alternative{"crash", b.Crash != ""}, alternative{"pause", b.Pause != ""})
	if err != nil {
		return err
	}
	if b.Cut != nil && len(b.Cut.Members) == 0 {
		return errors.New("cut.parties: want at least one")
	}
	if b.Fault != nil {
		return fault.Check(b.Fault.Name, b.Fault.Spec)
	}
	return nil
}

func (m Mend) validate() error {
	return oneOf(alternative{"heal", len(m.Heal) > 0}, alternative{"clear", m.Clear != ""}, alternative{"start", m.Start != ""}, alternative{"resume", m.Resume != ""})
}

func (e Expect) validate() error {
	var wrong []error
	if e.Within.Duration < 0 || e.Stays.Duration < 0 {
		wrong = append(wrong, errors.New("within and stays: must not be negative"))
	}
	aboutObject := e.Gone || e.UID != "" || len(e.Like) > 0 || len(e.Shows) > 0 || e.Event != nil || e.Why != nil
	switch {
	case e.Object == "" && aboutObject:
		wrong = append(wrong, errors.New("object: say which"))
	case e.Object != "":
		wrong = append(wrong, e.Object.validate())
	case e.Node == nil:
		wrong = append(wrong, errors.New("want an object or a node's view of a pod"))
	}
	if e.Gone && (len(e.Like) > 0 || len(e.Shows) > 0) {
		wrong = append(wrong, errors.New("gone: what is gone is like nothing and shows nothing"))
	}
	if e.Object != "" && !aboutObject {
		wrong = append(wrong, errors.New("want gone, like, shows, uid, event or why"))
	}
	if e.Event != nil && e.Event.Reason == "" {
		wrong = append(wrong, errors.New("event.reason: say which"))
	}
	if e.Node != nil && e.Node.Alive == nil && e.Node.Signals == nil && e.Node.KilledAfter == nil {
		wrong = append(wrong, errors.New("node: want alive, signals or killedAfter"))
	}
	return errors.Join(wrong...)
}
