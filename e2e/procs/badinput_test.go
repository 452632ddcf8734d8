package procs

import (
	"bytes"
	"context"
	crand "crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	protobuf "google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	layouts "github.com/podfall/podfall/cmd/podfall/cluster"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
)

// stranger is a connection to a bus that keeps to none of podfall's rules.
type stranger struct {
	t       *testing.T
	id      proto.Identity
	nc      *nats.Conn
	refused chan error
	asked   int
}

// knock connects with the key of an identity, and returns why that is refused.
func knock(t *testing.T, at, keys string, id proto.Identity) (*stranger, error) {
	t.Helper()
	key, err := nats.NkeyOptionFromSeed(filepath.Join(keys, id.Token()+".nk"))
	if err != nil {
		t.Fatal(err)
	}
	s := &stranger{t: t, id: id, refused: make(chan error, 100)}
	s.nc, err = nats.Connect(at, key, nats.NoReconnect(), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		s.refused <- err
	}))
	if err == nil {
		t.Cleanup(s.nc.Close)
	}
	return s, err
}

// intrude is knock for a key that is good.
func intrude(t *testing.T, at, keys string, id proto.Identity) *stranger {
	t.Helper()
	s, err := knock(t, at, keys, id)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// ask sends data and returns the one answer that comes.
func (s *stranger) ask(to proto.Identity, subject string, data []byte) ([]byte, error) {
	s.t.Helper()
	s.asked++
	reply := proto.ReplySubject(s.id, to, fmt.Sprintf("stranger.%d", s.asked))
	answers, err := s.nc.SubscribeSync(reply)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answers.Unsubscribe() }() // in vain when the connection is gone
	if err := s.nc.PublishRequest(subject, reply, data); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	msg, err := answers.NextMsgWithContext(ctx)
	if err != nil {
		return nil, err
	}
	if msg.Header.Get("Status") == "503" {
		return nil, nats.ErrNoResponders
	}
	return msg.Data, nil
}

// api asks the apiserver and returns the Status that it answers with.
func (s *stranger) api(subject string, data []byte) *metav1.Status {
	s.t.Helper()
	raw, err := s.ask(proto.APIServer, subject, data)
	if err != nil {
		s.t.Errorf("%.100s: %v", subject, err)
		return &metav1.Status{}
	}
	answer := &proto.Response{}
	if err := protobuf.Unmarshal(raw, answer); err != nil {
		s.t.Errorf("%.100s: unreadable answer: %v", subject, err)
		return &metav1.Status{}
	}
	decoded, err := kinds.DecodeAny(answer.GetItem().GetObject())
	status, ok := decoded.(*metav1.Status)
	if !ok || status.Code != answer.GetCode() {
		s.t.Errorf("%.100s: answered with code %d and %v (%v), want a Status", subject, answer.GetCode(), decoded, err)
		return &metav1.Status{}
	}
	return status
}

// expect checks that the bus itself refuses what do does.
func (s *stranger) expect(want string, do func() error) {
	s.t.Helper()
	err := do()
	if err == nil {
		err = s.nc.FlushWithContext(s.bounded())
	}
	if err == nil {
		select {
		case err = <-s.refused:
		case <-s.bounded().Done():
		}
	}
	if err == nil || !strings.Contains(err.Error(), want) {
		s.t.Errorf("got %v, want a refusal that says %q", err, want)
	}
}

func (s *stranger) bounded() context.Context {
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	s.t.Cleanup(cancel)
	return ctx
}

// malformed is a call that no apiserver may carry out.
type malformed struct {
	subject proto.APISubject
	request *proto.Request
	// raw is sent in place of the request.
	raw  []byte
	code int32
	// want is what the answer has to name.
	want []string
}

// fresh stands for an operation id that nobody has used.
const fresh = "fresh"

// call is a good call that each row spoils.
func call(verb proto.Verb, name string) malformed {
	return malformed{
		subject: proto.APISubject{Identity: proto.Client("admin"), Verb: verb, Resource: "pods", Namespace: "default", Name: name},
		request: &proto.Request{
			Version: proto.Version, Operation: fresh, ContentType: kinds.ContentTypeJSON, ApiVersion: "v1",
			Body: []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"bad"},"spec":{"containers":[{"name":"main","image":"a"}]}}`),
		},
	}
}

func (m malformed) from(subject func(*proto.APISubject)) malformed { subject(&m.subject); return m }
func (m malformed) with(request func(*proto.Request)) malformed    { request(m.request); return m }

func (m malformed) body(contentType, body string) malformed {
	return m.with(func(r *proto.Request) { r.ContentType, r.Body = contentType, []byte(body) })
}

func (m malformed) is(code int32, want ...string) malformed {
	m.code, m.want = code, want
	return m
}

func (m malformed) encoded(t *testing.T) []byte {
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

// envelopes are calls that cannot be read.
func envelopes(t *testing.T) map[string]malformed {
	t.Helper()
	create := func() malformed { return call(proto.VerbCreate, "bad") }
	noise := make([]byte, 4096)
	if _, err := rand.NewChaCha8([32]byte{1}).Read(noise); err != nil {
		t.Fatal(err)
	}
	random, truncated, empty := create(), create(), create()
	random.raw = noise
	truncated.raw = truncated.encoded(t)[:60]
	empty.raw = []byte{}
	options := func(size int) malformed {
		return create().with(func(r *proto.Request) { r.Options = bytes.Repeat([]byte{0xff}, size) })
	}
	return map[string]malformed{
		"random bytes":   random.is(400, "envelope", "podfall.v1.Request"),
		"cut short":      truncated.is(400, "envelope", "podfall.v1.Request"),
		"nothing at all": empty.is(400, "version", "speaks 1"),
		"another version": create().with(func(r *proto.Request) { r.Version = 99 }).
			is(400, "version", "speaks 1", "99"),
		"no operation": create().with(func(r *proto.Request) { r.Operation = "" }).
			is(400, "operation", "1 to 64 printable"),
		"a long operation": create().with(func(r *proto.Request) { r.Operation = strings.Repeat("o", 1<<20) }).
			is(400, "operation", "1 to 64 printable"),
		"an operation with control characters": create().with(func(r *proto.Request) { r.Operation = "a\x1b[2Jb" }).
			is(400, "operation", "1 to 64 printable"),
		"a boot with control characters": create().with(func(r *proto.Request) { r.Boot = "a\nb" }).
			is(400, "boot", "at most 64 printable"),
		"a deadline in the past": create().with(func(r *proto.Request) { r.DeadlineUnixNano = 1 }).
			is(504, "deadline", "changed nothing"),
		"a version that is not served": create().with(func(r *proto.Request) { r.ApiVersion = "v7" }).
			is(404, "api_version", "v7"),
		"options that are none":       options(10).is(400, "options", "CreateOptions"),
		"a megabyte of such options":  options(1<<20).is(400, "options", "CreateOptions"),
		"seven megabytes of the same": options(7<<20).is(400, "options", "CreateOptions"),
	}
}

// targets are calls about what cannot be.
func targets() map[string]malformed {
	rows := map[string]malformed{
		"an unknown verb": call("explode", "web").is(400, "verb", "explode", "deletecollection"),
		"an unknown resource": call(proto.VerbGet, "web").from(func(s *proto.APISubject) { s.Resource = "pod" }).
			is(404, "resource", "pods or deployments.apps"),
		"an unknown subresource": call(proto.VerbGet, "web").from(func(s *proto.APISubject) { s.Subresource = "soul" }).
			is(404, "subresource", "soul"),
		"no name": call(proto.VerbDelete, "").is(400, "name", "want it named"),
		"no namespace": call(proto.VerbCreate, "bad").from(func(s *proto.APISubject) { s.Namespace = "" }).
			is(400, "namespace", "want it named"),
		"a namespace for a node": call(proto.VerbGet, "node-1").from(func(s *proto.APISubject) { s.Resource = "nodes" }).
			is(400, "namespace", "want it empty"),
	}
	for what, name := range map[string]string{
		"a path": "../../keys/apiserver", "a dot": ".", "two dots": "..", "a percent sign": "100%",
		"a very long name": strings.Repeat("n", 254), "control characters": "a\x00b\r\nINFO", "other characters": "пода", "not UTF-8": "\xff\xfe",
	} {
		rows["named "+what] = call(proto.VerbGet, name).is(400, "name")
		rows["in a namespace that is "+what] = call(proto.VerbCreate, "bad").
			from(func(s *proto.APISubject) { s.Namespace = name }).is(400, "namespace")
	}
	return rows
}

// bodies are calls whose object or patch is at fault.
func bodies() map[string]malformed {
	const media = kinds.ContentTypeJSON
	pod := func(metadata, spec string) string {
		return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"bad"` + metadata + `},"spec":{"containers":[{"name":"main","image":"a"}]` + spec + `}}`
	}
	create := func(contentType, body string) malformed {
		return call(proto.VerbCreate, "bad").body(contentType, body)
	}
	strict, _ := (&metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}).Marshal() // of plain fields: it encodes
	patch := func(contentType, body string) malformed {
		return call(proto.VerbPatch, "web").body(contentType, body)
	}
	var bomb strings.Builder // each level holds the one below it ten times
	for level := range 20 {
		fmt.Fprintf(&bomb, "l%d: &l%d [%s]\n", level+1, level+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*l%d,", level), 10), ","))
	}
	return map[string]malformed{
		"nothing":             create(media, "").is(400, "must be of type Pod"),
		"no JSON":             create(media, "{").is(400, "Pod"),
		"random protobuf":     create(kinds.ContentTypeProtobuf, "k8s\x00\xff\xff\xff").is(400, "Pod"),
		"another media type":  create("text/html", "<pod>").is(415, "application/json"),
		"a YAML bomb":         create("application/yaml", bomb.String()).is(415, "application/json"),
		"a YAML bomb as JSON": create(media, bomb.String()).is(400, "must be of type Pod"),
		"9,000 brackets":      create(media, strings.Repeat("[", 9000)).is(400, "nested more than 256 levels deep"),
		"objects that are nested deep": create(media, pod(`,"annotations":`+strings.Repeat(`{"a":`, 5000)+"1"+strings.Repeat("}", 5000), "")).
			is(400, "nested more than 256 levels deep"),
		"four megabytes":    create(media, pod(`,"annotations":{"a":"`+strings.Repeat("a", 4<<20)+`"}`, "")).is(413, "limit is 3145728"),
		"large annotations": create(media, pod(`,"annotations":{"a":"`+strings.Repeat("a", 1<<20)+`"}`, "")).is(422, "metadata.annotations", "262144"),
		"a field of another type": create(media, pod("", `,"terminationGracePeriodSeconds":"soon"`)).
			is(400, "terminationGracePeriodSeconds"),
		"a number beyond all": create(media, pod("", `,"terminationGracePeriodSeconds":1e999`)).is(400, "Pod"),
		"a field too many": create(media, pod("", `,"gracePeriod":3`)).with(func(r *proto.Request) { r.Options = strict }).
			is(400, `unknown field "spec.gracePeriod"`),
		"an object of another kind": create(media, `{"apiVersion":"v1","kind":"Service","metadata":{"name":"bad"}}`).is(400, "Service", "Pod"),
		"an object of no kind":      create(media, `{"apiVersion":"v9","kind":"Nothing","metadata":{"name":"bad"}}`).is(400, "Nothing", "Pod"),
		"another name": create(media, strings.Replace(pod("", ""), `"bad"`, `"other"`, 1)).
			is(400, "name", "other", "bad"),
		"another namespace": create(media, pod(`,"namespace":"kube-system"`, "")).is(400, "does not match the namespace sent on the request"),
		"a name that is none": create(media, strings.Replace(pod("", ""), `"bad"`, `"Bad_Name"`, 1)).
			from(func(s *proto.APISubject) { s.Name = "Bad_Name" }).is(422, "metadata.name", "lower case"),
		"server-side apply":            patch("application/apply-patch+yaml", "{}").is(415, "application/merge-patch+json"),
		"a patch of no type":           patch("", "{}").is(415, "application/merge-patch+json"),
		"a patch of another type":      patch("application/xml-patch+xml", "<a/>").is(415, "application/merge-patch+json"),
		"a JSON patch that is none":    patch("application/json-patch+json", `{"op":"add"}`).is(400, "patch"),
		"an operation that is none":    patch("application/json-patch+json", `[{"op":"explode","path":"/spec"}]`).is(422, "explode"),
		"a patch of deep nesting":      patch("application/merge-patch+json", strings.Repeat(`{"a":`, 9000)).is(400, "nested more than 256 levels deep"),
		"a patch of what is not there": patch("application/json-patch+json", `[{"op":"remove","path":"/spec/soul"}]`).is(422, "soul"),
	}
}

// TestBadInputIsRefused sends the apiserver what nobody should. Each answer is a Status
// that names what is wrong and what would be right; nothing is stored, and no process
// takes harm.
func TestBadInputIsRefused(t *testing.T) {
	t.Parallel()
	c := up(t, "--nodes", "1")
	c.pod("web", "ignores TERM", 1)
	api := c.dial()
	before, pids := inventory(t, api), c.pids()
	keys, hub := c.address()
	admin := intrude(t, hub, keys, proto.Client("admin"))
	for group, rows := range map[string]map[string]malformed{"envelope": envelopes(t), "target": targets(), "body": bodies()} {
		for name, row := range rows {
			t.Run(group+"/"+name, func(t *testing.T) {
				admin.t = t
				status := admin.api(row.subject.String(), row.encoded(t))
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
		node := intrude(t, hub, keys, proto.Node("node-1"))
		row := call(proto.VerbGet, "web").from(func(s *proto.APISubject) { s.Identity = node.id }).
			with(func(r *proto.Request) { r.Boot = strings.Repeat("0", 16) + "-00000000" })
		status := node.api(row.subject.String(), row.encoded(t))
		if status.Code != 403 || !strings.Contains(status.Message, "boot") || !strings.Contains(status.Message, "begun again") {
			t.Errorf("got %d %s", status.Code, status.Message)
		}
	})
	c.unharmed(api, before, pids)
}

// TestTheBusRefuses sends what the bus itself lets nobody send, to the hub and to a node
// bus.
func TestTheBusRefuses(t *testing.T) {
	t.Parallel()
	c := up(t, "--nodes", "1")
	c.pod("web", "ignores TERM", 1)
	api := c.dial()
	before, pids := inventory(t, api), c.pids()
	keys, hub := c.address()
	layout := layouts.Layout{Root: c.data}
	private := nodeBus(t, c, "node-1")
	t.Run("another's subjects", func(t *testing.T) { overstep(t, hub, keys) })
	t.Run("keys of another bus", func(t *testing.T) {
		for at, strangers := range map[string]map[proto.Identity]string{
			hub:     {proto.Kubelet: layout.NodeKeys("node-1"), proto.Runtime: layout.NodeKeys("node-1")},
			private: {proto.Client("admin"): keys, proto.Node("node-1"): keys, proto.APIServer: keys},
		} {
			for id, dir := range strangers {
				if _, err := knock(t, at, dir, id); !errors.Is(err, nats.ErrAuthorization) {
					t.Errorf("%s was let in: %v", id, err)
				}
			}
			if _, err := nats.Connect(at, nats.NoReconnect()); !errors.Is(err, nats.ErrAuthorization) {
				t.Errorf("someone without a key was let in: %v", err)
			}
		}
	})
	t.Run("calls to the runtime", func(t *testing.T) { pester(t, private, layout.NodeKeys("node-1")) })
	t.Run("64 MiB", func(t *testing.T) {
		tooMuch(t, hub, keys, proto.Client("admin"), "api.client:admin.create.pods.default.bad", api)
		tooMuch(t, private, layout.NodeKeys("node-1"), proto.Kubelet, proto.CRISubject("ListContainers"), api)
	})
	c.unharmed(api, before, pids)
}

// overstep does as the administrator what is for others to do.
func overstep(t *testing.T, hub, keys string) {
	t.Helper()
	data := call(proto.VerbDelete, "web").encoded(t)
	for _, subject := range []string{
		"api.apiserver.delete.pods.default.web", "api.node:node-1.delete.pods.default.web", "api.client:root.delete.pods.default.web",
		"api.*.delete.pods.default.web", "watch.cluster.forged", "r.node:node-1.apiserver.forged", "cri.StopContainer", "mgmt.fault", "$SYS.REQ.SERVER.PING",
	} {
		admin := intrude(t, hub, keys, proto.Client("admin"))
		admin.expect(strings.ToLower("Permissions Violation"), func() error { return lower(admin.nc.Publish(subject, data)) })
	}
	for _, subject := range []string{"api.>", ">", "r.>", "r.node:node-1.>", "watch.node.node-1.>", "node.node-1.logs"} {
		admin := intrude(t, hub, keys, proto.Client("admin"))
		admin.expect(strings.ToLower("Permissions Violation"), func() error {
			_, err := admin.nc.SubscribeSync(subject)
			return lower(err)
		})
	}
}

// lower is an error as the server's errors are written.
func lower(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(strings.ToLower(err.Error()))
}

// pester sends a runtime what its kubelet never would.
func pester(t *testing.T, private, keys string) {
	t.Helper()
	kubelet := intrude(t, private, keys, proto.Kubelet)
	request := func(spoil func(*proto.RuntimeRequest)) []byte {
		good := &proto.RuntimeRequest{Version: proto.Version, Boot: "boot", Call: "1", Caller: "stranger"}
		spoil(good)
		data, err := protobuf.Marshal(good)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	for name, row := range map[string]struct {
		method string
		data   []byte
		code   string
		want   string
	}{
		"random bytes":    {"StopContainer", []byte("\xff\x00random"), proto.CodeInvalidArgument, "not a RuntimeRequest"},
		"nothing":         {"StopContainer", nil, proto.CodeInvalidArgument, "speaks version 1"},
		"another version": {"StopContainer", request(func(r *proto.RuntimeRequest) { r.Version = 9 }), proto.CodeInvalidArgument, "speaks version 1"},
		"another body": {
			"StopContainer", request(func(r *proto.RuntimeRequest) { r.Body = []byte("\xff\xff\xff") }),
			proto.CodeInvalidArgument, "not a StopContainerRequest",
		},
		"nobody's container": {
			"ContainerStatus", request(func(r *proto.RuntimeRequest) { r.Body = []byte("\x0a\x06../../") }), proto.CodeNotFound, "../../",
		},
	} {
		raw, err := kubelet.ask(proto.Runtime, proto.CRISubject(row.method), row.data)
		answer := &proto.RuntimeResponse{}
		if err == nil {
			err = protobuf.Unmarshal(raw, answer)
		}
		if err != nil || answer.GetCode() != row.code || !strings.Contains(answer.GetMessage(), row.want) {
			t.Errorf("%s: %v %v, want %s that says %q", name, answer, err, row.code, row.want)
		}
	}
	if _, err := kubelet.ask(proto.Runtime, proto.CRISubject("Explode"), nil); !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("an unknown method: %v", err)
	}
	for range 100 { // of which none is a call to be given up
		if err := kubelet.nc.Publish(proto.CRISubject("Cancel"), []byte("\xff\x00random")); err != nil {
			t.Error(err)
		}
	}
	runtime := intrude(t, private, keys, proto.Runtime)
	runtime.expect("permissions violation", func() error { return lower(runtime.nc.Publish(proto.CRISubject("StopContainer"), nil)) })
}

// tooMuch sends messages of 64 MiB, in the ways of a client that keeps to NATS's rules
// and of one that does not, while others go on.
func tooMuch(t *testing.T, at, keys string, id proto.Identity, subject string, api client) {
	t.Helper()
	const size = 64 << 20
	honest := intrude(t, at, keys, id)
	if err := honest.nc.Publish(subject, make([]byte, size)); !errors.Is(err, nats.ErrMaxPayload) {
		t.Errorf("publish of 64 MiB: %v, want %v", err, nats.ErrMaxPayload)
	}
	address, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	rude, err := net.Dial("tcp", address.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer rude.Close()
	if err := rude.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	_, _ = fmt.Fprintf(rude, "CONNECT {\"verbose\":true}\r\nPUB %s %d\r\n", subject, size)
	_, _ = rude.Write(make([]byte, 1<<20)) // it may be gone by now
	said, _ := io.ReadAll(rude)            // until the server has hung up
	if !bytes.Contains(said, []byte("-ERR")) {
		t.Errorf("the server said %q to one who sends 64 MiB, want an error", said)
	}
	if err := honest.nc.FlushWithContext(honest.bounded()); err != nil {
		t.Errorf("the connection did not survive: %v", err)
	}
	large := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "large"}, BinaryData: map[string][]byte{"a": make([]byte, size)}}
	kind, _ := kinds.ByResource("configmaps")
	_, err = api.Create(t.Context(), podapi.Target{Kind: kind, Namespace: "default", Name: "large"}, large, metav1.CreateOptions{})
	if !apierrors.IsRequestEntityTooLargeError(err) || !strings.Contains(err.Error(), "the bus carries 8388608") {
		t.Errorf("create of 64 MiB: %v, want 413 and the limit", err)
	}
	if _, err := api.Get(t.Context(), pods("web"), metav1.GetOptions{}); err != nil {
		t.Errorf("the client's own connection did not survive: %v", err)
	}
}

// TestBadManifests applies files that are wrong: each is refused with a sentence, exit
// code 1, and nothing is changed.
func TestBadManifests(t *testing.T) {
	t.Parallel()
	c := up(t, "--nodes", "1")
	api := c.dial()
	before, pids := inventory(t, api), c.pids()
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
		"a key twice":      {"", strings.Replace(good, "kind: Pod", "kind: Pod\nkind: Pod", 1), "kind"},
		"binary":           {"", "\x00\x01\x02\xff", "pod.yaml"},
		"empty":            {"", "", "no objects passed to apply"},
		"only comments":    {"", "# nothing\n---\n# here\n", "no objects passed to apply"},
		"9,000 brackets":   {"", "a: " + strings.Repeat("[", 9000), "pod.yaml"},
		"a YAML bomb":      {"", bomb, ""},
		"no such file":     {filepath.Join(dir, "none.yaml"), "", "does not exist"},
		"empty directory":  {filepath.Join(dir, "empty"), "", "recognized file extensions"},
		"a URL":            {"https://example.com/pod.yaml", "", "podfall reads no URLs"},
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
	c.unharmed(api, before, pids)
	c.apply(manifest("scripted", "ignores everything", 1)) // which is no more than an annotation to the apiserver
	eventually(t, "describe says what is wrong with the script", func() bool {
		out := c.must("describe", "pod", "scripted")
		return strings.Contains(out, `script clause "ignores everything": want`)
	})
	c.must("delete", "pod", "scripted")
}

// address is where the cluster's keys are, and its hub.
func (c *cluster) address() (keys, hub string) {
	c.t.Helper()
	layout := layouts.Layout{Root: c.data}
	addresses, err := layout.Addresses()
	if err != nil {
		c.t.Fatal(err)
	}
	return layout.Keys(), addresses.Hub[0]
}

// nodeBus is where a node's private bus listens.
func nodeBus(t *testing.T, c *cluster, node string) string {
	t.Helper()
	var at struct {
		URL string `json:"url"`
	}
	data, err := os.ReadFile(filepath.Join(c.data, "run", "runtime-"+node+".json"))
	if err == nil {
		err = json.Unmarshal(data, &at)
	}
	if err != nil {
		t.Fatal(err)
	}
	return at.URL
}

// inventory is everything that is stored: each object with its version, but for what
// changes by itself.
func inventory(t *testing.T, api client) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, kind := range kinds.All() {
		list, err := api.List(t.Context(), podapi.Target{Kind: kind}, metav1.ListOptions{})
		if kind.Resource == "events" || apierrors.IsMethodNotSupported(err) || apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			t.Fatalf("list %s: %v", kind.Resource, err)
		}
		for _, item := range list.Items {
			version := item.GetResourceVersion()
			if kind.Resource == "leases" || kind.Resource == "nodes" {
				version = "" // heartbeats
			}
			found[kind.GroupResource().String()+" "+item.GetNamespace()+"/"+item.GetName()] = version
		}
	}
	return found
}

// pids are those of the cluster's processes; all must run.
func (c *cluster) pids() map[string]int {
	c.t.Helper()
	var status struct {
		Processes []struct {
			Name  string
			PID   int
			State string
		}
	}
	if err := json.Unmarshal([]byte(c.must("status", "-o", "json")), &status); err != nil {
		c.t.Fatal(err)
	}
	pids := map[string]int{}
	for _, process := range status.Processes {
		pids[process.Name] = process.PID
		if process.State != "running" {
			c.t.Errorf("%s is %s", process.Name, process.State)
		}
	}
	return pids
}

func (c *cluster) samePIDs(before map[string]int) {
	c.t.Helper()
	if after := c.pids(); !maps.Equal(before, after) {
		c.t.Errorf("processes were %v, and are %v", before, after)
	}
}

// unharmed checks that nothing is stored that was not, that every process is the one it
// was, none has panicked, and that the cluster still does its work.
func (c *cluster) unharmed(api client, before map[string]string, pids map[string]int) {
	c.t.Helper()
	t, ok := c.t.(*testing.T)
	if !ok {
		c.t.Fatal("not a test")
	}
	after := inventory(t, api)
	for name, version := range after {
		if was, known := before[name]; !known || was != version {
			t.Errorf("%s is at version %q, and was at %q", name, version, was)
		}
	}
	for name := range before {
		if _, there := after[name]; !there {
			t.Errorf("%s is gone", name)
		}
	}
	c.samePIDs(pids)
	if log := c.log("apiserver"); strings.Contains(log, "panic") {
		t.Errorf("the apiserver has panicked:\n%s", log)
	}
	c.pod("still-working", "on TERM exits 0 after 0s", 1)
	c.must("delete", "pod", "still-working")
}
