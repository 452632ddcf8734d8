package discovery

import (
	"net/http"
	"runtime"
	"strings"

	"k8s.io/apimachinery/pkg/version"

	"github.com/podfall/podfall/proto"
)

// patches is the patch release of each release that can be imitated, for clients that
// compare versions.
func patches(release string) string {
	if release == "v1.37" {
		return "2"
	}
	return "0"
}

// Release is the release that compat imitates as a version of semantic versioning, with
// podfall's name as its build: v1.37.2+podfall.
func Release(compat proto.Compat) string {
	return compat.Release + "." + patches(compat.Release) + "+podfall"
}

// version is GET /version.
func (h *handler) version(_ *served, w http.ResponseWriter, r *http.Request) {
	numbers := strings.SplitN(strings.TrimPrefix(h.release, "v"), ".", 3)
	answerJSON(w, r, version.Info{
		Major: numbers[0], Minor: numbers[1], GitVersion: h.release,
		GoVersion: runtime.Version(), Compiler: runtime.Compiler, Platform: runtime.GOOS + "/" + runtime.GOARCH,
	})
}
