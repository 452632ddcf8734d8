package procengine

import (
	"slices"
	"testing"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/runtime/procengine/launch"
)

// TestMountsEnv: a program without its own mounts gets the paths of its volumes, and a manifest
// cannot override them.
func TestMountsEnv(t *testing.T) {
	mounts := []*proto.Mount{{HostPath: "/host/a", ContainerPath: "/data"}, {HostPath: "/host/b", ContainerPath: "/etc/conf", ReadOnly: true}}
	if got, want := mountsEnv(mounts), []string{"PODFALL_MOUNTS=/data=/host/a\n/etc/conf=/host/b"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := mountsEnv(nil); got != nil {
		t.Errorf("without volumes: %q", got)
	}
	if env := buildEnv("id", map[string]string{launch.MountsVariable: "/data=/etc"}); slices.Contains(env, "PODFALL_MOUNTS=/data=/etc") {
		t.Errorf("a manifest says where volumes are: %q", env)
	}
}
