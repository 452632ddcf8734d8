package kubelet

import "testing"

// TestFirstLines: a log that is cut at its end ends with a line, because readers go on there.
func TestFirstLines(t *testing.T) {
	for _, row := range []struct {
		text string
		most int
		want string
	}{
		{"", 5, ""},
		{"ab\ncd\n", 6, "ab\ncd\n"},
		{"ab\ncd\n", 5, "ab\n"},
		{"ab\ncd\n", 3, "ab\n"},
		{"abcdef\n", 3, "abc"}, // one line is longer than all there may be
	} {
		if got := firstLines([]byte(row.text), row.most); string(got) != row.want {
			t.Errorf("the first %d bytes of %q: %q, want %q", row.most, row.text, got, row.want)
		}
	}
}

// TestLastLines: a log that is cut begins with a line, because readers find a time there.
func TestLastLines(t *testing.T) {
	for _, row := range []struct {
		text string
		most int
		want string
	}{
		{"", 5, ""},
		{"ab\ncd\n", 6, "ab\ncd\n"},
		{"ab\ncd\n", 5, "cd\n"},
		{"ab\ncd\n", 4, "cd\n"},
		{"ab\ncd\n", 3, "cd\n"},
		{"ab\ncd\nef", 6, "cd\nef"},
		{"ab\ncdefgh\n", 3, "gh\n"}, // one line is longer than all there may be
		{"abcdef", 3, "def"},
	} {
		if got := lastLines([]byte(row.text), row.most); string(got) != row.want {
			t.Errorf("the last %d bytes of %q: %q, want %q", row.most, row.text, got, row.want)
		}
	}
}
