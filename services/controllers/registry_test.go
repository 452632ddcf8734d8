package controllers

import (
	"slices"
	"strings"
	"testing"
)

func TestSelect(t *testing.T) {
	all := Names()
	without := func(name string) []string {
		return slices.DeleteFunc(slices.Clone(all), func(one string) bool { return one == name })
	}
	for _, c := range []struct {
		list, fails string
		want        []string
	}{
		{list: "", want: all},
		{list: "*", want: all},
		{list: "scheduler", want: []string{"scheduler"}},
		{list: "kube-scheduler", want: []string{"scheduler"}},
		{list: "-scheduler", want: without("scheduler")},
		{list: "*,-scheduler", want: without("scheduler")},
		{list: "-kube-scheduler,*", want: without("scheduler")},
		{list: "*,scheduler", want: all},
		{list: "frobnicator", fails: `"frobnicator" is not in the list of known controllers`},
		{list: "-*", fails: `"-*" is not in the list`},
		{list: "-", fails: `"-" is not in the list`},
		{list: "scheduler,-kube-scheduler", fails: "want one or the other"},
	} {
		got, err := Select(strings.FieldsFunc(c.list, func(r rune) bool { return r == ',' }))
		switch {
		case c.fails != "":
			if err == nil || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%q: %v, want an error with %s", c.list, err, c.fails)
			}
		case err != nil || !slices.Equal(got, c.want):
			t.Errorf("%q: %v, %v, want %v", c.list, got, err, c.want)
		}
	}
}

func TestNamesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, row := range registry() {
		for _, name := range []string{row.name, row.alias} {
			if seen[name] && name != "" {
				t.Errorf("%s names two controllers", name)
			}
			seen[name] = true
		}
	}
}
