// Package expression compiles and evaluates CEL expressions with the functions that a Kubernetes
// API server offers. It knows neither schemas nor requests.
//
// It depends on cel-go and on Kubernetes' CEL library alone: upstream's environment would bring
// metrics into every process.
package expression

import (
	"fmt"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/ext"
	"github.com/google/cel-go/interpreter"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/library"
)

// Base returns the environment that all expressions share: upstream's, of release 1.37, without the
// authorizer. It is built at first use, in a few milliseconds.
func Base() (*cel.Env, error) { return loadBase() }

//nolint:gochecknoglobals // built once, on first use; nothing changes it
var loadBase = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(
		cel.HomogeneousAggregateLiterals(),
		cel.EagerlyValidateDeclarations(true),
		cel.DefaultUTCTimeZone(true),
		cel.CrossTypeNumericComparisons(true),
		cel.OptionalTypes(),
		cel.CostEstimatorOptions(checker.PresenceTestHasCost(false)),
		cel.ASTValidators(
			cel.ValidateDurationLiterals(), cel.ValidateTimestampLiterals(), cel.ValidateRegexLiterals(),
			cel.ValidateHomogeneousAggregateLiterals(),
		),
		library.URLs(), library.Regex(), library.Lists(library.ListsVersion(1)), library.Quantity(),
		library.IP(), library.CIDR(), library.Format(), library.SemverLib(library.SemverVersion(1)),
		ext.Strings(ext.StringsVersion(2)), ext.Sets(), ext.TwoVarComprehensions(), ext.Lists(ext.ListsVersion(3)),
	)
})

// Program is a compiled expression of one type. It is safe for concurrent use.
type Program struct {
	program cel.Program
	env     *cel.Env
	ast     *cel.Ast
	// Uses names the variables that the expression refers to.
	Uses map[string]bool
}

// Compile compiles text to a program whose result has the type want. The error says "compilation
// failed" and where, or names the wanted type.
func Compile(env *cel.Env, text string, want *cel.Type) (*Program, error) {
	ast, issues := env.Compile(text)
	if issues.Err() != nil {
		return nil, fmt.Errorf("compilation failed: %s", issues.String())
	}
	if !ast.OutputType().IsExactType(want) {
		return nil, &TypeError{want: want.String()}
	}
	program, err := env.Program(ast,
		cel.EvalOptions(cel.OptOptimize, cel.OptTrackCost),
		cel.CostLimit(celconfig.PerCallLimit),
		cel.CostTracking(&library.CostEstimator{}),
		cel.CostTrackerOptions(interpreter.PresenceTestHasCost(false)),
	)
	if err != nil {
		return nil, fmt.Errorf("program instantiation failed: %w", err)
	}
	uses := map[string]bool{}
	for _, reference := range ast.NativeRep().ReferenceMap() {
		uses[reference.Name] = true
	}
	return &Program{program: program, env: env, ast: ast, Uses: uses}, nil
}

// MaxCost returns the highest cost of evaluating the program, in cel-go's units, given the sizes of
// its variables.
func (p *Program) MaxCost(sizes checker.CostEstimator) (uint64, error) {
	estimate, err := p.env.EstimateCost(p.ast, sizes)
	return estimate.Max, err
}

// TypeError says that an expression has a result of another type than wanted.
type TypeError struct{ want string }

func (e *TypeError) Error() string { return "must evaluate to a " + e.want }

// Budget limits the cost of evaluations, in cel-go's units.
type Budget struct{ left int64 }

// NewBudget returns a budget of that many units; upstream allows 10,000,000 for an object.
func NewBudget(units int64) *Budget { return &Budget{left: units} }

// Spent reports whether the budget is used up.
func (b *Budget) Spent() bool { return b.left < 0 }

// OverBudgetError says that an evaluation was stopped because of its cost.
type OverBudgetError struct{ detail string }

func (e *OverBudgetError) Error() string { return e.detail }

// EvalBool evaluates a condition.
func (p *Program) EvalBool(variables map[string]any, budget *Budget) (bool, error) {
	value, err := p.eval(variables, budget)
	if err != nil {
		return false, err
	}
	result, ok := value.(types.Bool)
	if !ok {
		return false, fmt.Errorf("want a bool, not a %s", value.Type().TypeName())
	}
	return bool(result), nil
}

// EvalString evaluates an expression whose result is a string.
func (p *Program) EvalString(variables map[string]any, budget *Budget) (string, error) {
	value, err := p.eval(variables, budget)
	if err != nil {
		return "", err
	}
	result, ok := value.(types.String)
	if !ok {
		return "", fmt.Errorf("want a string, not a %s", value.Type().TypeName())
	}
	return string(result), nil
}

func (p *Program) eval(variables map[string]any, budget *Budget) (ref.Val, error) {
	value, details, err := p.program.Eval(variables)
	if details == nil || details.ActualCost() == nil {
		budget.left = -1
		return nil, &OverBudgetError{"runtime cost could not be calculated"}
	}
	cost := *details.ActualCost()
	if cost > uint64(max(budget.left, 0)) {
		budget.left = -1
		return nil, &OverBudgetError{"validation failed due to running out of cost budget, no further validation rules will be run"}
	}
	budget.left -= int64(cost)
	if err != nil && strings.HasPrefix(err.Error(), "operation cancelled: actual cost limit exceeded") {
		budget.left = -1
		return nil, &OverBudgetError{fmt.Sprintf("'%v': no further validation rules will be run due to call cost exceeds limit", err)}
	}
	return value, err
}
