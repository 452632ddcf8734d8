package storage

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestNames(t *testing.T) {
	source := &corev1.CSIPersistentVolumeSource{Driver: "disk.example.com", VolumeHandle: "vol/1"}
	if got, want := DeviceName(source), corev1.UniqueVolumeName("kubernetes.io/csi/disk.example.com^vol/1"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	// csi-sha256(handle + driver + node), as upstream's attacher calls it.
	if got, want := AttachmentName(source, "node-1"), "csi-dd44f5cf6f020432e5f587460fab29ee47e183a30ca9b4f52c7f93bd09c4cf86"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, row := range []struct{ driver, handle, want string }{
		{"disk.example.com", "h", "disk.example.com/h"},
		{"disk.example.com", "vol/1", "disk.example.com/vol%2F1"},
		{"disk.example.com", "..", ""},
		{"disk.example.com", "", ""},
		{"..", "h", ""},
		{"a/b", "h", ""},
	} {
		got, err := VolumeDir(&corev1.CSIPersistentVolumeSource{Driver: row.driver, VolumeHandle: row.handle})
		if got != row.want || (err != nil) != (row.want == "") {
			t.Errorf("Dir(%q, %q): %q, %v", row.driver, row.handle, got, err)
		}
	}
}

func TestDefaultClass(t *testing.T) {
	class := func(name, isDefault string, created int64) *storagev1.StorageClass {
		return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{
			Name: name, Annotations: map[string]string{DefaultAnnotation: isDefault}, CreationTimestamp: metav1.Unix(created, 0),
		}}
	}
	for _, row := range []struct {
		classes []*storagev1.StorageClass
		want    string
	}{
		{nil, ""},
		{[]*storagev1.StorageClass{class("a", "false", 1)}, ""},
		{[]*storagev1.StorageClass{class("a", "true", 1), class("b", "true", 2), class("c", "false", 3)}, "b"},
		{[]*storagev1.StorageClass{class("b", "true", 2), class("a", "true", 1)}, "b"},
		{[]*storagev1.StorageClass{class("b", "true", 1), class("a", "true", 1)}, "a"},
	} {
		got := ""
		if found := DefaultClass(row.classes); found != nil {
			got = found.Name
		}
		if got != row.want {
			t.Errorf("of %d: got %q, want %q", len(row.classes), got, row.want)
		}
	}
}

func TestHasNoClass(t *testing.T) {
	for name, claim := range map[string]*corev1.PersistentVolumeClaim{
		"empty": {Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: new("")}},
		"old":   {ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{corev1.BetaStorageClassAnnotation: ""}}},
	} {
		if HasNoClass(claim) {
			t.Errorf("%s: it names no class", name)
		}
	}
	if claim := (&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.Time{Time: time.Unix(1, 0)}}}); !HasNoClass(claim) {
		t.Error("it names a class")
	}
}
