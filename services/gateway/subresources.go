package gateway

import "net/http"

// streams are the subresources that are not objects; false for all others.
func (c *call) streaming() (func() error, bool) {
	return nil, false
}

var _ = http.StatusOK
