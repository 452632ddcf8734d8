package controllers

import (
	"fmt"
	"slices"
	"strings"

	"github.com/podfall/podfall/services/controllers/control"
)

// row is a controller: its name and its older short name as upstream has them, and how it
// is made.
type row struct {
	name, alias string
	make        func(control.Base) control.Controller
}

// registry lists the controllers there are.
func registry() []row {
	return append(cluster(), workloads()...)
}

// Names lists the controllers there are, in the order of the alphabet.
func Names() []string { return names(registry()) }

func names(rows []row) []string {
	all := make([]string, 0, len(rows))
	for _, row := range rows {
		all = append(all, row.name)
	}
	slices.Sort(all)
	return all
}

// Select says which controllers a list such as upstream's --controllers means: "*" is all,
// "foo" is the controller foo, "-foo" is all but foo; what is said of one by name goes before
// what "*" says. A list that only takes away takes away from all, and an empty one is all.
// Names are upstream's, the short older ones too.
func Select(list []string) ([]string, error) {
	rows, err := chosen(list)
	return names(rows), err
}

func chosen(list []string) ([]row, error) {
	rows := registry()
	said := map[string]bool{}
	all := !slices.ContainsFunc(list, func(one string) bool { return !strings.HasPrefix(one, "-") })
	for _, one := range list {
		name, without := strings.CutPrefix(one, "-")
		if name == "*" && !without {
			all = true
			continue
		}
		i := slices.IndexFunc(rows, func(r row) bool { return r.name == name || (name != "" && r.alias == name) })
		if i < 0 {
			return nil, fmt.Errorf("controllers: %q is not in the list of known controllers: want *, or names, or -names, of %s",
				one, strings.Join(names(rows), ", "))
		}
		if before, twice := said[rows[i].name]; twice && before == without {
			return nil, fmt.Errorf("controllers: %q and %q: want one or the other", name, "-"+name)
		}
		said[rows[i].name] = !without
	}
	return slices.DeleteFunc(rows, func(r row) bool {
		wanted, named := said[r.name]
		return named && !wanted || !named && !all
	}), nil
}
