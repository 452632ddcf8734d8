package images_test

import (
	"testing"

	"github.com/podfall/podfall/services/runtime/images"
)

// FuzzParse: a book of images that is taken can be asked for any image.
func FuzzParse(f *testing.F) {
	f.Add([]byte("images:\n- {match: example.com:5000/shop/server, command: [/opt/server]}\n"), "example.com:5000/shop/server:1@sha256:00")
	f.Add([]byte("images:\n- {match: '*/nginx', script: exits 0, stopSignal: SIGQUIT, pull: {takes: 20s, error: no}}\n"), "docker.io/nginx")
	f.Add([]byte("images: [{match: '[a-'}]"), "a")
	f.Add([]byte(""), "")
	f.Fuzz(func(t *testing.T, text []byte, image string) {
		book, err := images.Parse(text)
		if err != nil {
			return
		}
		if found := book.For(image); found.Match == "" && (found.Script != "" || found.StopSignal != "") {
			t.Errorf("%q stands for nothing, and is %+v", image, found)
		}
	})
}
