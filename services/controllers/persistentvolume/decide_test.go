package persistentvolume

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func claim(change ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c", UID: "u"}}
	c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")}
	for _, with := range change {
		with(c)
	}
	return c
}

func class(name string) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = &name }
}

func annotated(key, value string) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) { annotate(&c.ObjectMeta, key, value) }
}

func volume(name, size string, change ...func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	v.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	v.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
	v.Status.Phase = corev1.VolumeAvailable
	for _, with := range change {
		with(v)
	}
	return v
}

// of is a volume's claim: uid "" is whoever has the name.
func of(name string, uid types.UID) func(*corev1.PersistentVolume) {
	return func(v *corev1.PersistentVolume) {
		v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "default", Name: name, UID: uid}
	}
}

// text is a decision in one line.
func text(d Decision) string {
	var parts []string
	add := func(on bool, format string, args ...any) {
		if on {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	add(d.Provision != nil, "provision")
	if d.Volume != nil {
		add(true, "volume %s of %s", d.Volume.Name, d.Volume.Spec.ClaimRef.UID)
	}
	add(d.VolumeBound != nil, "bound")
	if d.Claim != nil {
		add(true, "claim of %q", d.Claim.Spec.VolumeName)
	}
	if d.Status != nil {
		add(true, "%s", d.Status.Phase)
	}
	if d.Event != nil {
		add(true, "%s", d.Event.Reason)
	}
	return strings.Join(parts, ", ")
}

func TestDecide(t *testing.T) {
	ours := DefaultClass()
	preferred := DefaultClass()
	preferred.Name = "preferred"
	late := DefaultClass()
	late.VolumeBindingMode = new(storagev1.VolumeBindingWaitForFirstConsumer)
	theirs := DefaultClass()
	theirs.Provisioner = "example.com/disks"
	done := annotated(bindCompleted, "yes")
	names := func(name string) func(*corev1.PersistentVolumeClaim) {
		return func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = name }
	}
	isBound := func(c *corev1.PersistentVolumeClaim) {
		c.Status = corev1.PersistentVolumeClaimStatus{
			Phase: corev1.ClaimBound, AccessModes: c.Spec.AccessModes, Capacity: c.Spec.Resources.Requests,
		}
	}
	for _, row := range []struct {
		name    string
		claim   *corev1.PersistentVolumeClaim
		class   *storagev1.StorageClass
		volumes []*corev1.PersistentVolume
		want    string
	}{
		{"nothing fits, no class", claim(), nil, []*corev1.PersistentVolume{volume("small", "1Gi")}, "Pending, FailedBinding"},
		{"no such class", claim(class("x")), nil, nil, "Pending, ProvisioningFailed"},
		{"asks for a provisioner", claim(class("standard")), ours, nil, `claim of "", Pending`},
		{"ours", claim(class("standard"), annotated(provisionerFor, Provisioner)), ours, nil, "provision, Pending"},
		{"somebody else's", claim(class("standard"), annotated(provisionerFor, theirs.Provisioner)), theirs, nil, "Pending, ExternalProvisioning"},
		{"waits for a pod", claim(class("standard")), late, nil, "Pending, WaitForFirstConsumer"},
		{"the pod has come", claim(class("standard"), annotated(SelectedNode, "n1"), annotated(provisionerFor, Provisioner)), late, nil, "provision, Pending"},
		{
			"the smallest that fits", claim(), nil,
			[]*corev1.PersistentVolume{volume("huge", "1Ti"), volume("fits", "20Gi"), volume("taken", "10Gi", of("d", "other"))},
			`volume fits of u, bound, claim of "fits", Bound`,
		},
		{"meant for it", claim(), nil, []*corev1.PersistentVolume{volume("a", "10Gi"), volume("b", "20Gi", of("c", ""))}, `volume b of u, bound, claim of "b", Bound`},
		{"provisioned", claim(class("standard")), ours, []*corev1.PersistentVolume{volume("p", "10Gi", of("c", "u"))}, `bound, claim of "p", Bound`},
		{"asks for one that is away", claim(names("v")), nil, nil, "Pending"},
		{"asks for one that is another's", claim(names("v")), nil, []*corev1.PersistentVolume{volume("v", "10Gi", of("d", "other"))}, "Pending, FailedBinding"},
		{"asks for one that is too small", claim(names("v")), nil, []*corev1.PersistentVolume{volume("v", "1Gi")}, "Pending, VolumeMismatch"},
		{"asks for one", claim(names("v")), nil, []*corev1.PersistentVolume{volume("v", "10Gi")}, `volume v of u, bound, claim of "v", Bound`},
		{"is bound", claim(names("v"), done, isBound), nil, []*corev1.PersistentVolume{volume("v", "10Gi", of("c", "u"), func(v *corev1.PersistentVolume) {
			v.Status.Phase = corev1.VolumeBound
		})}, ""},
		{"has lost its volume", claim(names("v"), done, isBound), nil, nil, "Lost, ClaimLost"},
		{"shares its volume", claim(names("v"), done, isBound), nil, []*corev1.PersistentVolume{volume("v", "10Gi", of("d", "other"))}, "Lost, ClaimMisbound"},
	} {
		if got := text(Decide(View{Claim: row.claim, Class: row.class, Volumes: row.volumes})); got != row.want {
			t.Errorf("%s: got %s, want %s", row.name, got, row.want)
		}
	}
	for _, row := range []struct {
		name    string
		claim   *corev1.PersistentVolumeClaim
		volumes []*corev1.PersistentVolume
		want    string
	}{
		{"none is named", claim(), nil, "preferred"},
		{"the empty one is named", claim(class("")), nil, ""},
		{"named as of old", claim(annotated(corev1.BetaStorageClassAnnotation, "")), nil, ""},
		{"a volume without a class fits", claim(), []*corev1.PersistentVolume{volume("fits", "10Gi")}, ""},
	} {
		decision := Decide(View{Claim: row.claim, Default: preferred, Volumes: row.volumes})
		got := ""
		if decision.Claim != nil {
			got = ClassOf(decision.Claim)
		}
		if got != row.want {
			t.Errorf("%s, and there is a default: got class %q, want %q", row.name, got, row.want)
		}
	}
}

func TestHolder(t *testing.T) {
	v := volume("v", "1Gi")
	v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: Driver, VolumeHandle: "h"}
	attached := func(name string) *storagev1.VolumeAttachment {
		a := &storagev1.VolumeAttachment{}
		a.Spec.NodeName, a.Spec.Source.PersistentVolumeName = "n1", &name
		return a
	}
	using := func(device corev1.UniqueVolumeName) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2"}}
		n.Status.VolumesInUse = []corev1.UniqueVolumeName{device}
		return n
	}
	for _, row := range []struct {
		attachment *storagev1.VolumeAttachment
		node       *corev1.Node
		want       string
	}{
		{attached("w"), using("kubernetes.io/csi/" + Driver + "^w"), ""},
		{attached("v"), using(""), "persistentvolume v is still attached to node n1"},
		{attached("w"), using("kubernetes.io/csi/" + Driver + "^h"), "persistentvolume v is still in use on node n2"},
	} {
		if got := InUseMessage(v, []*storagev1.VolumeAttachment{row.attachment}, []*corev1.Node{row.node}); got != row.want {
			t.Errorf("got %q, want %q", got, row.want)
		}
	}
}

// TestRemoveFiles takes a volume's directory and nothing else, wherever links in it lead.
func TestRemoveFiles(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	kept := filepath.Join(other, "kept")
	for _, path := range []string{filepath.Join(dir, Driver, "h", "deep", "file"), filepath.Join(dir, Driver, "i", "file"), kept} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(other, filepath.Join(dir, Driver, "h", "out")); err != nil {
		t.Fatal(err)
	}
	of := func(driver, handle string) *corev1.PersistentVolume {
		v := volume("v", "1Gi")
		v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: handle}
		return v
	}
	for _, row := range []struct {
		dir    string
		volume *corev1.PersistentVolume
		fails  bool
	}{
		{"", of(Driver, "h"), false},
		{filepath.Join(dir, "absent"), of(Driver, "h"), false},
		{dir, of("example.com", "h"), false},
		{dir, volume("v", "1Gi"), false},
		{dir, of(Driver, ""), true},
		{dir, of(Driver, ".."), true},
		{dir, of(Driver, "../../"+filepath.Base(other)), false},
	} {
		if err := removeFiles(row.dir, row.volume); (err != nil) != row.fails {
			t.Errorf("%+v: %v", row.volume.Spec.CSI, err)
		}
		if _, err := os.Stat(filepath.Join(dir, Driver, "h", "deep", "file")); err != nil {
			t.Fatalf("%+v: %v", row.volume.Spec.CSI, err)
		}
	}
	if err := removeFiles(dir, of(Driver, "h")); err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, Driver, "*")); err != nil || len(left) != 1 || filepath.Base(left[0]) != "i" {
		t.Errorf("left is %v, %v", left, err)
	}
	if _, err := os.Stat(kept); err != nil {
		t.Error(err)
	}
}

func TestDecideVolume(t *testing.T) {
	phase := func(p corev1.PersistentVolumePhase) func(*corev1.PersistentVolume) {
		return func(v *corev1.PersistentVolume) { v.Status.Phase = p }
	}
	policy := func(p corev1.PersistentVolumeReclaimPolicy) func(*corev1.PersistentVolume) {
		return func(v *corev1.PersistentVolume) { v.Spec.PersistentVolumeReclaimPolicy = p }
	}
	made := func(v *corev1.PersistentVolume) {
		annotate(&v.ObjectMeta, provisionedBy, Provisioner)
		if v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete {
			v.Finalizers = []string{Finalizer}
		}
	}
	bare := func(v *corev1.PersistentVolume) { v.Finalizers = nil }
	marked := func(v *corev1.PersistentVolume) { v.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }
	mine := of("c", "u")
	for _, row := range []struct {
		name   string
		volume *corev1.PersistentVolume
		claim  *corev1.PersistentVolumeClaim
		want   VolumeDecision
	}{
		{"new", volume("v", "1Gi", phase("")), nil, VolumeDecision{Phase: corev1.VolumeAvailable}},
		{"meant for one", volume("v", "1Gi", phase(""), of("c", "")), nil, VolumeDecision{Phase: corev1.VolumeAvailable}},
		{"its claim is gone", volume("v", "1Gi", mine, phase(corev1.VolumeBound)), nil, VolumeDecision{Phase: corev1.VolumeReleased}},
		{"retained", volume("v", "1Gi", mine, phase(corev1.VolumeReleased), policy(corev1.PersistentVolumeReclaimRetain), made), nil, VolumeDecision{}},
		{"deleted", volume("v", "1Gi", mine, phase(corev1.VolumeReleased), policy(corev1.PersistentVolumeReclaimDelete), made), nil, VolumeDecision{Delete: true}},
		{"deleted, marked", volume("v", "1Gi", mine, phase(corev1.VolumeReleased), policy(corev1.PersistentVolumeReclaimDelete), made, marked), nil, VolumeDecision{Delete: true}},
		{"marked, its claim is there", volume("v", "1Gi", mine, phase(corev1.VolumeBound), policy(corev1.PersistentVolumeReclaimDelete), made, marked), claim(func(c *corev1.PersistentVolumeClaim) {
			c.Spec.VolumeName = "v"
		}), VolumeDecision{}},
		{"unguarded", volume("v", "1Gi", mine, phase(corev1.VolumeBound), policy(corev1.PersistentVolumeReclaimDelete), made, bare), nil, VolumeDecision{AddFinalizer: true}},
		{"to be retained now", volume("v", "1Gi", mine, phase(corev1.VolumeReleased), policy(corev1.PersistentVolumeReclaimDelete), made, policy(corev1.PersistentVolumeReclaimRetain), marked), nil, VolumeDecision{RemoveFinalizer: true}},
		{"another's to delete", volume("v", "1Gi", mine, phase(corev1.VolumeReleased), policy(corev1.PersistentVolumeReclaimDelete)), nil, VolumeDecision{}},
		{"bound", volume("v", "1Gi", mine), claim(func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "v" }), VolumeDecision{Phase: corev1.VolumeBound}},
		{"about to be bound", volume("v", "1Gi", mine), claim(), VolumeDecision{}},
	} {
		if got := DecideVolume(row.volume, row.claim); got != row.want {
			t.Errorf("%s: got %+v, want %+v", row.name, got, row.want)
		}
	}
}
