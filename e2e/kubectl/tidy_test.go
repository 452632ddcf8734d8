package main

import (
	"regexp"
	"strings"
	"testing"
)

// age is what duration.HumanDuration prints.
const age = `\d+(?:[smhdy](?:\d+[smhdy])?)`

// rewrites replace what differs from run to run, in turn. Widths of columns are
// kubectl's own business and follow what is in them, so that two blanks or more are two.
var rewrites = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "<uid>"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z`), "<time>"},
	{regexp.MustCompile(`(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d \+0000`), "<time>"},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "127.0.0.1:<port>"},
	{regexp.MustCompile(`\b10\.\d+\.\d+\.\d+\b`), "<ip>"},
	{regexp.MustCompile(`([rR]esource ?[vV]ersion\\*"?: *\\*"?)\d+`), "$1<rv>"},
	{regexp.MustCompile(`(Boot ID: +)\S+`), "$1<boot>"},
	{regexp.MustCompile(`podfall://[0-9a-f]{16,}`), "podfall://<id>"},
	{regexp.MustCompile(`\b[0-9a-f]{64}\b`), "<id>"},
	// A kubectl that had to wait for the machine takes that for its own limit of requests.
	{regexp.MustCompile(`(?m)^I\d{4} .*client-side throttling.*\n`), ""},
	// What kubectl's informers say about a wait that ran out depends on where they were.
	{regexp.MustCompile(`(?m)^[IWE]\d{4} .*reflector\.go.*\n`), ""},
	{regexp.MustCompile(`(?m)^([IWE])\d{4} [0-9:.]+ +\d+ (\w+\.go):\d+\]`), "$1<log> $2]"},
	{regexp.MustCompile(`(quick|web-\d)\.[0-9a-f]{16}`), "$1.<event>"},
	{regexp.MustCompile(`\b([0-9]+:)3[0-2]\d{3}/(TCP|UDP)`), "$1<port>/$2"},
	{regexp.MustCompile(`kubectl-edit-\d+`), "kubectl-edit-<n>"},
	// Of a generated name the last part; before it may stand a hash, which stays.
	{regexp.MustCompile(`-[bcdfghjklmnpqrstvwxz2456789]{5}(\b|\.)`), "-<5>$1"},
	{regexp.MustCompile(`\(` + age + ` ago\)`), "(<age> ago)"},
	{regexp.MustCompile(`\(lasts (?:` + age + `|<invalid>)\)`), "(lasts <age>)"},
	{regexp.MustCompile(`(?m)(^|[^:\s]  +)` + age + `( \(x\d+ over )` + age + `\)(  +|$)`), "$1<age>$2<age>)$3"},
	// Twice, because of two ages the second begins where the first has ended.
	{regexp.MustCompile(`(?m)(^|[^:\s]  +)` + age + `(  +|$)`), "$1<age>$2"},
	{regexp.MustCompile(`(?m)(^|[^:\s]  +)` + age + `(  +|$)`), "$1<age>$2"},
	{regexp.MustCompile(`(\S)  +`), "$1  "},
	{regexp.MustCompile(`(?m) +$`), ""},
	// How far a rollout is when kubectl looks is a matter of time.
	{regexp.MustCompile(`(?m)^Waiting for .* (?:rollout to finish: |spec update to be observed\.\.\.).*\n`), ""},
	// A kubelet may hear of a binding, and write its own events, before the scheduler writes of it.
	{regexp.MustCompile(`(?im)((?:^.*  (?:Pulled|Created|Started)  pod/quick  .*\n)+)(^.*  Scheduled  pod/quick  .*\n)`), "$2$1"},
	{regexp.MustCompile(`(?m)((?:^.*  (?:Pulling|Pulled|Created|Started)  <age>  kubelet  .*\n)+)(^.*  Scheduled  <age>  default-scheduler  .*\n)`), "$2$1"},
}

// tidied is what a command has printed, without what differs from run to run.
func (p *player) tidied(text string) string {
	text = p.tidy.Replace(text)
	for _, rewrite := range rewrites {
		text = rewrite.pattern.ReplaceAllString(text, rewrite.with)
	}
	if p.program == own { // help and hints show the program's own name
		text = ownName.ReplaceAllString(text, "${1}kubectl ")
	}
	if p.namespace != "" { // where a pod lands there depends on the other transcripts
		text = nodeName.ReplaceAllString(text, "node-<n>")
	}
	return text
}

var ownName = regexp.MustCompile(`(See '|Use "|e\.g\. )podfall `)

var nodeName = regexp.MustCompile(`\bnode-[1-3]\b`)

func TestTidiedKeepsWhatMatters(t *testing.T) {
	p := &player{tidy: strings.NewReplacer(), namespace: "n"}
	for text, want := range map[string]string{
		"web   1/1   Running   2 (3s ago)   2m52s   10.244.0.2   node-1": "web  1/1  Running  2 (<age> ago)  <age>  <ip>  node-<n>",
		"Termination Grace Period:  30s":                                 "Termination Grace Period:  30s",
		"  Normal  Killing  4s (x2 over 9s)  kubelet  Stopping":          "  Normal  Killing  <age> (x2 over <age>)  kubelet  Stopping",
		"4s   Normal   Killing":                                          "<age>  Normal  Killing",
		"done   Complete   2/2   3s   24s":                               "done  Complete  2/2  <age>  <age>",
		"web-5d4f8c7b9-x2x4b   0/1":                                      "web-5d4f8c7b9-<5>  0/1",
		"node.kubernetes.io/not-ready:NoExecute op=Exists for 300s":      "node.kubernetes.io/not-ready:NoExecute op=Exists for 300s",
		`resourceVersion: "17"`:                                          `resourceVersion: "<rv>"`,
		`\"resourceVersion\":\"145\"`:                                    `\"resourceVersion\":\"<rv>\"`,
		"  Normal  Pulled  1s  kubelet  b\n  Normal  Scheduled  1s  default-scheduler  a\n  Normal  Started  1s  kubelet  c\n": "  Normal  Scheduled  <age>  default-scheduler  a\n  Normal  Pulled  <age>  kubelet  b\n  Normal  Started  <age>  kubelet  c\n",
		"2s  Normal  Pulled  Pod/quick  b\n3s  Normal  Scheduled  Pod/quick  a\n":                                              "<age>  Normal  Scheduled  Pod/quick  a\n<age>  Normal  Pulled  Pod/quick  b\n",
		"Status: Terminating (lasts 3s)": "Status: Terminating (lasts <age>)",
		"Waiting for deployment spec update to be observed...\nWaiting for deployment \"web\" rollout to finish: 0 of 2 updated replicas are available...\ndone\n":          "done\n",
		"I1122 13:50:00.000000       7 request.go:752] \"Waited before sending request\" delay=\"1.2s\" reason=\"client-side throttling, not priority and fairness\"\nok\n": "ok\n",
	} {
		if got := p.tidied(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
