package scenario

import (
	"strings"
	"testing"
)

const head = "scenario: stk-01\ntitle: t\nabout: a\nsteps:\n"

func TestParseNamesWhatIsWrong(t *testing.T) {
	const expect = "- expect: {object: pod/web, gone: true}\n"
	for name, row := range map[string]struct{ file, want string }{
		"good":                {head + expect, ""},
		"everything":          {head + everything, ""},
		"no steps":            {"scenario: a\ntitle: t\nabout: a\n", "steps: want at least one"},
		"nothing expected":    {head + "- wait: 1s\n", "want at least one that expects something"},
		"no about":            {"scenario: a\ntitle: t\nsteps:\n" + expect, "about: want a text"},
		"a bad name":          {"scenario: A B\ntitle: t\nabout: a\nsteps:\n" + expect, `scenario "A B"`},
		"an unknown field":    {head + expect + "- walk: pod/web\n", `unknown field "steps[1].walk"`},
		"a field twice":       {head + expect + "- wait: 1s\n  wait: 2s\n", `key "wait" already set`},
		"two at once":         {head + "- wait: 1s\n  expect: {object: pod/web, gone: true}\n", "steps[0]: has wait and expect, want exactly one of apply, delete"},
		"nothing":             {head + expect + "- say: hello\n", "steps[1]: has none, want exactly one"},
		"a bad reference":     {head + expect + "- delete: {object: web}\n", `steps[1]: delete: object "web": want kind/name`},
		"no answer":           {head + expect + "- delete: {object: pod/web, background: true, refused: x}\n", "refused: nobody waits"},
		"a bad propagation":   {head + expect + "- delete: {object: pod/web, propagation: Sideways}\n", `propagation "Sideways": want Background, Foreground or Orphan`},
		"a bad point":         {head + expect + "- break: {fault: {name: f, spec: {point: cri.Dance, effect: {type: error}}}}\n", `steps[1]: break: spec.point: Unsupported value: "cri.Dance"`},
		"a cut of nothing":    {head + expect + "- break: {cut: {}}\n", "cut.parties: want at least one"},
		"two breaks":          {head + expect + "- break: {crash: apiserver, pause: apiserver}\n", "has crash and pause"},
		"mend nothing":        {head + expect + "- mend: {}\n", "mend: has none, want exactly one of heal, clear"},
		"a negative wait":     {head + expect + "- wait: -1s\n", "wait: -1s: must be more than 0"},
		"an empty patch":      {head + expect + "- patch: {object: pod/web}\n", "merge: want what is to become different"},
		"expect nothing":      {head + "- expect: {object: pod/web}\n", "want gone, like, shows"},
		"expect of nothing":   {head + "- expect: {gone: true}\n", "object: say which"},
		"gone and like":       {head + "- expect: {object: pod/web, gone: true, like: {a: b}}\n", "gone: what is gone"},
		"a node without":      {head + "- expect: {node: {pod: first}}\n", "node: want alive, signals or killedAfter"},
		"an event of no kind": {head + "- expect: {object: pod/web, event: {message: x}}\n", "event.reason: say which"},
		"nothing to replace":  {head + expect + "- {wait: 1s, unbroken: x}\n", "unbroken: is for apply alone"},
		"not a text":          {head + "- say: [x]\n", "cannot unmarshal array"},
	} {
		_, err := Parse([]byte(row.file))
		if (row.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %q", name, err, row.want)
		}
	}
}

// everything uses each step and each field.
const everything = `
- say: a pod
  apply: |
    {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}}
  unbroken: |
    {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}}
- breaks: true
  wait: 1s
- remember: {pod/web: first}
- evict: {object: pod/web, refused: budget}
- patch: {object: pod/web, subresource: status, merge: {metadata: {finalizers: null}}, refused: not allowed}
- break: {cut: {parties: [node-1], direction: from-node}}
- break: {fault: {name: f, spec: {point: volume.unmount, where: {pod: web}, effect: {type: error, message: busy}}}}
- break: {crash: kubelet/node-1}
- break: {pause: kubelet/node-1}
- mend: {heal: [node-1]}
- mend: {clear: f}
- mend: {start: kubelet/node-1}
- mend: {resume: kubelet/node-1}
- delete: {object: other/pod/web, grace: 5, propagation: Foreground, refused: not found}
- wait: 1m30s
- expect: {object: pod/web, uid: "!first", within: 10s, stays: 5s, like: {status: {phase: Running}}, shows: {STATUS: Terminating}, why: [stk-01], event: {reason: Killing, message: main}}
- expect: {object: pod/web, why: []}
- expect: {node: {pod: first, alive: 0, signals: [SIGTERM, SIGKILL], killedAfter: {from: 5s, to: 6s}}}
`

func FuzzParse(f *testing.F) {
	f.Add([]byte(head + everything))
	f.Fuzz(func(t *testing.T, file []byte) {
		if s, err := Parse(file); err == nil && len(s.Steps) == 0 {
			t.Error("took a scenario without steps")
		}
	})
}
