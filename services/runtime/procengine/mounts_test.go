package procengine

import (
	"slices"
	"testing"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/runtime/procengine/launch"
)

// TestWhereMounts has a program that can have nothing mounted told where its volumes are,
// and nobody else tell it something else.
func TestWhereMounts(t *testing.T) {
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
