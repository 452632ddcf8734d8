package custom

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	kubecel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/common"

	"github.com/podfall/podfall/services/apiserver/expression"
)

// rules are the x-kubernetes-validations of a schema and of everything in it. They are compiled
// once, with the definition, and are safe for concurrent use.
type rules struct {
	schema *structuralschema.Structural
	own    []rule
	// properties, values and items have the rules below; nil if there are none.
	properties    map[string]*rules
	values, items *rules
}

// rule is one of x-kubernetes-validations.
type rule struct {
	apiextensionsv1.ValidationRule

	program *expression.Program
	// message is nil if there is no messageExpression.
	message *expression.Program
}

// The names of the value that a rule is about, and of what it was before an update.
const (
	self    = "self"
	oldSelf = "oldSelf"
)

// compileRules compiles the rules of an object's schema; nil if it has none. Errors name the schema
// as at. The rules' costs are added to costs, unless that is nil. The error about a rule is a
// *ruleError.
func compileRules(s *structuralschema.Structural, costs *costLedger, at *field.Path) (*rules, error) {
	if !hasRules(s) {
		return nil, nil
	}
	compiled, err := compileAt(s, model.SchemaDeclType(s, true), rulePlace{copies: 1, costs: costs}, at)
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

func compileAt(s *structuralschema.Structural, declared *kubecel.DeclType, in rulePlace, at *field.Path) (*rules, error) {
	if declared == nil {
		return nil, nil // of no type that CEL knows: upstream leaves its rules out as well
	}
	node := &rules{schema: s}
	if s.XEmbeddedResource {
		node.schema = model.WithTypeAndObjectMeta(s)
	}
	var err error
	if node.own, err = compileOwn(s, declared, in, at.Child("x-kubernetes-validations")); err != nil {
		return nil, err
	}
	if s.Items != nil {
		if node.items, err = compileAt(s.Items, declared.ElemType, in.items(s, at).below(s), at.Child("items")); err != nil {
			return nil, err
		}
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Structural != nil {
		if node.values, err = compileAt(s.AdditionalProperties.Structural, declared.ElemType, in.below(s), at.Child("additionalProperties")); err != nil {
			return nil, err
		}
	}
	if node.properties, err = compileProperties(s, declared, in, at.Child("properties")); err != nil {
		return nil, err
	}
	if len(node.own) == 0 && node.items == nil && node.values == nil && node.properties == nil {
		return nil, nil
	}
	return node, nil
}

// compileProperties compiles the rules of an object's properties; nil if there are none.
func compileProperties(s *structuralschema.Structural, declared *kubecel.DeclType, in rulePlace, at *field.Path) (map[string]*rules, error) {
	var compiled map[string]*rules
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		property := s.Properties[name]
		within, err := compileAt(&property, typeOfProperty(declared, &property, name), in.below(s), at.Key(name))
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

// typeOfProperty returns a property's CEL type. If CEL cannot express its name, the type is made
// from the property's own schema.
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

// rulePlace says where in a schema a rule is.
type rulePlace struct {
	// uncorrelatable is the list above the rule whose items cannot be matched with those before an
	// update; nil if there is none.
	uncorrelatable *field.Path
	// copies is how often the place can occur in one object, unless it is unbounded.
	copies    uint64
	unbounded bool
	// costs is nil if costs are not needed.
	costs *costLedger
}

// below returns the place inside of a value of s.
func (in rulePlace) below(s *structuralschema.Structural) rulePlace {
	copies, bounded := maxChildren(s)
	in.copies, in.unbounded = multiply(in.copies, copies), in.unbounded || !bounded
	return in
}

// items returns the place of a list's items. Only the items of a map list can be matched with
// earlier ones.
func (in rulePlace) items(s *structuralschema.Structural, at *field.Path) rulePlace {
	if in.uncorrelatable == nil && (s.XListType == nil || *s.XListType != "map") {
		in.uncorrelatable = at
	}
	return in
}

// compileOwn compiles the rules of one place in the schema.
func compileOwn(s *structuralschema.Structural, declared *kubecel.DeclType, in rulePlace, at *field.Path) ([]rule, error) {
	var compiled []rule
	for i, v := range s.XValidations {
		env, err := ruleEnv(declared, v)
		if err != nil {
			return nil, err
		}
		r := rule{ValidationRule: v}
		if r.program, err = expression.Compile(env, v.Rule, cel.BoolType); err != nil {
			if errors.As(err, new(*expression.TypeError)) {
				err = fmt.Errorf("cel expression %w", err)
			}
			return nil, &ruleError{at.Index(i).Child("rule"), toInternal(v), err}
		}
		if v.MessageExpression != "" {
			if r.message, err = expression.Compile(env, v.MessageExpression, cel.StringType); err != nil {
				return nil, &ruleError{at.Index(i).Child("messageExpression"), toInternal(v), fmt.Errorf("messageExpression %w", err)}
			}
		}
		if err := checkRule(r, s, in, at.Index(i)); err != nil {
			return nil, err
		}
		if err := r.addCost(declared, in, at.Index(i)); err != nil {
			return nil, err
		}
		compiled = append(compiled, r)
	}
	return compiled, nil
}

// addCost adds the estimated cost of a rule for all values of its place.
func (r rule) addCost(declared *kubecel.DeclType, in rulePlace, at *field.Path) error {
	if in.costs == nil {
		return nil
	}
	copies := in.copies
	if in.unbounded {
		copies = maxCopies(declared)
	}
	cost, err := maxCost(r.program, declared)
	if err != nil {
		return err
	}
	in.costs.add(at.Child("rule"), "estimated rule cost", multiply(cost, copies))
	if r.message == nil {
		return nil
	}
	if cost, err = maxCost(r.message, declared); err != nil {
		return err
	}
	in.costs.add(at.Child("messageExpression"), "estimated messageExpression cost", cost)
	return nil
}

// checkRule checks a compiled rule.
func checkRule(r rule, s *structuralschema.Structural, in rulePlace, at *field.Path) error {
	switch {
	case r.program.Uses[oldSelf] && in.uncorrelatable != nil:
		return &ruleError{at.Child("rule"), r.Rule, fmt.Errorf(
			"oldSelf cannot be used on the uncorrelatable portion of the schema within %s", in.uncorrelatable)}
	case !r.program.Uses[oldSelf] && r.OptionalOldSelf != nil:
		return &ruleError{at.Child("optionalOldSelf"), *r.OptionalOldSelf, errOldSelfUnused}
	case r.FieldPath != "" && !hasPath(s, r.FieldPath):
		return &ruleError{at.Child("fieldPath"), r.FieldPath, errNoPath}
	}
	return nil
}

var (
	errOldSelfUnused = errors.New("may not be set if oldSelf is not used in rule")
	errNoPath        = errors.New("must be a valid path")
)

// hasPath reports whether a schema has a field, for example ".spec.x" or ".labels['a.b']".
func hasPath(s *structuralschema.Structural, path string) bool {
	if !strings.HasPrefix(path, ".") && !strings.HasPrefix(path, "[") {
		return false
	}
	for path != "" && s != nil {
		var step string
		if quoted, ok := strings.CutPrefix(path, "['"); ok {
			step, path, ok = strings.Cut(quoted, "']")
			if !ok {
				return false
			}
		} else {
			step = strings.TrimPrefix(path, ".")
			end := strings.IndexAny(step, ".[")
			if end < 0 {
				end = len(step)
			}
			step, path = step[:end], step[end:]
		}
		s = propertyOf(s, step)
	}
	return s != nil
}

// toInternal returns a rule in upstream's internal form, which its errors show.
func toInternal(v apiextensionsv1.ValidationRule) apiextensions.ValidationRule {
	rule := apiextensions.ValidationRule{
		Rule: v.Rule, Message: v.Message, MessageExpression: v.MessageExpression, FieldPath: v.FieldPath, OptionalOldSelf: v.OptionalOldSelf,
	}
	if v.Reason != nil {
		rule.Reason = new(apiextensions.FieldValueErrorReason(*v.Reason))
	}
	return rule
}

// ruleError says what is wrong with one expression, and where it is.
type ruleError struct {
	at *field.Path
	// shown is the rule as upstream shows it.
	shown any
	err   error
}

func (e *ruleError) Error() string { return fmt.Sprintf("%s: %v", e.at, e.err) }

func (e *ruleError) Unwrap() error { return e.err }

// ruleEnv returns the CEL environment of a rule about a value of a type.
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

// check evaluates the rules for an object and its version before an update; old is nil if the
// object is new.
func (r *rules) check(obj, old any) field.ErrorList {
	return r.checkAt(nil, obj, old, expression.NewBudget(celconfig.RuntimeCELCostBudget))
}

func (r *rules) checkAt(path *field.Path, value, old any, budget *expression.Budget) field.ErrorList {
	if r == nil || value == nil || budget.Spent() {
		return nil
	}
	errs := r.checkOwn(path, value, old, budget)
	switch value := value.(type) {
	case map[string]any:
		before, _ := old.(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(value)) {
			if within, ok := r.properties[name]; ok {
				errs = append(errs, within.checkAt(path.Child(name), value[name], before[name], budget)...)
			} else {
				errs = append(errs, r.values.checkAt(path.Key(name), value[name], before[name], budget)...)
			}
		}
	case []any:
		before, _ := old.([]any)
		earlier := common.MakeMapList(&model.Structural{Structural: r.schema}, before)
		for i, item := range value {
			errs = append(errs, r.items.checkAt(path.Index(i), item, earlier.Get(item), budget)...)
		}
	}
	return errs
}

// checkOwn evaluates the rules of one place.
func (r *rules) checkOwn(path *field.Path, value, old any, budget *expression.Budget) field.ErrorList {
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
		if err := rule.evaluate(path, r.shownValue(value), given, budget); err != nil {
			errs = append(errs, err)
		}
		if budget.Spent() {
			return errs
		}
	}
	return errs
}

// shownValue returns what an error shows of a value: nothing of an object or a list.
func (r *rules) shownValue(value any) any {
	if r.schema.Type == "object" || r.schema.Type == "array" {
		return field.OmitValueType{}
	}
	return value
}

// evaluate returns nil if the rule holds.
func (r rule) evaluate(path *field.Path, value any, variables map[string]any, budget *expression.Budget) *field.Error {
	holds, err := r.program.EvalBool(variables, budget)
	if over, ok := errors.AsType[*expression.OverBudgetError](err); ok {
		return field.Invalid(path, value, over.Error())
	}
	if err != nil {
		if strings.HasPrefix(err.Error(), "no such overload") {
			return field.Invalid(path, value, fmt.Sprintf(
				"'%v': call arguments did not match a supported operator, function or macro signature for rule: %s", err, r.describe()))
		}
		return field.Invalid(path, value, fmt.Sprintf("%v evaluating rule: %s", err, r.describe()))
	}
	if holds {
		return nil
	}
	if name := strings.TrimPrefix(r.FieldPath, "."); name != "" {
		path = path.Child(name)
	}
	detail := r.failureMessage(variables, budget)
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

// describe returns a rule as errors name it.
func (r rule) describe() string {
	if r.Message != "" {
		return strings.TrimSpace(r.Message)
	}
	return strings.TrimSpace(r.Rule)
}

// failureMessage says why a rule does not hold: the result of its messageExpression, its message,
// or the rule itself.
func (r rule) failureMessage(variables map[string]any, budget *expression.Budget) string {
	if r.message != nil {
		text, err := r.message.EvalString(variables, budget)
		text = strings.TrimSpace(text)
		if err == nil && text != "" && len(text) <= celconfig.MaxEvaluatedMessageExpressionSizeBytes && !strings.ContainsAny(text, "\n\r") {
			return text
		}
	}
	if r.Message != "" {
		return strings.TrimSpace(r.Message)
	}
	return "failed rule: " + strings.TrimSpace(r.Rule)
}
