package registry

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// How much a Job may ask for: rules, exit codes, indexes, and bytes of a list of indexes and of
// the name of who manages it.
const (
	maxJobRules      = 20
	maxExitCodes     = 255
	maxIndexes       = 100_000
	maxIndexesAtOnce = 10_000
	maxIndexesText   = 64 << 10
	maxManagedBy     = 63
)

const needsIndexed = "requires indexed completion mode"

// checkIndexedJob checks the fields that only Jobs with completion indexes may have, and their
// limits.
func (f *findings) checkIndexedJob(at *field.Path, spec *batchv1.JobSpec) {
	if spec.CompletionMode == nil || *spec.CompletionMode != batchv1.IndexedCompletion {
		for _, n := range []namedNumber[int32]{{"backoffLimitPerIndex", spec.BackoffLimitPerIndex}, {"maxFailedIndexes", spec.MaxFailedIndexes}} {
			if n.value != nil {
				f.invalid(at.Child(n.name), *n.value, needsIndexed)
			}
		}
		if spec.SuccessPolicy != nil {
			f.invalid(at.Child("successPolicy"), *spec.SuccessPolicy, needsIndexed)
		}
		return
	}
	if spec.Completions == nil {
		f.required(at.Child("completions"), "when completion mode is Indexed")
		return
	}
	f.checkMax(at.Child("parallelism"), spec.Parallelism, maxIndexes, "100000 when completion mode is Indexed")
	f.checkMax(at.Child("maxFailedIndexes"), spec.MaxFailedIndexes, *spec.Completions, "completions")
	f.checkMax(at.Child("maxFailedIndexes"), spec.MaxFailedIndexes, maxIndexes, "100000")
	switch {
	case spec.MaxFailedIndexes != nil && spec.BackoffLimitPerIndex == nil:
		f.required(at.Child("backoffLimitPerIndex"), "when maxFailedIndexes is specified")
	case spec.BackoffLimitPerIndex != nil && *spec.Completions > maxIndexes:
		const of = "10000 when completions are above 100000 and used with backoff limit per index"
		if spec.MaxFailedIndexes == nil {
			f.required(at.Child("maxFailedIndexes"), "when completions is above 100000")
		}
		f.checkMax(at.Child("parallelism"), spec.Parallelism, maxIndexesAtOnce, of)
		f.checkMax(at.Child("maxFailedIndexes"), spec.MaxFailedIndexes, maxIndexesAtOnce, of)
	}
	if spec.SuccessPolicy != nil {
		f.checkSuccessPolicy(at.Child("successPolicy"), spec.SuccessPolicy.Rules, *spec.Completions)
	}
}

// checkMax refuses a number above a limit, which the message names as of.
func (f *findings) checkMax(at *field.Path, value *int32, limit int32, of string) {
	if value != nil && *value > limit {
		f.invalid(at, *value, "must be less than or equal to "+of)
	}
}

// checkManagedBy requires a name like "example.com/controller".
func (f *findings) checkManagedBy(at *field.Path, name *string) {
	if name == nil {
		return
	}
	f.add(validation.IsDomainPrefixedPath(at, *name)...)
	if len(*name) > maxManagedBy {
		f.add(field.TooLong(at, *name, maxManagedBy))
	}
}

// checkReplacementPolicy requires a known policy. With a podFailurePolicy only Failed is allowed.
func (f *findings) checkReplacementPolicy(at *field.Path, spec *batchv1.JobSpec) {
	switch policy := spec.PodReplacementPolicy; {
	case policy == nil:
	case spec.PodFailurePolicy != nil:
		checkOneOf(f, at, *policy, batchv1.Failed)
	default:
		checkOneOf(f, at, *policy, batchv1.Failed, batchv1.TerminatingOrFailed)
	}
}

// checkFailurePolicy checks the rules for failed Pods.
func (f *findings) checkFailurePolicy(at *field.Path, spec *batchv1.JobSpec) {
	if spec.PodFailurePolicy == nil {
		return
	}
	if n := len(spec.PodFailurePolicy.Rules); n > maxJobRules {
		f.add(field.TooMany(at.Child("rules"), n, maxJobRules))
	}
	names := containerNames(&spec.Template.Spec)
	for i := range spec.PodFailurePolicy.Rules {
		at, rule := at.Child("rules").Index(i), &spec.PodFailurePolicy.Rules[i]
		checkOneOf(f, at.Child("action"), rule.Action, batchv1.PodFailurePolicyActionCount, batchv1.PodFailurePolicyActionFailIndex,
			batchv1.PodFailurePolicyActionFailJob, batchv1.PodFailurePolicyActionIgnore)
		if rule.Action == batchv1.PodFailurePolicyActionFailIndex && spec.BackoffLimitPerIndex == nil {
			f.invalid(at.Child("action"), rule.Action, "requires the backoffLimitPerIndex to be set")
		}
		switch {
		case rule.OnExitCodes != nil && len(rule.OnPodConditions) > 0:
			f.invalid(at, field.OmitValueType{}, "specifying both OnExitCodes and OnPodConditions is not supported")
		case rule.OnExitCodes == nil && len(rule.OnPodConditions) == 0:
			f.invalid(at, field.OmitValueType{}, "specifying one of OnExitCodes and OnPodConditions is required")
		case rule.OnExitCodes != nil:
			f.checkExitCodes(at.Child("onExitCodes"), rule.OnExitCodes, names)
		}
		f.checkConditionPatterns(at.Child("onPodConditions"), rule.OnPodConditions)
	}
}

// checkExitCodes requires possible exit codes of a failed container, in order.
func (f *findings) checkExitCodes(at *field.Path, codes *batchv1.PodFailurePolicyOnExitCodesRequirement, names []string) {
	checkOneOf(f, at.Child("operator"), codes.Operator, batchv1.PodFailurePolicyOnExitCodesOpIn, batchv1.PodFailurePolicyOnExitCodesOpNotIn)
	if name := codes.ContainerName; name != nil && !slices.Contains(names, *name) {
		f.invalid(at.Child("containerName"), *name, "must be one of the container or initContainer names in the pod template")
	}
	switch values := at.Child("values"); {
	case len(codes.Values) == 0:
		f.invalid(values, codes.Values, "at least one value is required")
	case len(codes.Values) > maxExitCodes:
		f.add(field.TooMany(values, len(codes.Values), maxExitCodes))
	}
	for i, code := range codes.Values {
		if code == 0 && codes.Operator == batchv1.PodFailurePolicyOnExitCodesOpIn {
			f.invalid(at.Child("values").Index(i), code, "must not be 0 for the In operator")
		}
		if slices.Contains(codes.Values[:i], code) {
			f.add(field.Duplicate(at.Child("values").Index(i), code))
		}
	}
	if !slices.IsSorted(codes.Values) {
		f.invalid(at.Child("values"), codes.Values, "must be ordered")
	}
}

func (f *findings) checkConditionPatterns(at *field.Path, patterns []batchv1.PodFailurePolicyOnPodConditionsPattern) {
	if len(patterns) > maxJobRules {
		f.add(field.TooMany(at, len(patterns), maxJobRules))
	}
	for i, pattern := range patterns {
		f.checkQualifiedName(at.Index(i).Child("type"), string(pattern.Type))
		checkOneOf(f, at.Index(i).Child("status"), pattern.Status, corev1.ConditionFalse, corev1.ConditionTrue, corev1.ConditionUnknown)
	}
}

// checkSuccessPolicy requires rules that a Job of so many completions can satisfy.
func (f *findings) checkSuccessPolicy(at *field.Path, rules []batchv1.SuccessPolicyRule, completions int32) {
	switch {
	case len(rules) == 0:
		f.required(at.Child("rules"), "at least one rules must be specified when the successPolicy is specified")
	case len(rules) > maxJobRules:
		f.add(field.TooMany(at.Child("rules"), len(rules), maxJobRules))
	}
	for i, rule := range rules {
		at, total := at.Child("rules").Index(i), int32(0)
		if rule.SucceededCount == nil && rule.SucceededIndexes == nil {
			f.required(at, "at least one of succeededCount or succeededIndexes must be specified")
		}
		if text := rule.SucceededIndexes; text != nil {
			var err error
			if total, err = countIndexes(*text, completions); err != nil {
				f.invalid(at.Child("succeededIndexes"), *text, "error parsing succeededIndexes: "+err.Error())
			}
			if len(*text) > maxIndexesText {
				f.add(field.TooLong(at.Child("succeededIndexes"), *text, maxIndexesText))
			}
		}
		checkNotNegatives(f, at, namedNumber[int32]{"succeededCount", rule.SucceededCount})
		f.checkMax(at.Child("succeededCount"), rule.SucceededCount, completions, fmt.Sprintf("%d (the number of specified completions)", completions))
		if rule.SucceededIndexes != nil {
			f.checkMax(at.Child("succeededCount"), rule.SucceededCount, total,
				fmt.Sprintf("%d (the number of indexes in the specified succeededIndexes field)", total))
		}
	}
}

// indexSpan is a range of a Job's indexes, both ends included.
type indexSpan struct{ first, last int32 }

// countIndexes returns the number of indexes in a text such as "1,3-5".
func countIndexes(text string, limit int32) (int32, error) {
	spans, err := parseSpans(text, limit)
	total := int32(0)
	for _, s := range spans {
		total += s.last - s.first + 1
	}
	return total, err
}

// parseSpans reads a text such as "1,3-5". Indexes must rise and stay below the limit. With an
// error it returns no spans.
func parseSpans(text string, limit int32) ([]indexSpan, error) {
	var spans []indexSpan
	last := int32(-1)
	if text == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		first, end, ranged := strings.Cut(part, "-")
		if !ranged {
			end = first
		}
		from, err := strconv.ParseInt(first, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("cannot convert string to integer for index: %q", first)
		}
		to, err := strconv.ParseInt(end, 10, 32)
		switch {
		case err != nil:
			return nil, fmt.Errorf("cannot convert string to integer for index: %q", end)
		case int32(from) <= last:
			return nil, fmt.Errorf("non-increasing order, previous: %d, current: %d", last, from)
		case ranged && to <= from:
			return nil, fmt.Errorf("non-increasing order, previous: %d, current: %d", from, to)
		case int32(to) >= limit:
			return nil, fmt.Errorf("too large index: %q", end)
		}
		last = int32(to)
		spans = append(spans, indexSpan{int32(from), last})
	}
	return spans, nil
}

// firstCommonIndex returns the lowest index that is in both lists.
func firstCommonIndex(these, those []indexSpan) (index int32, both bool) {
	for len(these) > 0 && len(those) > 0 {
		first := max(these[0].first, those[0].first)
		switch {
		case first <= min(these[0].last, those[0].last):
			return first, true
		case these[0].last < those[0].last:
			these = these[1:]
		default:
			those = those[1:]
		}
	}
	return 0, false
}

func containerNames(spec *corev1.PodSpec) []string {
	var names []string
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			names = append(names, containers[i].Name)
		}
	}
	return names
}
