package images_test

import (
	"testing"

	"github.com/podfall/podfall/services/runtime/images"
)

// FuzzParse: an accepted catalog can be asked for any image.
func FuzzParse(f *testing.F) {
	f.Fuzz(func(t *testing.T, text []byte, image string) {
		catalog, err := images.Parse(text)
		if err != nil {
			return
		}
		if found := catalog.Lookup(image); found.Match == "" && (found.Script != "" || found.StopSignal != "") {
			t.Errorf("%q stands for nothing, and is %+v", image, found)
		}
	})
}
