package proto

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// StreamRequest is a client's request to a kubelet on node.<name>.exec and node.<name>.attach, in
// JSON: a stream of frames to and from a process in a container.
type StreamRequest struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	// UID selects an incarnation of the pod; empty for the newest of the name.
	UID types.UID `json:"uid,omitempty"`
	// Container may be empty if the pod has only one.
	Container string `json:"container"`
	// Command is run by exec; empty for attach.
	Command []string `json:"command,omitempty"`
	Stdin   bool     `json:"stdin,omitempty"`
	Stdout  bool     `json:"stdout,omitempty"`
	Stderr  bool     `json:"stderr,omitempty"`
	// TTY gives the command a terminal. A terminal has no separate stderr.
	TTY bool `json:"tty,omitempty"`
}

// Channel is the first byte of a frame. The channels are those of Kubernetes' remotecommand
// protocol, version 5, used between the client and the program's parent.
type Channel byte

// The channels. An empty frame on ChannelStdout offers to begin, an empty frame on ChannelStdin
// accepts the offer. The last frame is a Status on ChannelError.
const (
	ChannelStdin  Channel = 0
	ChannelStdout Channel = 1
	ChannelStderr Channel = 2
	ChannelError  Channel = 3
	// ChannelResize is a TerminalSize in JSON.
	ChannelResize Channel = 4
	// ChannelClose names, in its one byte of data, a channel that the sender closes.
	ChannelClose Channel = 255
)

// MaxStreamFrame is the maximum number of data bytes in a frame, so that other messages get through
// between frames.
const MaxStreamFrame = 32 << 10

// TerminalSize is in characters.
type TerminalSize struct {
	Width  uint16
	Height uint16
}

// StreamFrame encodes one frame of a stream.
func StreamFrame(channel Channel, data []byte) []byte {
	return append([]byte{byte(channel)}, data...)
}

var errFrame = errors.New("a frame begins with its channel, and is not empty")

// ParseStreamFrame decodes a frame.
func ParseStreamFrame(frame []byte) (Channel, []byte, error) {
	if len(frame) == 0 {
		return 0, nil, errFrame
	}
	return Channel(frame[0]), frame[1:], nil
}

// StatusFrame encodes the last frame of a stream.
func StatusFrame(status *metav1.Status) []byte {
	data, err := json.Marshal(status)
	if err != nil {
		return StreamFrame(ChannelError, []byte(`{"status":"Failure"}`)) // a Status always encodes
	}
	return StreamFrame(ChannelError, data)
}

// ExitStatus returns the Status of a command's exit code, with upstream's text.
func ExitStatus(code int32) *metav1.Status {
	if code == 0 {
		return &metav1.Status{Status: metav1.StatusSuccess}
	}
	return &metav1.Status{
		Status:  metav1.StatusFailure,
		Reason:  ReasonNonZeroExitCode,
		Message: fmt.Sprintf("command terminated with non-zero exit code: command terminated with exit code %d", code),
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: CauseExitCode, Message: strconv.Itoa(int(code))}}},
	}
}

// How a Status carries an exit code (upstream's remotecommand constants).
const (
	ReasonNonZeroExitCode metav1.StatusReason = "NonZeroExitCode"
	CauseExitCode         metav1.CauseType    = "ExitCode"
)

// ExitCode returns the exit code in a Status; false if there is none.
func ExitCode(status *metav1.Status) (int32, bool) {
	switch {
	case status.Status == metav1.StatusSuccess:
		return 0, true
	case status.Reason != ReasonNonZeroExitCode || status.Details == nil:
		return 0, false
	}
	for _, cause := range status.Details.Causes {
		if code, err := strconv.ParseUint(cause.Message, 10, 8); cause.Type == CauseExitCode && err == nil {
			return int32(code), true
		}
	}
	return 0, false
}

// NotImplemented returns the Status for containers without a process, for example scripted ones.
func NotImplemented(message string) *metav1.Status {
	return &metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotImplemented, Reason: "NotImplemented",
		Message: message, Details: &metav1.StatusDetails{},
	}
}
