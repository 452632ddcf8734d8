package discovery

import (
	"net/http"
	"runtime"
	"strings"

	"k8s.io/apimachinery/pkg/version"

	"github.com/podfall/podfall/proto"
)

// patchRelease is the patch release of each release that can be imitated, for clients that compare
// versions.
func patchRelease(release string) string {
	if release == "v1.37" {
		return "2"
	}
	return "0"
}

// Release is the semantic version of the imitated release, with podfall as its build:
// v1.37.2+podfall.
func Release(compat proto.Compat) string {
	return compat.Release + "." + patchRelease(compat.Release) + "+podfall"
}

// serveVersion serves GET /version.
func (h *handler) serveVersion(_ *snapshot, w http.ResponseWriter, r *http.Request) {
	numbers := strings.SplitN(strings.TrimPrefix(h.release, "v"), ".", 3)
	respondJSON(w, r, version.Info{
		Major: numbers[0], Minor: numbers[1], GitVersion: h.release,
		GoVersion: runtime.Version(), Compiler: runtime.Compiler, Platform: runtime.GOOS + "/" + runtime.GOARCH,
	})
}
