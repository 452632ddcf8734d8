package controllers

import (
	"fmt"
	"slices"
	"strings"

	"github.com/podfall/podfall/services/controllers/control"
)

// row is a controller: its name, its older short name upstream, and its constructor.
type row struct {
	name, alias string
	make        func(control.Base) control.Controller
}

// registry lists all controllers.
func registry() []row {
	return append(clusterRows(), workloadRows()...)
}

// Names lists all controllers in alphabetical order.
func Names() []string { return sortedNames(registry()) }

func sortedNames(rows []row) []string {
	all := make([]string, 0, len(rows))
	for _, row := range rows {
		all = append(all, row.name)
	}
	slices.Sort(all)
	return all
}

// Select returns the controllers that a list means, as upstream's --controllers does. "*" is all,
// "foo" the controller foo, "-foo" all but foo. A name overrides "*". A list of only "-" entries
// removes from all, and an empty list is all. Upstream's short older names count too.
func Select(list []string) ([]string, error) {
	rows, err := selectRows(list)
	return sortedNames(rows), err
}

func selectRows(list []string) ([]row, error) {
	rows := registry()
	selected := map[string]bool{}
	all := !slices.ContainsFunc(list, func(entry string) bool { return !strings.HasPrefix(entry, "-") })
	for _, entry := range list {
		name, without := strings.CutPrefix(entry, "-")
		if name == "*" && !without {
			all = true
			continue
		}
		i := slices.IndexFunc(rows, func(r row) bool { return r.name == name || (name != "" && r.alias == name) })
		if i < 0 {
			return nil, fmt.Errorf("controllers: %q is not in the list of known controllers: want *, or names, or -names, of %s",
				entry, strings.Join(sortedNames(rows), ", "))
		}
		if previous, known := selected[rows[i].name]; known && previous == without {
			return nil, fmt.Errorf("controllers: %q and %q: want one or the other", name, "-"+name)
		}
		selected[rows[i].name] = !without
	}
	return slices.DeleteFunc(rows, func(r row) bool {
		wanted, named := selected[r.name]
		return named && !wanted || !named && !all
	}), nil
}
