package downward_test

import (
	"maps"
	"math"
	"math/big"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/services/kubelet/downward"
)

// FuzzField: a label is what it is, whatever its key; a file of labels is read as what it was
// written from; and a path that is refused is named.
func FuzzField(f *testing.F) {
	f.Fuzz(func(t *testing.T, path, key, value, other string) {
		values := map[string]string{key: value, "other": other}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: values, Annotations: values}}
		if _, err := downward.Field(pod, path, downward.Addresses{}); err != nil && !strings.Contains(err.Error(), strconv.Quote(path)) {
			t.Errorf("%q: %v", path, err)
		}
		for _, base := range []string{"metadata.labels", "metadata.annotations"} {
			if got, err := downward.Field(pod, base+"['"+key+"']", downward.Addresses{}); err != nil || got != values[key] {
				t.Errorf("%s of %q: %q (%v), want %q", base, key, got, err, values[key])
			}
			text, err := downward.Field(pod, base, downward.Addresses{})
			if err != nil {
				t.Fatal(err)
			}
			if strings.ContainsAny(key, "\n=") { // no key of a map that there can be
				continue
			}
			read := map[string]string{}
			for line := range strings.SplitSeq(text, "\n") {
				name, quoted, _ := strings.Cut(line, "=")
				if read[name], err = strconv.Unquote(quoted); err != nil {
					t.Errorf("%q: %v", line, err)
				}
			}
			if !maps.Equal(read, values) {
				t.Errorf("wrote %q of %q, read %q", text, values, read)
			}
		}
	})
}

// FuzzResource: what is shown is the least whole number of divisors that is no less than the
// amount.
func FuzzResource(f *testing.F) {
	f.Fuzz(func(t *testing.T, name, amount, divisor string) {
		has, err := resource.ParseQuantity(amount)
		by, wrong := resource.ParseQuantity(divisor)
		if err != nil || wrong != nil || has.Sign() < 0 || by.Sign() < 0 {
			return
		}
		list := corev1.ResourceList{}
		for _, known := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
			list[known] = has
		}
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: list, Limits: list}}}}}
		text, err := downward.Resource(pod, nil, &corev1.ResourceFieldSelector{ContainerName: "c", Resource: name, Divisor: by}, list)
		if err != nil {
			if !strings.Contains(err.Error(), strconv.Quote(name)) {
				t.Errorf("%q: %v", name, err)
			}
			return
		}
		got, ok := new(big.Int).SetString(text, 10)
		if !ok || got.Sign() < 0 {
			t.Fatalf("%s of %s by %s is %q", name, amount, divisor, text)
		}
		if by.IsZero() {
			by = resource.MustParse("1")
		}
		of, in := has.Value(), by.Value()
		if strings.HasSuffix(name, ".cpu") {
			of, in = thousandths(has), thousandths(by)
		}
		if strings.Contains(name, ".hugepages-") {
			of = 0
		}
		most := new(big.Int).Mul(got, big.NewInt(in))
		less := new(big.Int).Sub(most, big.NewInt(in))
		if most.Cmp(big.NewInt(of)) < 0 || got.Sign() > 0 && less.Cmp(big.NewInt(of)) >= 0 {
			t.Errorf("%s of %s by %s is %s", name, amount, divisor, text)
		}
	})
}

// thousandths of a quantity, as far as they are a number.
func thousandths(quantity resource.Quantity) int64 {
	if quantity.CmpInt64(math.MaxInt64/1000) > 0 {
		return math.MaxInt64
	}
	return quantity.MilliValue()
}
