// Package messages has kubectl's code load its catalogue of messages only for a language other than
// English. The English catalogue says what the code says, and kubectl would load it while every
// process of podfall starts: 10 ms and 4 MB.
//
// Go initializes packages in the order of their import paths, once what they import is initialized.
// This package imports nothing of kubectl but i18n, and so comes before the packages that need the
// catalogue.
package messages

import (
	"os"
	"strings"

	"k8s.io/kubectl/pkg/util/i18n"
)

var _ = i18n.SetLoadTranslationsFunc(load) // an error would mean that the catalogue is loaded already

// load loads the catalogue of the user's language.
func load() error {
	if isEnglish(os.LookupEnv) {
		return nil
	}
	return i18n.LoadTranslations("kubectl", nil)
}

// isEnglish reports whether the first of the environment's variables that is set names no language,
// or English (upstream's loadSystemLanguage).
func isEnglish(lookUp func(name string) (string, bool)) bool {
	for _, name := range []string{"LC_ALL", "LC_MESSAGES", "LANG"} {
		if language, _ := lookUp(name); language != "" {
			return !strings.Contains(language, ".") || strings.HasPrefix(language, "en") || strings.HasPrefix(language, "C.")
		}
	}
	return true
}
