package proto

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// LogsRequest is a client's request to a kubelet on node.<name>.logs, in JSON. The answer is the
// text, or a metav1.Status in JSON.
type LogsRequest struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	// UID selects an incarnation of the pod; empty for the newest of the name.
	UID types.UID `json:"uid,omitempty"`
	// Container may be empty if the pod has only one.
	Container string `json:"container"`
	// SinceTime leaves out earlier lines; zero for none. No two lines of a log have the same time,
	// so that followers can continue from their last line. If the answer would be too long, it
	// leaves out the newest lines with SinceTime, and the oldest without.
	SinceTime time.Time `json:"sinceTime,omitzero"`
	// TailLines is the number of lines from the end; nil for all.
	TailLines *int64 `json:"tailLines,omitempty"`
	// Previous selects the container's previous run.
	Previous   bool `json:"previous,omitempty"`
	Timestamps bool `json:"timestamps,omitempty"`
}
