package gateway

import (
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// TestWarningHeaders warns with more and with less text than the headers hold.
func TestWarningHeaders(t *testing.T) {
	many := make([]string, 100)
	for i := range many {
		many[i] = fmt.Sprintf("%03d%s", i, strings.Repeat("ä", 997))
	}
	var cut []string
	for _, text := range many[:16] {
		cut = append(cut, text[:3]+strings.Repeat("ä", 253))
	}
	whole := strings.Repeat("x", 4096)
	for name, c := range map[string]struct{ texts, want []string }{
		"few":               {[]string{"a", "b"}, []string{"a", "b"}},
		"the same":          {[]string{"a", "b", "a", ""}, []string{"a", "b"}},
		"as long as may be": {[]string{whole}, []string{whole}},
		"too long":          {[]string{whole + "x"}, []string{whole[:256]}},
		"one more":          {[]string{whole, "b"}, []string{whole[:256], "b"}},
		"100 kB":            {many, cut},
	} {
		recorded := httptest.NewRecorder()
		w := &response{ResponseWriter: recorded}
		for _, text := range c.texts {
			w.warn(text)
		}
		var got []string
		total := 0
		headers, _ := utilnet.ParseWarningHeaders(recorded.Header().Values("Warning"))
		for _, header := range headers {
			got, total = append(got, header.Text), total+utf8.RuneCountInString(header.Text)
		}
		if !slices.Equal(got, c.want) || total > maxWarnings {
			t.Errorf("%s: %d headers of %d runes: %.300q", name, len(got), total, got)
		}
	}
}
