package scenario

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

func document(t *testing.T, text string) any {
	t.Helper()
	var value any
	if err := yaml.Unmarshal([]byte(text), &value); err != nil {
		t.Fatal(err)
	}
	return value
}

func TestLike(t *testing.T) {
	const pod = `{metadata: {name: web, finalizers: [a, b], generation: 2}, status: {phase: Running, conditions: [{type: Ready, status: "False"}, {type: Other}]}}`
	for _, row := range []struct{ want, wrong string }{
		{`{}`, ""},
		{`{status: {phase: Running}}`, ""},
		{`{status: {phase: ~unn}}`, ""},
		{`{metadata: {generation: 2}}`, ""},
		{`{metadata: {deletionTimestamp: null}}`, ""},
		{`{metadata: {finalizers: [b]}}`, ""},
		{`{status: {conditions: [{type: Ready}]}}`, ""},
		{`{status: {phase: Failed}}`, `status.phase is "Running", want "Failed"`},
		{`{status: {phase: ~ail}}`, `status.phase is "Running", want "~ail"`},
		{`{metadata: {generation: 3}}`, "metadata.generation is 2, want 3"},
		{`{metadata: {name: null}}`, `metadata.name is "web", want absent`},
		{`{metadata: {uid: x}}`, `metadata.uid is absent, want "x"`},
		{`{metadata: {finalizers: []}}`, "metadata.finalizers has 2 items, want none"},
		{`{metadata: {finalizers: [c]}}`, `metadata.finalizers has nothing like item 0, "c"`},
		{`{status: {conditions: [{type: Ready, status: "True"}]}}`, "status.conditions has nothing like item 0"},
		{`{status: {phase: {a: b}}}`, "status.phase is"},
		{`{status: {phase: Failed}, metadata: {name: other}}`, "metadata.name is"},
	} {
		got := strings.Join(Mismatches(document(t, row.want), document(t, pod)), "; ")
		if (row.wrong == "") != (got == "") || !strings.Contains(got, row.wrong) {
			t.Errorf("like %s: %q, want %q", row.want, got, row.wrong)
		}
	}
}
