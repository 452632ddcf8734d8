package proto

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// LogsRequest is what a client asks a kubelet on node.<name>.logs, in JSON. The answer
// is the text, or a metav1.Status in JSON.
type LogsRequest struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	// UID is the incarnation of the pod that is meant; empty for the newest of the name.
	UID types.UID `json:"uid,omitempty"`
	// Container may be empty if the pod has only one.
	Container string `json:"container"`
	// SinceTime leaves out what was written before; zero for nothing. No two lines of a log
	// have the same time, so that who follows it asks from its last line on. An answer that
	// would be too long leaves out the newest lines then, and otherwise the oldest.
	SinceTime time.Time `json:"sinceTime,omitzero"`
	// TailLines is how many lines from the end are wanted; nil for all.
	TailLines *int64 `json:"tailLines,omitempty"`
	// Previous asks for the run before the present one.
	Previous   bool `json:"previous,omitempty"`
	Timestamps bool `json:"timestamps,omitempty"`
}
