package job

import (
	"strconv"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FuzzIndexes: indexes that are read are below the limit and were written, as they are or
// within a range; written again they are read as the same, in order and in the fewest words.
func FuzzIndexes(f *testing.F) {
	f.Fuzz(func(t *testing.T, text string, limit uint16) {
		found := parseIndexes(text, int(limit))
		for i := range found {
			if i < 0 || i >= int(limit) || !covers(text, i) {
				t.Errorf("%d of %q below %d", i, text, limit)
			}
		}
		for i := range min(int(limit), 100) {
			if covers(text, i) && !found[i] {
				t.Errorf("%d is in %q, and was left out", i, text)
			}
		}
		written := found.String()
		if again := parseIndexes(written, int(limit)); len(again) != len(found) || again.String() != written {
			t.Errorf("%q is %q, read again %q", text, written, again)
		}
		last := -1
		for word := range strings.FieldsFuncSeq(written, func(r rune) bool { return r == ',' || r == '-' }) {
			number, err := strconv.Atoi(word)
			if err != nil || number <= last {
				t.Errorf("%q is not in order", written)
			}
			last = number
		}
	})
}

// covers reports whether a list names an index.
func covers(list string, index int) bool {
	for word := range strings.SplitSeq(list, ",") {
		if number, err := strconv.Atoi(word); err == nil && number == index {
			return true
		}
		ends := strings.SplitN(word, "-", 2)
		if len(ends) != 2 {
			continue
		}
		from, err := strconv.Atoi(ends[0])
		to, wrong := strconv.Atoi(ends[1])
		if err == nil && wrong == nil && from <= index && index <= to {
			return true
		}
	}
	return false
}

// FuzzIndex: a pod has the index that it was made with, and none of what is no number.
func FuzzIndex(f *testing.F) {
	f.Fuzz(func(t *testing.T, text string) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{batchv1.JobCompletionIndexAnnotation: text}}}
		index := Index(pod)
		if index < 0 {
			if number, err := strconv.ParseInt(text, 10, 32); err == nil && number >= 0 && text[0] != '+' && text[0] != '-' || index != -1 {
				t.Errorf("%q: %d", text, index)
			}
			return
		}
		if strings.TrimLeft(text, "0") != strings.TrimLeft(strconv.Itoa(index), "0") {
			t.Errorf("%q: %d", text, index)
		}
	})
}
