package podcidr

import "testing"

func TestOf(t *testing.T) {
	for _, row := range []struct {
		node, pods int
		want       string
	}{
		{0, 110, "10.244.0.0/24"},
		{3, 0, "10.244.3.0/24"},
		{300, 110, "10.245.44.0/24"},
		{1, 128, "10.244.1.0/24"},
		{1, 129, "10.244.2.0/23"},
		{2, 500, "10.244.8.0/22"},
		{1, 1000, "10.244.8.0/21"},
	} {
		if got := NodeCIDR(row.node, row.pods); got != row.want {
			t.Errorf("node %d with %d pods: %s, want %s", row.node, row.pods, got, row.want)
		}
	}
}
