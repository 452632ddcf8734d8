package podview

import (
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/podfall/podfall/proto/kinds"
)

// unknown is printed for a missing time or value.
const unknown = "<unknown>"

// Since returns how long ago t was, in short form: "42h", "2m52s", "<unknown>" for no time,
// "<invalid>" for the future (PRN-13).
func (v View) Since(t time.Time) string {
	if t.IsZero() {
		return unknown
	}
	return duration.HumanDuration(v.Now.Sub(t))
}

func (v View) objectAge(obj kinds.Object) string {
	return v.Since(obj.GetCreationTimestamp().Time)
}
