package images_test

import (
	"strings"
	"testing"

	"github.com/podfall/podfall/services/runtime/images"
)

func TestFor(t *testing.T) {
	catalog, err := images.Parse([]byte(`
images:
- {match: example.com:5000/shop/server, command: [/opt/server]}
- {match: "*/nginx", script: exits 0}
- {match: "nginx", script: exits 1}
- {match: "web-?", script: exits 2, stopSignal: SIGQUIT}
`))
	if err != nil {
		t.Fatal(err)
	}
	for image, want := range map[string]string{
		"example.com:5000/shop/server":           "/opt/server",
		"example.com:5000/shop/server:v1":        "/opt/server",
		"example.com:5000/shop/server@sha256:ab": "/opt/server",
		"example.com/shop/server":                "",
		"a/b/c/nginx:1.25":                       "exits 0",
		"nginx":                                  "exits 1",
		"nginx:1.7.9":                            "exits 1",
		"nginxx":                                 "",
		"web-1":                                  "exits 2",
		"web-10":                                 "",
		"":                                       "",
	} {
		got := catalog.Lookup(image)
		if strings.Join(got.Command, " ")+got.Script != want {
			t.Errorf("For(%q) = %+v, want %q", image, got, want)
		}
	}
	if got := (*images.Catalog)(nil).Lookup("nginx"); got.Match != "" {
		t.Errorf("no catalog has %+v", got)
	}
}

func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"images: [{script: exits 0}]":                    "images[0].match: want the name of an image, such as nginx or */nginx",
		"images: [{match: a}, {match: '[', script: ''}]": `images[1].match: "[": syntax error in pattern`,
		"images: [{match: a, stopSignal: TERM}]":         `images[0].stopSignal: "TERM": want the name of a signal, such as SIGTERM`,
		"images: [{match: a, pull: {takes: -1s}}]":       `images[0].pull.takes: -1s: want a duration that is not negative, such as 20s`,
		"images: [{match: a, comand: [x]}]":              `error unmarshaling JSON: while decoding JSON: json: unknown field "comand"`,
		"image: []":                                      `error unmarshaling JSON: while decoding JSON: json: unknown field "image"`,
	} {
		if _, err := images.Parse([]byte(text)); err == nil || err.Error() != want {
			t.Errorf("Parse(%q): %v\nwant %s", text, err, want)
		}
	}
	if _, err := images.Parse(nil); err != nil {
		t.Errorf("an empty catalog: %v", err)
	}
}
