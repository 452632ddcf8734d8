package procs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	layouts "github.com/podfall/podfall/cmd/podfall/cluster"
)

// TestT15SecretsStayWhereTheyBelong puts words into secrets. It looks for them, and for the
// cluster's own keys, in what people attach to bug reports: logs, histories, command output, and
// the machine's process information.
func TestT15SecretsStayWhereTheyBelong(t *testing.T) {
	t.Parallel()
	const canary, encoded = "canary-in-the-mine", "Y2FuYXJ5LWluLXRoZS1taW5l"
	c := up(t, "--nodes", "1", "--timing", "fastest")
	c.apply(fmt.Sprintf(`
apiVersion: v1
kind: Secret
metadata: {name: creds}
stringData: {password: %s}
---
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: none
    env: [{name: PASSWORD, valueFrom: {secretKeyRef: {name: creds, key: password}}}]
    volumeMounts: [{name: creds, mountPath: /creds}]
  volumes: [{name: creds, secret: {secretName: creds}}]
`, canary))
	c.must("wait", "--for=condition=Ready", "pod/web", waitFlag)
	c.must("patch", "secret", "creds", "-p", `{"stringData":{"password":"`+canary+`-2"}}`)
	recorded := map[string]string{}
	for _, command := range []string{"describe pod web", "get events -o yaml", "status -o json", "truth", "timeline pod/web"} {
		recorded["podfall "+command] = c.run(strings.Fields(command)...).stdout
	}
	c.must("delete", "pod", "web")
	words := map[string]string{"the secret": canary, "the secret in base64": encoded}
	token, err := readFile(filepath.Join(c.data, "gateway", "token"))
	if err != nil {
		t.Fatal(err)
	}
	words["the gateway's token"] = strings.TrimSpace(token)
	seeds, err := filepath.Glob(filepath.Join(layouts.Layout{Root: c.data}.Keys(), "*.nk"))
	if err != nil || len(seeds) == 0 {
		t.Fatalf("no keys: %v", err)
	}
	for _, path := range seeds {
		seed, err := readFile(path)
		if err != nil {
			t.Fatal(err)
		}
		words["the key "+filepath.Base(path)] = strings.TrimSpace(seed)
	}
	for name, text := range recorded {
		wantAbsent(t, words, name, []byte(text))
	}
	files := 0
	for _, dir := range []string{"log", "history", "run"} {
		err := filepath.WalkDir(filepath.Join(c.data, dir), func(path string, entry fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil // the file was renamed meanwhile
			}
			if err != nil || !entry.Type().IsRegular() {
				return err
			}
			data, err := os.ReadFile(path)
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			wantAbsent(t, words, path, data)
			files++
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	if files < 10 {
		t.Errorf("looked through %d files: in the wrong place", files)
	}
	for _, process := range c.status() {
		for _, name := range []string{"cmdline", "environ"} {
			data, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", process.PID, name))
			if err != nil {
				t.Errorf("%s: %v", process.Name, err)
			}
			wantAbsent(t, words, process.Name+"'s "+name, data)
		}
	}
}

// wantAbsent fails if one of the words is in text.
func wantAbsent(t *testing.T, words map[string]string, where string, text []byte) {
	t.Helper()
	for what, word := range words {
		if bytes.Contains(text, []byte(word)) {
			t.Errorf("%s tells %s", where, what)
		}
	}
}
