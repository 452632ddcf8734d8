package messages

import (
	"testing"

	"k8s.io/kubectl/pkg/util/i18n"
)

func TestIsEnglish(t *testing.T) {
	for _, c := range []struct {
		environment map[string]string
		want        bool
	}{
		{nil, true},
		{map[string]string{"LANG": "en_US.UTF-8"}, true},
		{map[string]string{"LANG": "C.UTF-8"}, true},
		{map[string]string{"LANG": "C"}, true},
		{map[string]string{"LANG": "de_DE.UTF-8"}, false},
		{map[string]string{"LANG": "de_DE.UTF-8", "LC_ALL": "C"}, true},
	} {
		look := func(name string) (string, bool) { value, is := c.environment[name]; return value, is }
		if got := isEnglish(look); got != c.want {
			t.Errorf("%v: %v, want %v", c.environment, got, c.want)
		}
	}
}

// TestTheCatalogueIsNotLoadedYet fails if a package of kubectl was initialized before this one.
func TestTheCatalogueIsNotLoadedYet(t *testing.T) {
	if err := i18n.SetLoadTranslationsFunc(load); err != nil {
		t.Error(err)
	}
	if got := i18n.T("Print the logs for a container in a pod"); got != "Print the logs for a container in a pod" {
		t.Errorf("%q", got)
	}
}
