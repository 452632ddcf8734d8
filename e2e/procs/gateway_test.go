package procs

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	layouts "github.com/podfall/podfall/cmd/podfall/cluster"
	"github.com/podfall/podfall/internal/homeport"
	"github.com/podfall/podfall/internal/pki"
)

// restConfig returns the configuration in the cluster's kubeconfig.
func (c *cluster) restConfig() *rest.Config {
	c.t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(c.data, "kubeconfig"))
	if err != nil {
		c.t.Fatal(err)
	}
	return config
}

// countNodes returns how many nodes client-go finds.
func countNodes(t testing.TB, config *rest.Config) int {
	t.Helper()
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := api.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return len(nodes.Items)
}

// TestGatewayKeepsAddress kills the gateway, then the whole cluster. A client reconnects with its
// old kubeconfig.
func TestGatewayKeepsAddress(t *testing.T) {
	t.Parallel()
	c := up(t, "--nodes", "2")
	config := c.restConfig()
	if n := countNodes(t, config); n != 2 {
		t.Errorf("%d nodes, want 2", n)
	}
	for what, end := range map[string]func(){"was killed": func() { c.kill("gateway") }, "was stopped": func() { c.must("down") }} {
		end()
		out := c.must("up", "--detach", "--nodes", "2")
		if !strings.Contains(out, "export KUBECONFIG="+filepath.Join(c.data, "kubeconfig")+"\n") {
			t.Errorf("up printed %q", out)
		}
		if n := countNodes(t, config); n != 2 {
			t.Errorf("after it %s: %d nodes, want 2", what, n)
		}
	}
	if table := c.must("status"); !strings.Contains(table, config.Host) {
		t.Errorf("status does not show %s:\n%s", config.Host, table)
	}
}

func TestTheGatewaysPort(t *testing.T) {
	t.Parallel()
	listener, err := homeport.Listen(t.Context(), "127.0.0.1", 0) // a port that no outgoing connection takes meanwhile
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{t: t, data: filepath.Join(t.TempDir(), "c")}
	t.Cleanup(c.down)
	if out := c.run("up", "--detach", "--nodes", "1", "--port", port); out.code != 1 || !strings.Contains(out.stderr, "address already in use") {
		t.Errorf("a port that is taken: %+v", out)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	c.must("up", "--detach", "--nodes", "1", "--port", port)
	if want := "https://127.0.0.1:" + port; c.restConfig().Host != want || countNodes(t, c.restConfig()) != 1 {
		t.Errorf("the gateway is at %s, want %s", c.restConfig().Host, want)
	}
	if out := c.run("up", "--detach", "--nodes", "1", "--port", "1"); out.code != 1 || !strings.Contains(out.stderr, "another port ("+port+", not 1)") {
		t.Errorf("another port: %+v", out)
	}
}

// rawClient sends arbitrary HTTP requests.
type rawClient struct {
	t      *testing.T
	client *http.Client
	config *rest.Config
}

func (c *cluster) newRawClient(t *testing.T) rawClient {
	t.Helper()
	config := c.restConfig()
	client, err := rest.HTTPClientFor(rest.AnonymousClientConfig(config))
	if err != nil {
		t.Fatal(err)
	}
	return rawClient{t, client, config}
}

// requestCode returns the status code of a request; each header is "Name: value".
func (d rawClient) requestCode(method, path string, body []byte, headers ...string) int {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), conditionTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, d.config.Host+path, bytes.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		request.Header.Set(name, value)
		if name == "Host" {
			request.Host = value
		}
	}
	response, err := d.client.Do(request)
	if err != nil {
		d.t.Fatal(err)
	}
	_ = response.Body.Close()
	return response.StatusCode
}

// TestGatewayRefusesStrangers is T1 and T2: requests without the token or from a web page are
// refused, and reads change nothing.
func TestGatewayRefusesStrangers(t *testing.T) {
	t.Parallel()
	c := up(t, "--nodes", "1")
	api := c.dial()
	before, pids := initialInventory(t, api), c.pids()
	d := c.newRawClient(t)
	_, port, _ := strings.Cut(strings.TrimPrefix(d.config.Host, "https://"), ":")
	token := "Authorization: Bearer " + d.config.BearerToken
	const list, pod = "/api/v1/namespaces/default/pods", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"bad"},"spec":{"containers":[{"name":"main","image":"a"}]}}`
	for name, row := range map[string]struct {
		method, path, body string
		headers            []string
		code               int
	}{
		"the owner":                  {"GET", list, "", []string{token}, 200},
		"by name":                    {"GET", list, "", []string{token, "Host: localhost:" + port}, 200},
		"by IPv6":                    {"GET", list, "", []string{token, "Host: [::1]:" + port}, 200},
		"no token":                   {"GET", list, "", nil, 401},
		"no token, discovery":        {"GET", "/api", "", nil, 401},
		"another token":              {"GET", list, "", []string{token + "x"}, 401},
		"half a token":               {"GET", list, "", []string{token[:len(token)/2]}, 401},
		"another scheme":             {"GET", list, "", []string{"Authorization: Basic " + d.config.BearerToken}, 401},
		"a cookie":                   {"GET", list, "", []string{"Cookie: token=" + d.config.BearerToken}, 401},
		"rebound DNS":                {"GET", list, "", []string{token, "Host: evil.example:" + port}, 403},
		"rebound DNS, same origin":   {"GET", list, "", []string{token, "Host: evil.example:" + port, "Origin: https://evil.example:" + port, "Sec-Fetch-Site: same-origin"}, 403},
		"another port":               {"GET", list, "", []string{token, "Host: 127.0.0.1:1"}, 403},
		"no port":                    {"GET", list, "", []string{token, "Host: 127.0.0.1"}, 403},
		"a name that begins so":      {"GET", list, "", []string{token, "Host: localhost.evil.example:" + port}, 403},
		"a page":                     {"GET", list, "", []string{token, "Origin: https://evil.example"}, 403},
		"a page that posts":          {"POST", list, pod, []string{token, "Origin: https://evil.example", "Content-Type: application/json"}, 403},
		"a page that posts a form":   {"POST", list, pod, []string{"Sec-Fetch-Site: cross-site", "Content-Type: text/plain"}, 403},
		"a form":                     {"POST", list, pod, []string{token, "Content-Type: text/plain"}, 415},
		"a create that is a GET":     {"GET", list, pod, []string{token, "Content-Type: application/json"}, 200},
		"a delete that is a GET":     {"GET", "/api/v1/nodes/node-1?method=DELETE", "", []string{token, "X-HTTP-Method-Override: DELETE"}, 200},
		"a HEAD":                     {"HEAD", list, "", []string{token}, 405},
		"no token, a proxy of paths": {"GET", "//api/v1/../v1/nodes", "", nil, 401},
	} {
		if code := d.requestCode(row.method, row.path, []byte(row.body), row.headers...); code != row.code {
			t.Errorf("%s: %d, want %d", name, code, row.code)
		}
	}
	c.wantUnharmed(api, before, pids)
}

// TestListensOnLoopbackOnly is T4, according to the kernel.
func TestListensOnLoopbackOnly(t *testing.T) {
	t.Parallel()
	c := up(t, "--nodes", "2")
	inodes := map[string]string{} // inode to address
	for name, pid := range c.pids() {
		links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		if err != nil {
			t.Fatal(err)
		}
		for _, link := range links {
			if target, err := os.Readlink(link); err == nil && strings.HasPrefix(target, "socket:[") {
				inodes[strings.Trim(strings.TrimPrefix(target, "socket:"), "[]")] = name
			}
		}
	}
	want := map[string]int{"bus": 6, "runtime/node-1": 1, "runtime/node-2": 1, "gateway": 1}
	var found map[string]int
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("who listens, and on how many sockets: %v, want %v", found, want)
		}
	})
	eventually(t, "each process listens on as many sockets as it should", func() bool {
		found = countListeners(t, inodes) // a table that changes while it is read may lack a line
		return maps.Equal(found, want)
	})
}

// countListeners returns how many of the sockets each process listens on.
func countListeners(t *testing.T, inodes map[string]string) map[string]int {
	t.Helper()
	found, seen := map[string]int{}, map[string]bool{}
	for table, loopback := range map[string][]string{
		"/proc/net/tcp": {"0100007F"}, "/proc/net/tcp6": {"00000000000000000000000001000000", "0000000000000000FFFF00000100007F"},
		"/proc/net/udp": nil, "/proc/net/udp6": nil,
	} {
		text, err := os.ReadFile(table)
		if os.IsNotExist(err) {
			continue // the machine has no IPv6
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(string(text), "\n")[1:] {
			fields := strings.Fields(line)
			if len(fields) < 10 || inodes[fields[9]] == "" {
				continue
			}
			const listen = "0A"
			udp := strings.Contains(table, "udp")
			if udp || fields[3] == listen {
				name := inodes[fields[9]]
				if !seen[fields[9]] {
					found[name]++
				}
				seen[fields[9]] = true
				if host, _, _ := strings.Cut(fields[1], ":"); !slices.Contains(loopback, host) {
					t.Errorf("%s listens on %s of %s", name, fields[1], table)
				}
			}
		}
	}
	return found
}

// TestGatewayRefusesExposedSecrets is T3 for a file that its owner has made readable.
func TestGatewayRefusesExposedSecrets(t *testing.T) {
	t.Parallel()
	c := up(t, "--nodes", "1")
	for _, name := range []string{"token", "tls.key", "ca.key"} {
		path := filepath.Join(c.data, "gateway", name)
		if err := os.Chmod(path, 0o640); err != nil {
			t.Fatal(err)
		}
		if out := c.run("up", "--detach", "--nodes", "1"); out.code != 1 || !strings.Contains(out.stderr, name+" is open to other users") {
			t.Errorf("%s with mode 0640: %+v", name, out)
		}
		if err := os.Chmod(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c.must("up", "--detach", "--nodes", "1")
}

// TestAnExpiredCertificateIsReplaced starts a cluster again two years later. The authority is valid
// for ten years, so an old kubeconfig stays valid too.
func TestAnExpiredCertificateIsReplaced(t *testing.T) {
	t.Parallel()
	c := up(t, "--nodes", "1")
	config := c.restConfig()
	c.must("down")
	dir := filepath.Join(c.data, "gateway")
	read := func(name string) []byte {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	authority := pki.Pair{Certificate: read("ca.crt"), Key: read("ca.key")}
	old, err := authority.IssueServer("podfall gateway", pki.Loopback(), time.Now().AddDate(-2, 0, 0))
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"tls.crt": old.Certificate, "tls.key": old.Key} {
		if err := layouts.WriteFile(filepath.Join(dir, name), data); err != nil {
			t.Fatal(err)
		}
	}
	c.must("up", "--detach", "--nodes", "1")
	if bytes.Equal(read("tls.crt"), old.Certificate) || !bytes.Equal(read("ca.crt"), authority.Certificate) {
		t.Error("the server's certificate should be new, and the authority's the same")
	}
	if n := countNodes(t, config); n != 1 {
		t.Errorf("%d nodes, want 1", n)
	}
}

// TestKubeconfigIsMerged is T18 by the command: other entries of the kubeconfig stay.
func TestKubeconfigIsMerged(t *testing.T) {
	t.Parallel()
	c := up(t, "--nodes", "1", "--name", "mine")
	own, err := os.ReadFile(filepath.Join(c.data, "kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	if printed := c.must("kubeconfig"); printed != string(own) {
		t.Errorf("printed\n%s\nwant\n%s", printed, own)
	}
	dir := t.TempDir()
	path, link := filepath.Join(dir, "config"), filepath.Join(dir, "link")
	const theirs = "# mine\napiVersion: v1\nclusters:\n- cluster:\n    server: https://prod.example\n  name: prod\n" +
		"contexts:\n- context:\n    cluster: prod\n    user: me\n  name: prod\n" +
		"current-context: prod # careful\nkind: Config\nusers:\n- name: me\n  user:\n    token: t\n"
	if err := os.WriteFile(path, []byte(theirs), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	c.must("kubeconfig", "--merge", link)
	both, err := clientcmd.LoadFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if both.CurrentContext != "prod" || both.Contexts["podfall-mine"] == nil || both.Clusters["prod"].Server != "https://prod.example" {
		t.Errorf("merged: %+v", both)
	}
	if info, err := os.Lstat(path); err != nil || info.Mode() != 0o640 {
		t.Errorf("the file has mode %v, want what it had: %v", info.Mode(), err)
	}
	config, err := clientcmd.NewNonInteractiveClientConfig(*both, "podfall-mine", nil, nil).ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	if n := countNodes(t, config); n != 1 {
		t.Errorf("%d nodes, want 1", n)
	}
	c.must("kubeconfig", "--merge", path, "--switch")
	if both, err = clientcmd.LoadFromFile(path); err != nil || both.CurrentContext != "podfall-mine" {
		t.Errorf("switched to %v: %v", both, err)
	}
	if err := os.WriteFile(path+".lock", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, arguments := range map[string][]string{
		"want --merge FILE": {"kubeconfig", "--switch"},
		"lock":              {"kubeconfig", "--merge", path},
	} {
		if out := c.run(arguments...); out.code == 0 || !strings.Contains(out.stderr, want) {
			t.Errorf("%v: %+v, want an error with %q", arguments, out, want)
		}
	}
}

func TestControllersAreChosen(t *testing.T) {
	t.Parallel()
	c := up(t, "--nodes", "1", "--controllers=*,-kube-scheduler")
	c.apply(manifest("web", "on TERM exits 0 after 0s", 1))
	if out := c.run("wait", "--for=condition=PodScheduled", "pod/web", "--timeout=1s"); out.code == 0 {
		t.Errorf("without a scheduler the pod was scheduled: %+v", out)
	}
	bad := &cluster{t: t, data: filepath.Join(t.TempDir(), "c")}
	if out := bad.run("up", "--controllers=podgod"); out.code != 2 || !strings.Contains(out.stderr, `"podgod" is not in the list`) {
		t.Errorf("an unknown controller: %+v", out)
	}
}

func TestAdmissionPluginsAreLeftOut(t *testing.T) {
	t.Parallel()
	c := up(t, "--nodes", "1", "--disable-admission-plugins=DefaultTolerationSeconds")
	c.apply(manifest("web", "on TERM exits 0 after 0s", 1))
	if out := c.run("get", "pod", "web", "-o", "yaml"); out.code != 0 || strings.Contains(out.stdout, "tolerationSeconds") {
		t.Errorf("without DefaultTolerationSeconds the pod has tolerations: %+v", out)
	}
	bad := &cluster{t: t, data: filepath.Join(t.TempDir(), "c")}
	if out := bad.run("up", "--disable-admission-plugins=Nobody"); out.code != 2 || !strings.Contains(out.stderr, `"Nobody": want names of LimitRanger, ServiceAccount, Priority`) {
		t.Errorf("an unknown plugin: %+v", out)
	}
}
