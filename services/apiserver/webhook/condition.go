package webhook

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/cel-go/cel"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/podfall/podfall/services/apiserver/expression"
)

// condition is one of a hook's matchConditions.
type condition struct {
	name    string
	program *expression.Program
}

// compileConditions compiles a hook's matchConditions. They see object, oldObject and request.
// There is no authorizer, so a condition that uses one does not compile.
func compileConditions(conditions []admissionregistrationv1.MatchCondition) ([]condition, error) {
	if len(conditions) == 0 {
		return nil, nil
	}
	base, err := expression.Base()
	if err != nil {
		return nil, err
	}
	env, err := base.Extend(
		cel.Variable("object", cel.DynType), cel.Variable("oldObject", cel.DynType), cel.Variable("request", cel.DynType))
	if err != nil {
		return nil, err
	}
	var compiled []condition
	for _, c := range conditions {
		program, err := expression.Compile(env, c.Expression, cel.BoolType)
		if err != nil {
			return nil, &conditionError{name: c.Name, err: err}
		}
		compiled = append(compiled, condition{name: c.Name, program: program})
	}
	return compiled, nil
}

// conditionError says which condition cannot be compiled or evaluated.
type conditionError struct {
	name string
	err  error
}

func (e *conditionError) Error() string { return fmt.Sprintf("[%s]: %v", e.name, e.err) }

func (e *conditionError) Unwrap() error { return e.err }

// conditionsHold reports whether all conditions of a hook hold for a request. One that is false
// decides, even if others fail (upstream's matchconditions.Matcher).
func (h *Hook) conditionsHold(request *admissionv1.AdmissionRequest) (bool, error) {
	conditions, err := h.conditions()
	if err != nil || len(conditions) == 0 {
		return err == nil, err
	}
	variables, err := variablesOf(request)
	if err != nil {
		return false, err
	}
	budget := expression.NewBudget(celconfig.RuntimeCELCostBudgetMatchConditions)
	var failed error
	for _, c := range conditions {
		ok, err := c.program.EvalBool(variables, budget)
		switch {
		case err != nil:
			failed = errors.Join(failed, &conditionError{name: c.name, err: err})
		case !ok:
			return false, nil
		}
	}
	return failed == nil, failed
}

// variablesOf returns what conditions see of a request.
func variablesOf(request *admissionv1.AdmissionRequest) (map[string]any, error) {
	variables := map[string]any{"object": nil, "oldObject": nil}
	for name, raw := range map[string][]byte{"object": request.Object.Raw, "oldObject": request.OldObject.Raw} {
		if len(raw) == 0 {
			continue
		}
		value, err := decodeObject(raw)
		if err != nil {
			return nil, err
		}
		variables[name] = value
	}
	bare := request.DeepCopy()
	bare.Object.Raw, bare.OldObject.Raw = nil, nil
	data, err := json.Marshal(bare)
	if err != nil {
		return nil, err
	}
	variables["request"], err = decodeObject(data)
	return variables, err
}
