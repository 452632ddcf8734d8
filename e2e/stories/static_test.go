package stories

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TD-096: the file of a static pod that ignores TERM is changed twice: the mirror of its
// first form stays until that one's grace of 20 s has passed, and of the others only the
// last one runs. When the file is removed, the mirror stays for the grace again.
func TestTD096MirrorPodGracePeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &player{t: t}
		defer p.close()
		p.runCommand("cluster")
		form := func(name string) {
			p.cluster.WriteManifest("node-1", "web.yaml", fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {form: %s}, annotations: {script.podfall.io/main: ignores TERM}}
spec: {terminationGracePeriodSeconds: 20, containers: [{name: main, image: "registry.k8s.io/pause:3.10"}]}`, name))
		}
		form("first")
		p.runCommand("wait web-node-1 running")
		first := p.mirrorPod()
		form("second")
		time.Sleep(5 * time.Second)
		form("third")
		time.Sleep(13 * time.Second)
		if now := p.mirrorPod(); now == nil || now.UID != first.UID || now.Labels["form"] != "first" {
			t.Errorf("before the grace has passed the mirror is %+v", now)
		}
		time.Sleep(15 * time.Second)
		if now := p.mirrorPod(); now == nil || now.UID == first.UID || now.Labels["form"] != "third" {
			t.Errorf("when it has passed the mirror is %+v", now)
		}
		if held := p.cluster.Containers("node-1"); strings.Count(held, "RUNNING") != 1 {
			t.Errorf("the runtime has\n%s", held)
		}
		p.cluster.WriteManifest("node-1", "web.yaml", "")
		time.Sleep(15 * time.Second)
		if p.mirrorPod() == nil {
			t.Error("the mirror has gone before the grace has passed")
		}
		time.Sleep(15 * time.Second)
		if now := p.mirrorPod(); now != nil {
			t.Errorf("after the grace there is still a mirror: %+v", now.ObjectMeta)
		}
	})
}

// mirrorPod returns the mirror pod of web on node-1; nil if there is none.
func (p *player) mirrorPod() *corev1.Pod {
	obj, err := p.cluster.API().Get(p.ctx, p.target("web-node-1"), metav1.GetOptions{})
	if err != nil {
		return nil
	}
	pod, _ := obj.(*corev1.Pod)
	return pod
}
