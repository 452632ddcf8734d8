// Package accept parses Accept headers.
package accept

import (
	"math"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Clause is one media range of an Accept header.
type Clause struct {
	// Media is a media type, or a range, for example application/*.
	Media string
	// Params are its parameters, for example as=Table.
	Params map[string]string
	weight float64
}

// Clauses returns the ranges that a request accepts, the preferred first; everything without an
// Accept header. An invalid media type is kept as it is, because client-go's old name of OpenAPI 2
// is invalid.
func Clauses(r *http.Request) []Clause {
	header := r.Header.Get("Accept")
	if header == "" {
		return []Clause{{Media: "*/*"}}
	}
	var all []Clause
	for part := range strings.SplitSeq(header, ",") {
		media, params, err := mime.ParseMediaType(part)
		if err != nil {
			media = strings.TrimSpace(part)
		}
		weight := 1.0
		if q, err := strconv.ParseFloat(params["q"], 64); err == nil && !math.IsNaN(q) { // which has no order
			weight = q
		}
		all = append(all, Clause{media, params, weight})
	}
	slices.SortStableFunc(all, func(a, b Clause) int {
		switch {
		case a.weight > b.weight:
			return -1
		case a.weight < b.weight:
			return 1
		}
		return 0
	})
	return all
}

// Covers reports whether a media type is in the range.
func (c Clause) Covers(media string) bool {
	if c.Media == "*/*" || c.Media == media {
		return true
	}
	kind, ok := strings.CutSuffix(c.Media, "/*")
	return ok && strings.HasPrefix(media, kind+"/")
}

// Refusal is the message of a 406.
func Refusal(offered ...string) string {
	return "only the following media types are accepted: " + strings.Join(offered, ", ")
}
