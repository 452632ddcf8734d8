package procs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// volumeReader is a program that prints its volumes and its environment whenever they change, and
// writes a word into its claim and its hostPath. Without mounts of its own it gets their paths in
// PODFALL_MOUNTS.
const volumeReader = `
at() {
  if [ -z "$PODFALL_MOUNTS" ]; then echo "$1"; return; fi
  echo "$PODFALL_MOUNTS" | while IFS== read -r inside outside; do [ "$inside" = "$1" ] && echo "$outside"; done
}
trap 'echo ends; exit 0' TERM
cat "$(at /data)/word" 2>/dev/null
echo "left by $NAME" > "$(at /data)/word"
echo "was here" > "$(at /host)/$NAME"
echo "env $GREETING $PASSWORD"
last=
while :; do
  now="files $(cat "$(at /etc/conf)/greeting") $(cat "$(at /etc/creds)/password") $(cat "$(at /etc/about)/labels")"
  [ "$now" = "$last" ] || echo "$now"
  last=$now
  sleep 0.1
done
`

// volumeReaderPod returns a pod that runs volumeReader.
func volumeReaderPod(name, host string) string {
	var script strings.Builder
	for line := range strings.Lines(volumeReader) {
		script.WriteString("      " + line)
	}
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %[1]s, labels: {shade: blue}}
spec:
  runtimeClassName: process
  restartPolicy: Never
  terminationGracePeriodSeconds: 5
  containers:
  - name: main
    image: none
    command: [/bin/sh, -c]
    args:
    - |
%[3]s
    env:
    - {name: NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
    - {name: PASSWORD, valueFrom: {secretKeyRef: {name: creds, key: password}}}
    envFrom:
    - {configMapRef: {name: upper}}
    volumeMounts:
    - {name: conf, mountPath: /etc/conf}
    - {name: creds, mountPath: /etc/creds}
    - {name: about, mountPath: /etc/about}
    - {name: data, mountPath: /data, subPathExpr: by/$(GREETING)}
    - {name: host, mountPath: /host}
  volumes:
  - {name: conf, configMap: {name: conf}}
  - {name: creds, secret: {secretName: creds}}
  - {name: about, downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}}
  - {name: data, persistentVolumeClaim: {claimName: data}}
  - {name: host, hostPath: {path: %[2]s, type: Directory}}
`, name, host, script.String())
}

const volumeReaderObjects = `
apiVersion: v1
kind: ConfigMap
metadata: {name: conf}
data: {greeting: hello}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: upper}
data: {GREETING: HELLO}
---
apiVersion: v1
kind: Secret
metadata: {name: creds}
stringData: {password: sesame}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}
`

// TestProgramReadsItsVolumes runs a real program that reads its config and its secret. It sees
// their changes while the kubelet and the runtime are killed, and the next pod finds what it wrote.
// Without namespaces it gets the paths of the volumes.
func TestProgramReadsItsVolumes(t *testing.T) {
	t.Parallel()
	for _, isolation := range []string{"auto", "none"} {
		t.Run("isolation="+isolation, func(t *testing.T) { checkVolumes(t, isolation) })
	}
}

func checkVolumes(t *testing.T, isolation string) {
	t.Helper()
	host := sharedDir(t)
	c, _ := upWithPrograms(t, "--host-path-root", host, "--isolation", isolation)
	c.apply(volumeReaderObjects)
	c.apply(volumeReaderPod("one", host))
	says := func(pod, want string) {
		t.Helper()
		eventually(t, pod+" says "+want, func() bool {
			out := c.run("logs", pod)
			return strings.Contains(out.stdout, want+"\n")
		})
	}
	says("one", "env HELLO sesame")
	says("one", `files hello sesame shade="blue"`)
	c.must("patch", "configmap", "conf", "-p", `{"data":{"greeting":"good-bye"}}`)
	says("one", `files good-bye sesame shade="blue"`)
	c.kill("kubelet/node-1", "runtime/node-1")
	c.must("up", "--detach")
	c.must("patch", "secret", "creds", "-p", `{"stringData":{"password":"again"}}`)
	says("one", `files good-bye again shade="blue"`)
	if data, err := os.ReadFile(filepath.Join(host, "one")); err != nil || string(data) != "was here\n" {
		t.Errorf("in the machine's directory: %q %v", data, err)
	}
	c.must("delete", "pod", "one")
	c.apply(volumeReaderPod("two", host))
	says("two", "left by one")
	c.must("delete", "pod", "two")
	eventually(t, "nothing is left of them on the node", func() bool {
		left, err := filepath.Glob(filepath.Join(c.data, "nodes/node-1/kubelet/pods/*"))
		return err == nil && len(left) == 0
	})
}
