package eviction

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FuzzParse: thresholds that are taken are of signals that there are, each once of a sort,
// with a positive limit, and a grace if they are soft; written again they are taken as the
// same. What is refused names its flag.
func FuzzParse(f *testing.F) {
	f.Fuzz(func(t *testing.T, hard, soft, graces string) {
		thresholds, err := Parse(hard, soft, graces)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "eviction-hard: ") && !strings.HasPrefix(err.Error(), "eviction-soft: ") &&
				!strings.HasPrefix(err.Error(), "eviction-soft-grace-period: ") {
				t.Errorf("Parse(%q, %q, %q): %v", hard, soft, graces, err)
			}
			return
		}
		var texts [3][]string
		for _, threshold := range thresholds {
			if !slices.Contains(signals(), threshold.Signal) || threshold.Grace < 0 {
				t.Errorf("%+v was taken", threshold)
			}
			limit := strconv.FormatFloat(threshold.Percent, 'g', -1, 64) + "%"
			switch {
			case threshold.Quantity.Sign() > 0 && threshold.Percent == 0:
				limit = threshold.Quantity.String()
			case threshold.Quantity.Sign() != 0 || !(threshold.Percent > 0 && threshold.Percent < 100):
				t.Errorf("%+v was taken", threshold)
			}
			kind := 0
			if threshold.Grace > 0 {
				kind = 1
				texts[2] = append(texts[2], string(threshold.Signal)+"="+threshold.Grace.String())
			}
			if slices.ContainsFunc(texts[kind], func(text string) bool { return strings.HasPrefix(text, string(threshold.Signal)+"<") }) {
				t.Errorf("%s is there twice", threshold.Signal)
			}
			texts[kind] = append(texts[kind], string(threshold.Signal)+"<"+limit)
		}
		again, err := Parse(strings.Join(texts[0], ","), strings.Join(texts[1], ", "), strings.Join(texts[2], ","))
		if err != nil || len(again) != len(thresholds) {
			t.Fatalf("took %+v, written as %q: %+v (%v)", thresholds, texts, again, err)
		}
		for i, threshold := range thresholds {
			if same := again[i]; same.Signal != threshold.Signal || same.Percent != threshold.Percent || same.Grace != threshold.Grace || same.Quantity.Cmp(threshold.Quantity) != 0 {
				t.Errorf("took %+v, written as %q %+v", threshold, texts, same)
			}
		}
	})
}

// FuzzUse: what a container says that it uses is one quantity for each name, as far as it is
// one, and nobody else's.
func FuzzUse(f *testing.F) {
	f.Fuzz(func(t *testing.T, container, text string) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{UsageAnnotation + container: text, "other": text}}}
		uses := UsageOf(pod)
		if names := slices.Collect(maps.Keys(uses)); len(names) != 1 || names[0] != container {
			t.Fatalf("%q: %q", container, names)
		}
		if most := strings.Count(text, ",") + 1; len(uses[container]) > most {
			t.Errorf("%d quantities in %q", len(uses[container]), text)
		}
		for name, quantity := range uses[container] {
			if !strings.Contains(text, string(name)+"=") && name != "" {
				t.Errorf("%s of %q", name, text)
			}
			if _, err := resource.ParseQuantity(quantity.String()); err != nil {
				t.Errorf("%s of %q: %v", name, text, err)
			}
		}
		pod.Spec.Containers = []corev1.Container{{Name: container}}
		if why := FindExcess(Pod{Spec: pod, Uses: uses}, map[string]int64{"v": math.MaxInt64}); why != "" {
			t.Errorf("without a limit: %s", why)
		}
	})
}
