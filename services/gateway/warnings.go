package gateway

import (
	"slices"
	"unicode/utf8"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// The limits of an answer's Warning headers, in runes of their texts.
const (
	maxWarnings = 4 << 10
	// maxWarning is the limit of each text once all together exceed maxWarnings.
	maxWarning = 256
)

// warnings are the texts of an answer's Warning headers, in their order.
type warnings []string

// add returns the warnings with one more. Empty text and repeated text add nothing.
func (w warnings) add(text string) warnings {
	if text == "" || slices.Contains(w, text) {
		return w
	}
	return append(w, text)
}

// fit returns the texts that the headers hold. Texts that exceed maxWarnings together are cut to
// maxWarning each, and what then comes beyond maxWarnings is left out (upstream's WithWarningRecorder).
func (w warnings) fit() []string {
	total := 0
	for _, text := range w {
		total += utf8.RuneCountInString(text)
	}
	if total <= maxWarnings {
		return w
	}
	var kept []string
	written := 0
	for _, text := range w {
		if written >= maxWarnings {
			break
		}
		runes := []rune(text)
		runes = runes[:min(len(runes), maxWarning)]
		kept, written = append(kept, string(runes)), written+len(runes)
	}
	return kept
}

// warn adds a Warning header to an answer that has not begun. A text that cannot be in a header is left out.
func (w *response) warn(text string) {
	const miscellaneous = 299
	w.warnings = w.warnings.add(text)
	w.Header().Del("Warning")
	for _, text := range w.warnings.fit() {
		if header, err := utilnet.NewWarningHeader(miscellaneous, "-", text); err == nil {
			w.Header().Add("Warning", header)
		}
	}
}
