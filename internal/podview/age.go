package podview

import (
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/podfall/podfall/proto/kinds"
)

// unknown is the age of what has no time.
const unknown = "<unknown>"

// Since is how long ago t was, as people read it: "42h", "2m52s", "<unknown>" for no
// time, "<invalid>" for one that is still to come (PRN-13).
func (v View) Since(t time.Time) string {
	if t.IsZero() {
		return unknown
	}
	return duration.HumanDuration(v.Now.Sub(t))
}

func (v View) age(obj kinds.Object) string {
	return v.Since(obj.GetCreationTimestamp().Time)
}
