package custom

import (
	"fmt"
	"math"
	"slices"

	"github.com/google/cel-go/checker"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	kubecel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/library"

	"github.com/podfall/podfall/services/apiserver/expression"
)

// What upstream lets rules cost at the worst: one of them, and all of a schema.
const (
	maxRuleCost   = 10_000_000
	maxSchemaCost = 100_000_000
)

// costLedger adds up the estimated costs of the rules of a schema, and reports those that are too
// high.
type costLedger struct {
	errs      field.ErrorList
	total     uint64
	expensive []ruleCost
}

type ruleCost struct {
	at   *field.Path
	cost uint64
}

// add counts the cost of one expression. A nil ledger counts nothing.
func (l *costLedger) add(at *field.Path, what string, cost uint64) {
	if l == nil {
		return
	}
	if cost > maxRuleCost {
		l.errs = append(l.errs, field.Forbidden(at, tooCostly(what, cost, maxRuleCost)))
	}
	l.total += min(cost, math.MaxUint64-l.total)
	if cost >= maxSchemaCost/100 {
		l.expensive = append(l.expensive, ruleCost{at, cost})
	}
}

// findings returns everything that costs too much, alone or together; at is the schema.
func (l *costLedger) findings(at *field.Path) field.ErrorList {
	errs := l.errs
	if l.total <= maxSchemaCost {
		return errs
	}
	slices.SortStableFunc(l.expensive, func(a, b ruleCost) int {
		switch {
		case a.cost > b.cost:
			return -1
		case a.cost < b.cost:
			return 1
		}
		return 0
	})
	const shown = 4
	for _, e := range l.expensive[:min(shown, len(l.expensive))] {
		errs = append(errs, field.Forbidden(e.at, "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"))
	}
	return append(errs, field.Forbidden(at,
		tooCostly("x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema", l.total, maxSchemaCost)))
}

// tooCostly returns upstream's message.
func tooCostly(what string, cost, limit uint64) string {
	by := float64(cost) / float64(limit)
	factor := fmt.Sprintf("%.1fx", by)
	switch {
	case by > 100:
		factor = "more than 100x"
	case by < 1.5:
		factor = fmt.Sprintf("%fx", by)
	}
	return fmt.Sprintf("%s exceeds budget by factor of %s (try simplifying the rule, or adding maxItems, maxProperties, "+
		"and maxLength where arrays, maps, and strings are declared)", what, factor)
}

// maxChildren returns how many values a schema allows in each value of its own. bounded is false if
// only the size of a request limits them.
func maxChildren(s *structuralschema.Structural) (copies uint64, bounded bool) {
	var limit *int64
	switch {
	case s.Type == "object" && s.AdditionalProperties == nil, s.Type != "object" && s.Type != "array":
		return 1, true
	case s.ValueValidation == nil:
		return 0, false
	case s.Type == "object":
		limit = s.ValueValidation.MaxProperties
	default:
		limit = s.ValueValidation.MaxItems
	}
	if limit == nil {
		return 0, false
	}
	return uint64(max(*limit, 0)), true
}

// multiply saturates at the largest uint64.
func multiply(a, b uint64) uint64 {
	if a != 0 && b > math.MaxUint64/a {
		return math.MaxUint64
	}
	return a * b
}

// maxCopies returns how often a value of a type can occur in one request.
func maxCopies(declared *kubecel.DeclType) uint64 {
	return uint64(celconfig.MaxRequestSizeBytes / (declared.MinSerializedSize + 1)) // and a comma
}

// maxCost returns the highest cost of evaluating p for one value of a type.
func maxCost(p *expression.Program, declared *kubecel.DeclType) (uint64, error) {
	return p.MaxCost(&library.CostEstimator{SizeEstimator: sizeEstimator{declared}})
}

// sizeEstimator knows the largest sizes of the parts of a value (upstream's sizeEstimator).
type sizeEstimator struct{ root *kubecel.DeclType }

// EstimateSize implements [checker.CostEstimator].
func (s sizeEstimator) EstimateSize(element checker.AstNode) *checker.SizeEstimate {
	if len(element.Path()) == 0 {
		return nil
	}
	at := s.root
	for _, step := range element.Path()[1:] { // behind self
		switch step {
		case "@items", "@values":
			at = at.ElemType
		case "@keys":
			at = at.KeyType
		default:
			f, ok := at.Fields[step]
			if !ok {
				return nil
			}
			at = f.Type
		}
		if at == nil {
			return nil
		}
	}
	return &checker.SizeEstimate{Min: 0, Max: uint64(at.MaxElements)}
}

// EstimateCallCost implements [checker.CostEstimator].
func (sizeEstimator) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}
