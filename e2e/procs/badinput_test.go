package procs

import (
	"bytes"
	crand "crypto/rand"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	protobuf "google.golang.org/protobuf/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
)

// malformed is a request that the apiserver must refuse.
type malformed struct {
	subject proto.APISubject
	request *proto.Request
	// raw is sent instead of the request.
	raw  []byte
	code int32
	// want lists what the answer must contain.
	want []string
}

// fresh is replaced by an unused operation id.
const fresh = "fresh"

// validCall returns a valid call, which each row spoils.
func validCall(verb proto.Verb, name string) malformed {
	return malformed{
		subject: proto.APISubject{Identity: proto.Client("admin"), Verb: verb, Resource: "pods", Namespace: "default", Name: name},
		request: &proto.Request{
			Version: proto.Version, Operation: fresh, ContentType: kinds.ContentTypeJSON, ApiVersion: "v1",
			Body: []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"bad"},"spec":{"containers":[{"name":"main","image":"a"}]}}`),
		},
	}
}

func (m malformed) withSubject(subject func(*proto.APISubject)) malformed {
	subject(&m.subject)
	return m
}

func (m malformed) withRequest(request func(*proto.Request)) malformed { request(m.request); return m }

func (m malformed) withBody(contentType, body string) malformed {
	return m.withRequest(func(r *proto.Request) { r.ContentType, r.Body = contentType, []byte(body) })
}

func (m malformed) expect(code int32, want ...string) malformed {
	m.code, m.want = code, want
	return m
}

func (m malformed) encode(t *testing.T) []byte {
	t.Helper()
	if m.raw != nil {
		return m.raw
	}
	if m.request.Operation == fresh {
		m.request.Operation = crand.Text()
	}
	data, err := protobuf.Marshal(m.request)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// envelopes returns calls that cannot be decoded.
func envelopes(t *testing.T) map[string]malformed {
	t.Helper()
	create := func() malformed { return validCall(proto.VerbCreate, "bad") }
	noise := make([]byte, 4096)
	if _, err := rand.NewChaCha8([32]byte{1}).Read(noise); err != nil {
		t.Fatal(err)
	}
	random, truncated, empty := create(), create(), create()
	random.raw = noise
	truncated.raw = truncated.encode(t)[:60]
	empty.raw = []byte{}
	options := func(size int) malformed {
		return create().withRequest(func(r *proto.Request) { r.Options = bytes.Repeat([]byte{0xff}, size) })
	}
	return map[string]malformed{
		"random bytes":   random.expect(400, "envelope", "podfall.v1.Request"),
		"cut short":      truncated.expect(400, "envelope", "podfall.v1.Request"),
		"nothing at all": empty.expect(400, "version", "speaks 1"),
		"another version": create().withRequest(func(r *proto.Request) { r.Version = 99 }).
			expect(400, "version", "speaks 1", "99"),
		"no operation": create().withRequest(func(r *proto.Request) { r.Operation = "" }).
			expect(400, "operation", "1 to 64 printable"),
		"a long operation": create().withRequest(func(r *proto.Request) { r.Operation = strings.Repeat("o", 1<<20) }).
			expect(400, "operation", "1 to 64 printable"),
		"an operation with control characters": create().withRequest(func(r *proto.Request) { r.Operation = "a\x1b[2Jb" }).
			expect(400, "operation", "1 to 64 printable"),
		"a boot with control characters": create().withRequest(func(r *proto.Request) { r.Boot = "a\nb" }).
			expect(400, "boot", "at most 64 printable"),
		"a deadline in the past": create().withRequest(func(r *proto.Request) { r.DeadlineUnixNano = 1 }).
			expect(504, "deadline", "changed nothing"),
		"a version that is not served": create().withRequest(func(r *proto.Request) { r.ApiVersion = "v7" }).
			expect(404, "api_version", "v7"),
		"options that are none":       options(10).expect(400, "options", "CreateOptions"),
		"a megabyte of such options":  options(1<<20).expect(400, "options", "CreateOptions"),
		"seven megabytes of the same": options(7<<20).expect(400, "options", "CreateOptions"),
	}
}

// targets returns calls with impossible targets.
func targets() map[string]malformed {
	rows := map[string]malformed{
		"an unknown verb": validCall("explode", "web").expect(400, "verb", "explode", "deletecollection"),
		"an unknown resource": validCall(proto.VerbGet, "web").withSubject(func(s *proto.APISubject) { s.Resource = "pod" }).
			expect(404, "resource", "pods or deployments.apps"),
		"an unknown subresource": validCall(proto.VerbGet, "web").withSubject(func(s *proto.APISubject) { s.Subresource = "soul" }).
			expect(404, "could not find the requested resource"),
		"no name": validCall(proto.VerbDelete, "").expect(400, "name", "want it named"),
		"no namespace": validCall(proto.VerbCreate, "bad").withSubject(func(s *proto.APISubject) { s.Namespace = "" }).
			expect(400, "namespace", "want it named"),
		"a namespace for a node": validCall(proto.VerbGet, "node-1").withSubject(func(s *proto.APISubject) { s.Resource = "nodes" }).
			expect(400, "namespace", "want it empty"),
	}
	for what, name := range map[string]string{
		"a path": "../../keys/apiserver", "a dot": ".", "two dots": "..", "a percent sign": "100%",
		"a very long name": strings.Repeat("n", 254), "control characters": "a\x00b\r\nINFO", "other characters": "пода", "not UTF-8": "\xff\xfe",
	} {
		rows["named "+what] = validCall(proto.VerbGet, name).expect(400, "name")
		rows["in a namespace that is "+what] = validCall(proto.VerbCreate, "bad").
			withSubject(func(s *proto.APISubject) { s.Namespace = name }).expect(400, "namespace")
	}
	return rows
}

// bodies returns calls with an invalid object or patch.
func bodies() map[string]malformed {
	const media = kinds.ContentTypeJSON
	pod := func(metadata, spec string) string {
		return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"bad"` + metadata + `},"spec":{"containers":[{"name":"main","image":"a"}]` + spec + `}}`
	}
	create := func(contentType, body string) malformed {
		return validCall(proto.VerbCreate, "bad").withBody(contentType, body)
	}
	strict, _ := (&metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}).Marshal() // plain fields always encode
	patch := func(contentType, body string) malformed {
		return validCall(proto.VerbPatch, "web").withBody(contentType, body)
	}
	var bomb strings.Builder // each level contains the one below ten times
	bomb.WriteString("l0: &l0 a\n")
	for level := range 20 {
		fmt.Fprintf(&bomb, "l%d: &l%d [%s]\n", level+1, level+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*l%d,", level), 10), ","))
	}
	return map[string]malformed{
		"nothing":             create(media, "").expect(400, "must be of type Pod"),
		"no JSON":             create(media, "{").expect(400, "Pod"),
		"random protobuf":     create(kinds.ContentTypeProtobuf, "k8s\x00\xff\xff\xff").expect(400, "Pod"),
		"another media type":  create("text/html", "<pod>").expect(415, "application/json"),
		"a YAML bomb":         create("application/yaml", bomb.String()).expect(413, "aliases written out is too large"),
		"a YAML bomb as JSON": create(media, bomb.String()).expect(400, "must be of type Pod"),
		"9,000 brackets":      create(media, strings.Repeat("[", 9000)).expect(400, "nested more than 256 levels deep"),
		"objects that are nested deep": create(media, pod(`,"annotations":`+strings.Repeat(`{"a":`, 5000)+"1"+strings.Repeat("}", 5000), "")).
			expect(400, "nested more than 256 levels deep"),
		"four megabytes":    create(media, pod(`,"annotations":{"a":"`+strings.Repeat("a", 4<<20)+`"}`, "")).expect(413, "limit is 3145728"),
		"large annotations": create(media, pod(`,"annotations":{"a":"`+strings.Repeat("a", 1<<20)+`"}`, "")).expect(422, "metadata.annotations", "262144"),
		"a field of another type": create(media, pod("", `,"terminationGracePeriodSeconds":"soon"`)).
			expect(400, "terminationGracePeriodSeconds"),
		"a number beyond all": create(media, pod("", `,"terminationGracePeriodSeconds":1e999`)).expect(400, "Pod"),
		"a field too many": create(media, pod("", `,"gracePeriod":3`)).withRequest(func(r *proto.Request) { r.Options = strict }).
			expect(400, `unknown field "spec.gracePeriod"`),
		"an object of another kind": create(media, `{"apiVersion":"v1","kind":"Service","metadata":{"name":"bad"}}`).expect(400, "Service", "Pod"),
		"an object of no kind":      create(media, `{"apiVersion":"v9","kind":"Nothing","metadata":{"name":"bad"}}`).expect(400, "Nothing", "Pod"),
		"another name": create(media, strings.Replace(pod("", ""), `"bad"`, `"other"`, 1)).
			expect(400, "name", "other", "bad"),
		"another namespace": create(media, pod(`,"namespace":"kube-system"`, "")).expect(400, "does not match the namespace sent on the request"),
		"a name that is none": create(media, strings.Replace(pod("", ""), `"bad"`, `"Bad_Name"`, 1)).
			withSubject(func(s *proto.APISubject) { s.Name = "Bad_Name" }).expect(422, "metadata.name", "lower case"),
		"an apply by nobody":           patch("application/apply-patch+yaml", "{}").expect(422, "fieldManager", "required for apply patch"),
		"a patch of no type":           patch("", "{}").expect(415, "application/merge-patch+json"),
		"a patch of another type":      patch("application/xml-patch+xml", "<a/>").expect(415, "application/merge-patch+json"),
		"a JSON patch that is none":    patch("application/json-patch+json", `{"op":"add"}`).expect(400, "patch"),
		"an operation that is none":    patch("application/json-patch+json", `[{"op":"explode","path":"/spec"}]`).expect(422, "error in our request"),
		"a patch of deep nesting":      patch("application/merge-patch+json", strings.Repeat(`{"a":`, 9000)).expect(400, "nested more than 256 levels deep"),
		"a patch of what is not there": patch("application/json-patch+json", `[{"op":"remove","path":"/spec/soul"}]`).expect(422, "error in our request"),
	}
}

// TestBadInputIsRefused sends invalid requests to the apiserver. Each answer is a Status that names
// what is wrong and what would be right. Nothing is stored, and no process is harmed.
func TestBadInputIsRefused(t *testing.T) {
	t.Parallel()
	c := up(t, "--nodes", "1")
	c.runPod("web", "ignores TERM", 1)
	api := c.dial()
	before, pids := initialInventory(t, api), c.pids()
	keys, hub := c.hubAddress()
	admin := connectRaw(t, hub, keys, proto.Client("admin"))
	for group, rows := range map[string]map[string]malformed{"envelope": envelopes(t), "target": targets(), "body": bodies()} {
		for name, row := range rows {
			t.Run(group+"/"+name, func(t *testing.T) {
				admin.t = t
				status := admin.apiStatus(row.subject.String(), row.encode(t))
				if status.Code != row.code || status.Status != metav1.StatusFailure || len(status.Message) > 4096 {
					t.Errorf("got %d %s, want %d: %.4096s", status.Code, status.Status, row.code, status.Message)
				}
				for _, want := range row.want {
					if !strings.Contains(status.Message, want) {
						t.Errorf("the message does not say %q: %.4096s", want, status.Message)
					}
				}
			})
		}
	}
	admin.t = t
	t.Run("a boot that is over", func(t *testing.T) {
		node := connectRaw(t, hub, keys, proto.Node("node-1"))
		row := validCall(proto.VerbGet, "web").withSubject(func(s *proto.APISubject) { s.Identity = node.id }).
			withRequest(func(r *proto.Request) { r.Boot = strings.Repeat("0", 16) + "-00000000" })
		status := node.apiStatus(row.subject.String(), row.encode(t))
		if status.Code != 403 || !strings.Contains(status.Message, "boot") || !strings.Contains(status.Message, "begun again") {
			t.Errorf("got %d %s", status.Code, status.Message)
		}
	})
	c.wantUnharmed(api, before, pids)
}

// TestBadManifests applies invalid files: each is refused with a message and exit code 1, and
// nothing changes.
func TestBadManifests(t *testing.T) {
	t.Parallel()
	c := up(t, "--nodes", "1")
	api := c.dial()
	before, pids := initialInventory(t, api), c.pids()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "empty"), 0o700); err != nil {
		t.Fatal(err)
	}
	good := manifest("bad", "ignores TERM", 1)
	bomb := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: bad}\ndata:\n  l0: &l0 aaaaaaaaaa\n"
	for level := range 12 {
		bomb += fmt.Sprintf("  l%d: &l%d [%s]\n", level+1, level+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*l%d,", level), 10), ","))
	}
	for name, row := range map[string]struct{ file, text, want string }{
		"unknown field":    {"", strings.Replace(good, "spec:", "spec:\n  gracePeriod: 3", 1), `unknown field "spec.gracePeriod"`},
		"wrong type":       {"", strings.Replace(good, "Seconds: 1", "Seconds: soon", 1), "terminationGracePeriodSeconds"},
		"bad name":         {"", strings.Replace(good, "name: bad", "name: ../bad", 1), "../bad"},
		"no kind":          {"", "apiVersion: v1\nmetadata: {name: bad}\n", "kind"},
		"unknown kind":     {"", "apiVersion: v1\nkind: Nothing\nmetadata: {name: bad}\n", "Nothing"},
		"a scalar":         {"", "just words\n", "pod.yaml"},
		"no YAML":          {"", "a: [\n", "pod.yaml"},
		"binary":           {"", "\x00\x01\x02\xff", "pod.yaml"},
		"empty":            {"", "", "no objects passed to apply"},
		"only comments":    {"", "# nothing\n---\n# here\n", "no objects passed to apply"},
		"9,000 brackets":   {"", "a: " + strings.Repeat("[", 9000), "pod.yaml"},
		"a YAML bomb":      {"", bomb, ""},
		"no such file":     {filepath.Join(dir, "none.yaml"), "", "does not exist"},
		"empty directory":  {filepath.Join(dir, "empty"), "", "recognized file extensions"},
		"a URL of nobody":  {"http://127.0.0.1:1/pod.yaml", "", "was refused"},
		"no file but -f":   {"", "\n", "no objects passed to apply"},
		"a node of a node": {"", "apiVersion: v1\nkind: Node\nmetadata: {name: extra, namespace: default}\nspec: {podCIDR: [1]}\n", "podCIDR"},
	} {
		t.Run(name, func(t *testing.T) {
			path := row.file
			if path == "" {
				path = filepath.Join(t.TempDir(), "pod.yaml")
				if err := os.WriteFile(path, []byte(row.text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			for _, verb := range []string{"apply", "create"} {
				out := c.run(verb, "-f", path)
				want := strings.Replace(row.want, "apply", verb, 1)
				if out.code != 1 || out.stdout != "" || !strings.Contains(out.stderr, want) || len(out.stderr) > 4096 {
					t.Errorf("%s: exit %d\n%.1000s%.4096s\nwant exit 1 and %q", verb, out.code, out.stdout, out.stderr, want)
				}
			}
		})
	}
	c.wantUnharmed(api, before, pids)
	c.apply(manifest("scripted", "ignores everything", 1)) // to the apiserver this is only an annotation
	eventually(t, "describe says what is wrong with the script", func() bool {
		out := c.must("describe", "pod", "scripted")
		return strings.Contains(out, `script clause "ignores everything": want`)
	})
	c.must("delete", "pod", "scripted")
}
