package volumes

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/fault"
	"github.com/podfall/podfall/internal/storage"
)

func config(pairs ...string) *corev1.ConfigMap {
	data := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		data[pairs[i]] = pairs[i+1]
	}
	return &corev1.ConfigMap{Data: data}
}

// TestMissing is what a pod says that waits for an object, and that it goes on when the
// object comes.
func TestMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestNode(t)
		pod := podWith("p", configVolume("v"), emptyVolume("e"))
		err := s.Mount(t.Context(), pod)
		missing, is := err.(*NotReadyError) //nolint:errorlint // this is what Mount says it returns
		if !is || missing.After != time.Second ||
			err.Error() != `unmounted volumes=[v], unattached volumes=[], failed to process volumes=[]: configmap "conf" not found` {
			t.Fatalf("%v", err)
		}
		if got, want := s.takeEvents(), `FailedMount: MountVolume.SetUp failed for volume "v" : configmap "conf" not found`; got != want {
			t.Errorf("the event is %q, want %q", got, want)
		}
		if err := s.Mount(t.Context(), pod); err == nil || s.takeEvents() != "" {
			t.Errorf("before its turn it tried again: %v", err)
		}
		for _, after := range []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second, 8 * time.Second} { // doubled up to the most
			time.Sleep(missing.After)
			if err := s.Mount(t.Context(), pod); err == nil || s.takeEvents() == "" {
				t.Fatalf("it did not try again: %v", err)
			}
			missing.After = after
		}
		s.put("configmaps/default/conf", config("a", "1"))
		time.Sleep(missing.After)
		if err := s.Mount(t.Context(), pod); err != nil || s.file(pod, "v", "a") != "1" {
			t.Errorf("it is there, and %v", err)
		}
	})
}

// TestFresh has every kind of volume that is made of objects follow them.
func TestFresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestNode(t)
		s.put("configmaps/default/conf", config("a", "1", "b", "2"))
		s.put("secrets/default/creds", &corev1.Secret{Data: map[string][]byte{"password": []byte("p")}})
		field := func(path, of string) corev1.DownwardAPIVolumeFile {
			return corev1.DownwardAPIVolumeFile{Path: path, FieldRef: &corev1.ObjectFieldSelector{FieldPath: of}}
		}
		local := func(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }
		pod := podWith("p",
			configVolume("config"),
			configVolume("items", corev1.KeyToPath{Key: "a", Path: "deep/down/a", Mode: new(int32(0o400))}),
			volume("secret", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "creds", DefaultMode: new(int32(0o440))}}),
			volume("optional", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "none", Optional: new(true)}}),
			volume("downward", corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{
				field("labels", "metadata.labels"),
				{Path: "memory", ResourceFieldRef: &corev1.ResourceFieldSelector{ContainerName: "c", Resource: "limits.memory"}},
			}}}),
			volume("all", corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: local("conf"), Items: []corev1.KeyToPath{{Key: "b", Path: "b"}}}},
				{Secret: &corev1.SecretProjection{LocalObjectReference: local("creds")}},
				{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{field("name", "metadata.name")}}},
				{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: new(int64(3600))}},
			}}}))
		limit := corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Ki")}
		pod.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Limits: limit}}}
		mount := func() {
			t.Helper()
			if err := s.Mount(t.Context(), pod); err != nil {
				t.Fatal(err)
			}
		}
		check := func(rows map[string]string) {
			t.Helper()
			for at, want := range rows {
				name, file, _ := strings.Cut(at, "/")
				if got := s.file(pod, name, file); got != want {
					t.Errorf("%s: %q, want %q", at, got, want)
				}
			}
		}
		mount()
		check(map[string]string{
			"config/a": "1", "config/b": "2", "items/deep/down/a": "1", "items/b": "-", "secret/password": "p", "optional/x": "-",
			"downward/labels": `app="x"`, "downward/memory": "1024", "all/b": "2", "all/password": "p", "all/name": "p",
			"all/token": "token 1 of default for p",
		})
		for at, want := range map[string]os.FileMode{
			"configmap/items": 0o755, "configmap/items/..data": 0o755, "configmap/items/deep/down": 0o755, "configmap/items/deep/down/a": 0o400,
			"secret/secret/password": 0o440, "configmap/config/a": 0o644,
		} {
			info, err := os.Stat(filepath.Join(s.dir, "kubelet/pods/uid-p/volumes/kubernetes.io~"+at))
			if err != nil || info.Mode().Perm() != want {
				t.Errorf("%s: %v %v, want %v", at, info.Mode(), err, want)
			}
		}
		s.put("configmaps/default/conf", config("a", "new"))
		pod.Labels["app"] = "y"
		time.Sleep(49 * time.Minute)
		mount()
		check(map[string]string{
			"config/a": "new", "config/b": "-", "items/deep/down/a": "new", "downward/labels": `app="y"`,
			"all/b": "2", "all/token": "token 1 of default for p", // its ConfigMap has no b now: all of it stays as it was
		})
		if got, want := s.takeEvents(), `FailedMount: MountVolume.SetUp failed for volume "all" : configmap references non-existent config key: b`; got != want {
			t.Errorf("the event is %q, want %q", got, want)
		}
		s.put("configmaps/default/conf", config("a", "new", "b", "new"))
		time.Sleep(time.Second)
		mount()
		check(map[string]string{"all/b": "new", "all/token": "token 2 of default for p"})
		s.delete("configmaps/default/conf")
		mount() // what is mounted stays, and holds nothing up
		check(map[string]string{"config/a": "new"})
	})
}

// TestRefused are volumes that say clearly why they are not mounted.
func TestRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestNode(t)
		s.put("configmaps/default/conf", config("a", "1"))
		host := filepath.Join(s.dir, "host")
		for want, v := range map[string]corev1.Volume{
			`MountVolume.SetUp failed for volume "v" : configmap references non-existent config key: b`:  configVolume("v", corev1.KeyToPath{Key: "b", Path: "b"}),
			`MountVolume.SetUp failed for volume "v" : invalid path: must not contain '..': "../x"`:      configVolume("v", corev1.KeyToPath{Key: "a", Path: "../x"}),
			`MountVolume.SetUp failed for volume "v" : invalid path: must be relative path: "/x"`:        configVolume("v", corev1.KeyToPath{Key: "a", Path: "/x"}),
			`MountVolume.SetUp failed for volume "v" : invalid path: must not start with '..': "..data"`: configVolume("v", corev1.KeyToPath{Key: "a", Path: "..data"}),
			`MountVolume.SetUp failed for volume "v" : projected.sources[0]: podfall projects no such source: want secret, configMap, downwardAPI or serviceAccountToken`: volume("v", corev1.VolumeSource{
				Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{Path: "ca"}}}},
			}),
			`MountVolume.SetUp failed for volume "v" : podfall mounts no volume of this kind: want emptyDir, configMap, secret, downwardAPI, projected, hostPath, persistentVolumeClaim or ephemeral`: volume("v", corev1.VolumeSource{
				NFS: &corev1.NFSVolumeSource{Server: "s", Path: "/"},
			}),
			`MountVolume.SetUp failed for volume "v" : hostPath type check failed: ` + host + `/none is not a directory`:                               hostVolume("v", host+"/none", corev1.HostPathDirectory),
			`MountVolume.SetUp failed for volume "v" : hostPath type check failed: ` + host + ` is not a file`:                                         hostVolume("v", host, corev1.HostPathFile),
			`MountVolume.SetUp failed for volume "v" : hostPath "/etc" is not allowed: want a path inside --host-path-root ` + host:                    hostVolume("v", "/etc", ""),
			`MountVolume.SetUp failed for volume "v" : hostPath "` + host + `/../kubelet" is not allowed: want a path inside --host-path-root ` + host: hostVolume("v", host+"/../kubelet", ""),
			`Unable to attach or mount volumes: unmounted volumes=[v], unattached volumes=[], failed to process volumes=[v]: ` +
				`error processing PVC default/none: failed to fetch PVC from API server: persistentvolumeclaims "none" not found`: claimVolume("v", "none"),
		} {
			pod := podWith("p", v)
			if err := s.Mount(t.Context(), pod); err == nil {
				t.Errorf("want %s", want)
			}
			if got := s.takeEvents(); got != "FailedMount: "+want {
				t.Errorf("got %s\nwant FailedMount: %s", got, want)
			}
			if err := s.Unmount(t.Context(), pod); err != nil {
				t.Error(err)
			}
			if err := s.RemoveDirs(t.Context(), pod); err != nil {
				t.Error(err)
			}
		}
		s.HostPaths = nil
		if err := s.Mount(t.Context(), podWith("p", hostVolume("v", host, ""))); err == nil || !strings.Contains(err.Error(), "unless --host-path-root names it") {
			t.Errorf("without a directory for hostPaths: %v", err)
		}
	})
}

// addClaim puts a claim, its volume and, if name is not empty, an attachment.
func (s *testNode) addClaim(claim string, source corev1.PersistentVolumeSource) {
	s.put("persistentvolumeclaims/default/"+claim, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{UID: "c"}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "pv"},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
	})
	s.put("persistentvolumes//pv", &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{
		ClaimRef: &corev1.ObjectReference{UID: "c"}, PersistentVolumeSource: source,
	}})
}

// addAttachment says that a volume is attached, and that the node has said that it uses it.
func (s *testNode) addAttachment(source *corev1.CSIPersistentVolumeSource) {
	attachment := &storagev1.VolumeAttachment{}
	attachment.Status.Attached = true
	s.put("volumeattachments//"+storage.AttachmentName(source, "n1"), attachment)
	s.inUse.Add(storage.DeviceName(source), "another", "v")
	s.Reported(s.InUse())
	s.node(s.InUse(), storage.DeviceName(source))
}

// node is this one's object, which says what it uses and is told what it has.
func (s *testNode) node(inUse []corev1.UniqueVolumeName, attached ...corev1.UniqueVolumeName) {
	node := &corev1.Node{Status: corev1.NodeStatus{VolumesInUse: inUse}}
	for _, device := range attached {
		node.Status.VolumesAttached = append(node.Status.VolumesAttached, corev1.AttachedVolume{Name: device})
	}
	s.put("nodes//n1", node)
}

// TestAttach is CTL-20 on the node: it says that it uses a volume before it mounts it,
// waits for the attachment, and says so until it is unmounted.
func TestAttach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestNode(t)
		source := &corev1.CSIPersistentVolumeSource{Driver: "disk.example.com", VolumeHandle: "../../h"}
		s.addClaim("data", corev1.PersistentVolumeSource{CSI: source})
		pod := podWith("p", claimVolume("v", "data"))
		unattached := func(why string) {
			t.Helper()
			err := s.Mount(t.Context(), pod)
			if missing, is := err.(*NotReadyError); !is || len(missing.Unattached) != 1 || missing.After != time.Second { //nolint:errorlint // as above
				t.Errorf("%s: %v", why, err)
			}
			if told := s.takeEvents(); told != "" {
				t.Errorf("%s: the kubelet says %s", why, told)
			}
			time.Sleep(time.Second)
		}
		attach := func(attached bool) {
			attachment := &storagev1.VolumeAttachment{}
			attachment.Status.Attached = attached
			s.put("volumeattachments//"+storage.AttachmentName(source, "n1"), attachment)
		}
		attach(true)
		unattached("not reported in use")
		<-s.InUseChanges()
		if got := s.InUse(); len(got) != 1 || got[0] != "kubernetes.io/csi/disk.example.com^../../h" {
			t.Errorf("in use: %v", got)
		}
		s.Reported(s.InUse())
		s.node(nil, storage.DeviceName(source))
		unattached("reported, it was taken back")
		s.node(s.InUse())
		unattached("the node is not told that it has it")
		s.node(s.InUse(), storage.DeviceName(source))
		attach(false)
		unattached("attaching")
		s.delete("volumeattachments//" + storage.AttachmentName(source, "n1"))
		unattached("no attachment")
		attach(true)
		if err := s.Mount(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(s.dir, "storage", "disk.example.com/..%2F..%2Fh")); err != nil {
			t.Error(err)
		}
		s.boot()
		if got := s.InUse(); len(got) != 1 {
			t.Errorf("after a restart in use: %v", got)
		}
		if err := s.Unmount(t.Context(), pod); err != nil || len(s.InUse()) > 0 {
			t.Errorf("after the unmount: %v %v", s.InUse(), err)
		}
	})
}

// TestShared has two pods use one directory of the cluster, whatever the node's is.
func TestShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestNode(t)
		ours := &corev1.CSIPersistentVolumeSource{Driver: "directory.podfall.dev", VolumeHandle: "pvc-1"}
		s.addClaim("data", corev1.PersistentVolumeSource{CSI: ours})
		s.addAttachment(ours)
		one, two := podWith("one", claimVolume("v", "data")), podWith("two", claimVolume("v", "data"))
		for _, pod := range []*corev1.Pod{one, two} {
			if err := s.Mount(t.Context(), pod); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(s.dir, "storage", "directory.podfall.dev", "pvc-1", "f"), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		if s.file(one, "v", "f") != "x" || s.file(two, "v", "f") != "x" {
			t.Error("the pods do not see one volume")
		}
		if err := s.Unmount(t.Context(), one); err != nil {
			t.Fatal(err)
		}
		if err := s.RemoveDirs(t.Context(), one); err != nil || s.file(two, "v", "f") != "x" {
			t.Errorf("one pod's end took the other's files: %v", err)
		}
	})
}

// TestDoubleMount is STK-16: a driver that is not idempotent mounts again when the kubelet
// starts anew; one unmount leaves one mount, and the directory stays until somebody
// unmounts it by hand.
func TestDoubleMount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestNode(t)
		pod := podWith("p", emptyVolume("v"))
		mount := func() {
			t.Helper()
			if err := s.Mount(t.Context(), pod); err != nil {
				t.Fatal(err)
			}
		}
		mount()
		s.boot()
		mount()
		if r, err := s.readRecord(pod.UID, "v"); err != nil || r.Mounts != 1 {
			t.Fatalf("a good driver: %+v %v", r, err)
		}
		s.injectFault(fault.VolumeMount, fault.Attributes{Volume: "v"}, fault.Effect{Kind: fault.Duplicate})
		s.boot()
		mount()
		mount()
		if r, err := s.readRecord(pod.UID, "v"); err != nil || r.Mounts != 2 {
			t.Fatalf("after a restart: %+v %v", r, err)
		}
		if err := s.Unmount(t.Context(), pod); err != nil {
			t.Errorf("the kubelet knows of one mount: %v", err)
		}
		done := make(chan error)
		go func() { done <- s.RemoveDirs(t.Context(), pod) }()
		time.Sleep(time.Hour)
		select {
		case err := <-done:
			t.Fatalf("a mounted directory was removed: %v", err)
		default:
		}
		if err := os.Remove(filepath.Join(s.dir, "kubelet/pods/uid-p/mounts/v")); err != nil { // umount
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestHang: a volume that hangs holds up neither the other volumes nor other pods, and is
// given up after the wait.
func TestHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestNode(t)
		pod, other := podWith("p", emptyVolume("a"), emptyVolume("v"), emptyVolume("z")), podWith("other", emptyVolume("v"))
		begun := time.Now()
		for _, step := range []struct {
			point fault.Point
			do    func(*corev1.Pod) error
			want  string
		}{
			{
				fault.VolumeMount, func(pod *corev1.Pod) error { return s.Mount(t.Context(), pod) },
				"unmounted volumes=[v], unattached volumes=[], failed to process volumes=[]: context deadline exceeded",
			},
			{fault.VolumeUnmount, func(pod *corev1.Pod) error { return s.Unmount(t.Context(), pod) }, "mounted volumes=[v]: context deadline exceeded"},
		} {
			s.injectFault(step.point, fault.Attributes{Pod: "p", Volume: "v"}, fault.Effect{Kind: fault.Hang})
			done := make(chan error)
			go func() { done <- step.do(pod) }()
			synctest.Wait()
			if err := step.do(other); err != nil || time.Since(begun) > time.Nanosecond {
				t.Errorf("%s: another pod: %v after %s", step.point, err, time.Since(begun))
			}
			if err := <-done; err == nil || err.Error() != step.want {
				t.Errorf("%s: %v, want %s", step.point, err, step.want)
			}
			if len(s.records(pod.UID)) != map[fault.Point]int{fault.VolumeMount: 2, fault.VolumeUnmount: 1}[step.point] {
				t.Errorf("%s: %v are mounted", step.point, s.records(pod.UID))
			}
			s.faults.Set(nil)
			time.Sleep(10 * time.Second)
			if err := step.do(pod); err != nil {
				t.Error(err)
			}
			begun = time.Now()
		}
	})
}
