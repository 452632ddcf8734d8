package inprocess_test

import (
	"errors"
	"net"
	"testing"

	"github.com/podfall/podfall/podfalltest/inprocess"
	"github.com/podfall/podfall/proto"
)

// TestRetryFailedStart: a part that ended before it was ready counts as stopped.
func TestRetryFailedStart(t *testing.T) {
	errNoPort := errors.New("no port is free")
	c, err := inprocess.New(t.Context(), inprocess.Config{
		Dir:     t.TempDir(),
		Boot:    func(string) proto.Boot { return "b" },
		Gateway: &inprocess.Gateway{Listen: func() (net.Listener, error) { return nil, errNoPort }},
		Ended:   func(name string, err error) { t.Errorf("%s was never ready, and has ended: %v", name, err) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	for range 2 {
		if err := c.Start(t.Context(), "gateway"); !errors.Is(err, errNoPort) {
			t.Errorf("want %v, have %v", errNoPort, err)
		}
	}
}
