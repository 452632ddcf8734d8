package controllers

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/podapi"
)

// undefined is an apiserver without definitions.
type undefined struct{}

func (undefined) List(context.Context, podapi.Target, metav1.ListOptions) (*podapi.List, error) {
	return &podapi.List{ResourceVersion: "1"}, nil
}

// TestControllersWaitForTheKinds that they ask about, and for none if they ask about none.
func TestControllersWaitForTheKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &kindDirectory{}
		if err := k.waitFilled(t.Context()); err != nil {
			t.Errorf("nobody asks: %v", err)
		}
		directory := k.directory()
		ctx, cancel := context.WithCancel(t.Context())
		waited := make(chan error, 2)
		go func() { waited <- k.waitFilled(ctx) }()
		synctest.Wait()
		if len(waited) > 0 {
			t.Fatalf("the kinds are not known, and they begin: %v", <-waited)
		}
		cancel()
		if err := <-waited; !errors.Is(err, context.Canceled) {
			t.Errorf("at the end: %v", err)
		}
		if err := directory.Load(t.Context(), undefined{}); err != nil {
			t.Fatal(err)
		}
		if err := k.waitFilled(t.Context()); err != nil {
			t.Errorf("the kinds are known: %v", err)
		}
	})
}
