package expression_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"

	"github.com/podfall/podfall/services/apiserver/expression"
)

func env(t *testing.T) *cel.Env {
	t.Helper()
	base, err := expression.Base()
	if err != nil {
		t.Fatal(err)
	}
	extended, err := base.Extend(cel.Variable("x", cel.DynType))
	if err != nil {
		t.Fatal(err)
	}
	return extended
}

// TestLibrary: the functions of an API server of release 1.37 are there.
func TestLibrary(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`url("https://a.b:80/c").getHost() == "a.b:80"`,
		`"abc".find("b+") == "b"`,
		`[1, 2, 3].sum() == 6 && [1, 2].isSorted() && [2, 1].max() == 2`,
		`quantity("1Gi").isGreaterThan(quantity("1M"))`,
		`ip("10.0.0.1").family() == 4 && cidr("10.0.0.0/8").containsIP("10.1.2.3")`,
		`!format.dns1123Label().validate("ok").hasValue()`,
		`semver("1.2.3").isLessThan(semver("1.3.0"))`,
		`"a-b".split("-") == ["a", "b"] && sets.contains([1, 2], [1])`,
		`{"a": 1}.all(k, v, k == "a" && v == 1)`,
		`optional.of(1).orValue(2) == 1 && x.?y.orValue(3) == 3`,
		`1 < 1.5 && x.z > 2`,
		`duration("1h") > duration("1m")`,
	} {
		program, err := expression.Compile(env(t), text, cel.BoolType)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		ok, err := program.EvalBool(map[string]any{"x": map[string]any{"z": 2.5}}, expression.NewBudget(1e6))
		if err != nil || !ok {
			t.Errorf("%s: %t, %v", text, ok, err)
		}
	}
}

func TestCompileRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"1":      "must evaluate to a bool",
		"x":      "must evaluate to a bool",
		"y == 1": "compilation failed: ERROR: <input>:1:1: undeclared reference to 'y'",
		"":       "compilation failed: ERROR: <input>:1:0: Syntax error",
	} {
		if _, err := expression.Compile(env(t), text, cel.BoolType); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func TestBudget(t *testing.T) {
	t.Parallel()
	program, err := expression.Compile(env(t), `x.all(a, x.all(b, x.all(c, a + b + c >= 0)))`, cel.BoolType)
	if err != nil {
		t.Fatal(err)
	}
	var many []any
	for i := range 200 {
		many = append(many, i)
	}
	budget := expression.NewBudget(1e9)
	_, err = program.EvalBool(map[string]any{"x": many}, budget)
	if _, over := errors.AsType[*expression.OverBudgetError](err); !over || !budget.Spent() {
		t.Errorf("a rule that takes for ever: %v, spent %t", err, budget.Spent())
	}
	small := expression.NewBudget(3)
	if _, err := program.EvalBool(map[string]any{"x": many[:5]}, small); err == nil || !small.Spent() {
		t.Errorf("with a small budget: %v", err)
	}
	message, err := expression.Compile(env(t), `"no " + string(x)`, cel.StringType)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := message.EvalString(map[string]any{"x": 7}, expression.NewBudget(100)); err != nil || text != "no 7" {
		t.Errorf("a text: %q, %v", text, err)
	}
	if !message.Uses["x"] || message.Uses["y"] {
		t.Errorf("uses %v", message.Uses)
	}
}
