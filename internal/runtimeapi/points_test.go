package runtimeapi

import (
	"slices"
	"testing"

	"github.com/podfall/podfall/internal/fault"
)

// TestEveryMethodCanGoWrong: the catalogue of faults has a point for each method.
func TestEveryMethodCanGoWrong(t *testing.T) {
	points := fault.Points()
	for name := range methods() {
		if !slices.ContainsFunc(points, func(info fault.PointInfo) bool { return info.Point == fault.CRI(name) }) {
			t.Errorf("there is no point %s", fault.CRI(name))
		}
	}
}
