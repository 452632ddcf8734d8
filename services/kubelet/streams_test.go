package kubelet

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/podfall/podfall/proto"
)

// TestCheckStream: what asks for nothing is a bad request, in upstream's words.
func TestCheckStream(t *testing.T) {
	for _, row := range []struct {
		verb    string
		request proto.StreamRequest
		want    string
	}{
		{"exec", proto.StreamRequest{Command: []string{"ls"}, Stdout: true}, ""},
		{"attach", proto.StreamRequest{Stdin: true}, ""},
		{"exec", proto.StreamRequest{Command: []string{"ls"}}, "you must specify at least 1 of stdin, stdout, stderr"},
		{"exec", proto.StreamRequest{Command: []string{"ls"}, Stderr: true, TTY: true}, "you must specify at least 1 of stdin, stdout, stderr"},
		{"exec", proto.StreamRequest{Stdout: true}, "you must specify at least one command for the container"},
		{"attach", proto.StreamRequest{Command: []string{"ls"}, Stdout: true}, "attach takes no command"},
	} {
		err := checkStream(row.verb, row.request)
		if row.want == "" && err != nil || row.want != "" && (!apierrors.IsBadRequest(err) || err.Error() != row.want) {
			t.Errorf("%s %+v: %v, want %q", row.verb, row.request, err, row.want)
		}
	}
}
