package custom

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	kubecel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/common"

	"github.com/podfall/podfall/services/apiserver/expression"
)

// rules are the x-kubernetes-validations of a schema and of everything in it. They are
// compiled once, with the definition, and are safe for concurrent use.
type rules struct {
	schema *structuralschema.Structural
	own    []rule
	// properties, values and items have the rules below; nil where there are none.
	properties    map[string]*rules
	values, items *rules
}

// rule is one of x-kubernetes-validations.
type rule struct {
	apiextensionsv1.ValidationRule

	program *expression.Program
	// message is nil when there is no messageExpression.
	message *expression.Program
}

// The names of the value that a rule is about, and of what it was before an update.
const (
	self    = "self"
	oldSelf = "oldSelf"
)

// compileRules compiles the rules of the schema of an object, which errors call at; nil
// when it has none. The error about a rule is a *ruleError.
func compileRules(s *structuralschema.Structural, at *field.Path) (*rules, error) {
	if !hasRules(s) {
		return nil, nil
	}
	compiled, err := compileAt(s, model.SchemaDeclType(s, true), at)
	if compiled != nil {
		compiled.schema = model.WithTypeAndObjectMeta(s)
	}
	return compiled, err
}

func hasRules(s *structuralschema.Structural) bool {
	found := false
	(&structuralschema.Visitor{Structural: func(at *structuralschema.Structural) bool {
		found = found || len(at.XValidations) > 0
		return false
	}}).Visit(s)
	return found
}

func compileAt(s *structuralschema.Structural, declared *kubecel.DeclType, at *field.Path) (*rules, error) {
	if declared == nil {
		return nil, nil // of no type that CEL knows: upstream leaves its rules out as well
	}
	node := &rules{schema: s}
	if s.XEmbeddedResource {
		node.schema = model.WithTypeAndObjectMeta(s)
	}
	var err error
	if node.own, err = compileOwn(s.XValidations, declared, at.Child("x-kubernetes-validations")); err != nil {
		return nil, err
	}
	if s.Items != nil {
		if node.items, err = compileAt(s.Items, declared.ElemType, at.Child("items")); err != nil {
			return nil, err
		}
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Structural != nil {
		if node.values, err = compileAt(s.AdditionalProperties.Structural, declared.ElemType, at.Child("additionalProperties")); err != nil {
			return nil, err
		}
	}
	if node.properties, err = compileProperties(s, declared, at.Child("properties")); err != nil {
		return nil, err
	}
	if len(node.own) == 0 && node.items == nil && node.values == nil && node.properties == nil {
		return nil, nil
	}
	return node, nil
}

// compileProperties compiles the rules below the properties of an object; nil when there are
// none.
func compileProperties(s *structuralschema.Structural, declared *kubecel.DeclType, at *field.Path) (map[string]*rules, error) {
	var compiled map[string]*rules
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		property := s.Properties[name]
		within, err := compileAt(&property, typeOfProperty(declared, &property, name), at.Key(name))
		if err != nil {
			return nil, err
		}
		if within == nil {
			continue
		}
		if compiled == nil {
			compiled = map[string]*rules{}
		}
		compiled[name] = within
	}
	return compiled, nil
}

// typeOfProperty is a property's CEL type. One whose name CEL cannot say has it from its own
// schema.
func typeOfProperty(declared *kubecel.DeclType, s *structuralschema.Structural, name string) *kubecel.DeclType {
	escaped, ok := kubecel.Escape(name)
	if !ok {
		return model.SchemaDeclType(s, s.XEmbeddedResource)
	}
	if f, known := declared.Fields[escaped]; known {
		return f.Type
	}
	return nil
}

// compileOwn compiles the rules of one place in the schema.
func compileOwn(validations apiextensionsv1.ValidationRules, declared *kubecel.DeclType, at *field.Path) ([]rule, error) {
	if len(validations) == 0 {
		return nil, nil
	}
	var compiled []rule
	for i, v := range validations {
		env, err := ruleEnv(declared, v)
		if err != nil {
			return nil, err
		}
		r := rule{ValidationRule: v}
		if r.program, err = expression.Compile(env, v.Rule, cel.BoolType); err != nil {
			return nil, &ruleError{at: at.Index(i).Child("rule"), text: v.Rule, err: err}
		}
		if v.MessageExpression != "" {
			if r.message, err = expression.Compile(env, v.MessageExpression, cel.StringType); err != nil {
				return nil, &ruleError{at: at.Index(i).Child("messageExpression"), text: v.MessageExpression, err: err}
			}
		}
		compiled = append(compiled, r)
	}
	return compiled, nil
}

// ruleError is what is wrong with one expression, and where it is.
type ruleError struct {
	at   *field.Path
	text string
	err  error
}

func (e *ruleError) Error() string { return fmt.Sprintf("%s: %v", e.at, e.err) }

func (e *ruleError) Unwrap() error { return e.err }

// ruleEnv is the environment of a rule about a value of a type.
func ruleEnv(declared *kubecel.DeclType, rule apiextensionsv1.ValidationRule) (*cel.Env, error) {
	base, err := expression.Base()
	if err != nil {
		return nil, err
	}
	scoped := declared.MaybeAssignTypeName("podfallSelfType")
	provider := kubecel.NewDeclTypeProvider(scoped)
	provider.SetRecognizeKeywordAsFieldName(true)
	options, err := provider.EnvOptions(base.CELTypeProvider())
	if err != nil {
		return nil, err
	}
	before := scoped.CelType()
	if rule.OptionalOldSelf != nil && *rule.OptionalOldSelf {
		before = types.NewOptionalType(before)
	}
	return base.Extend(append(options, cel.Variable(self, scoped.CelType()), cel.Variable(oldSelf, before))...)
}

// check asks the rules about an object, and about what it was; old is nil when it is new.
func (r *rules) check(obj, old any) field.ErrorList {
	return r.at(nil, obj, old, expression.NewBudget(celconfig.RuntimeCELCostBudget))
}

func (r *rules) at(path *field.Path, value, old any, budget *expression.Budget) field.ErrorList {
	if r == nil || value == nil || budget.Spent() {
		return nil
	}
	errs := r.ask(path, value, old, budget)
	switch value := value.(type) {
	case map[string]any:
		before, _ := old.(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(value)) {
			if within, ok := r.properties[name]; ok {
				errs = append(errs, within.at(path.Child(name), value[name], before[name], budget)...)
			} else {
				errs = append(errs, r.values.at(path.Key(name), value[name], before[name], budget)...)
			}
		}
	case []any:
		before, _ := old.([]any)
		earlier := common.MakeMapList(&model.Structural{Structural: r.schema}, before)
		for i, item := range value {
			errs = append(errs, r.items.at(path.Index(i), item, earlier.Get(item), budget)...)
		}
	}
	return errs
}

// ask evaluates the rules of one place.
func (r *rules) ask(path *field.Path, value, old any, budget *expression.Budget) field.ErrorList {
	if len(r.own) == 0 {
		return nil
	}
	schema := &model.Structural{Structural: r.schema}
	variables := map[string]any{self: common.UnstructuredToVal(value, schema)}
	var before any = types.OptionalNone
	if old != nil {
		variables[oldSelf] = common.UnstructuredToVal(old, schema)
		before = types.OptionalOf(common.UnstructuredToVal(old, schema))
	}
	var errs field.ErrorList
	for _, rule := range r.own {
		given := variables
		if rule.OptionalOldSelf != nil && *rule.OptionalOldSelf {
			given = map[string]any{self: variables[self], oldSelf: before}
		} else if old == nil && rule.program.Uses[oldSelf] {
			continue // there is nothing to compare with
		}
		if err := rule.judge(path, r.shown(value), given, budget); err != nil {
			errs = append(errs, err)
		}
		if budget.Spent() {
			return errs
		}
	}
	return errs
}

// shown is what an error shows of a value: nothing of a large one.
func (r *rules) shown(value any) any {
	if r.schema.Type == "object" || r.schema.Type == "array" {
		return field.OmitValueType{}
	}
	return value
}

// judge is nil when the rule holds.
func (r rule) judge(path *field.Path, value any, variables map[string]any, budget *expression.Budget) *field.Error {
	holds, err := r.program.Bool(variables, budget)
	if over, ok := errors.AsType[*expression.OverBudgetError](err); ok {
		return field.Invalid(path, value, over.Error())
	}
	if err != nil {
		if strings.HasPrefix(err.Error(), "no such overload") {
			return field.Invalid(path, value, fmt.Sprintf(
				"'%v': call arguments did not match a supported operator, function or macro signature for rule: %s", err, r.text()))
		}
		return field.Invalid(path, value, fmt.Sprintf("%v evaluating rule: %s", err, r.text()))
	}
	if holds {
		return nil
	}
	if name := strings.TrimPrefix(r.FieldPath, "."); name != "" {
		path = path.Child(name)
	}
	detail := r.detail(variables, budget)
	reason := apiextensionsv1.FieldValueInvalid
	if r.Reason != nil {
		reason = *r.Reason
	}
	switch reason {
	case apiextensionsv1.FieldValueForbidden:
		return field.Forbidden(path, detail)
	case apiextensionsv1.FieldValueRequired:
		return field.Required(path, detail)
	case apiextensionsv1.FieldValueDuplicate:
		return field.Duplicate(path, value)
	case apiextensionsv1.FieldValueInvalid:
	}
	return field.Invalid(path, value, detail)
}

// text is a rule as errors name it.
func (r rule) text() string {
	if r.Message != "" {
		return strings.TrimSpace(r.Message)
	}
	return strings.TrimSpace(r.Rule)
}

// detail is why a rule does not hold: what its messageExpression says, its message, or the
// rule itself.
func (r rule) detail(variables map[string]any, budget *expression.Budget) string {
	if r.message != nil {
		said, err := r.message.String(variables, budget)
		said = strings.TrimSpace(said)
		if err == nil && said != "" && len(said) <= celconfig.MaxEvaluatedMessageExpressionSizeBytes && !strings.ContainsAny(said, "\n\r") {
			return said
		}
	}
	if r.Message != "" {
		return strings.TrimSpace(r.Message)
	}
	return "failed rule: " + strings.TrimSpace(r.Rule)
}
