package controllers

import (
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/podfalltest"
)

// TestFirstClass has the API refuse the class that controllers make for a cluster without any
// when they begin: they ask again until it is taken.
func TestFirstClass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := podfalltest.Start(t, podfalltest.InBubble())
		classes := c.Client().StorageV1().StorageClasses()
		time.Sleep(time.Minute)
		c.Crash("controllers")
		if err := classes.Delete(t.Context(), "standard", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		c.AddFault("refused", podfalltest.FaultSpec{
			Point: "api.request", Where: podfalltest.FaultAbout{Verb: "create", Resource: "storageclasses.storage.k8s.io"},
			Effect: podfalltest.FaultEffect{Kind: "error", Code: "503"},
		})
		c.Restart("controllers")
		time.Sleep(time.Minute)
		if _, err := classes.Get(t.Context(), "standard", metav1.GetOptions{}); err == nil {
			t.Fatal("the class is there although it is refused")
		}
		c.ClearFault("refused")
		time.Sleep(5 * time.Minute)
		if _, err := classes.Get(t.Context(), "standard", metav1.GetOptions{}); err != nil {
			t.Errorf("the class was asked for once: %v", err)
		}
	})
}
