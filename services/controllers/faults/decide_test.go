package faults

import (
	"fmt"
	"strings"
	"testing"
)

func TestDecide(t *testing.T) {
	fault := func(generation, observed int64, phase string) Object {
		return Object{Name: "f", UID: "u", Generation: generation, Observed: observed, Phase: phase}
	}
	leaving := fault(1, 1, Active)
	leaving.Deleting = true
	own, strange, orphan := Entry{Name: "f", Owner: "u"}, Entry{Name: "by-hand"}, Entry{Name: "old", Owner: "gone"}
	for name, row := range map[string]struct {
		objects []Object
		board   []Entry
		want    string
	}{
		"nothing":            {nil, []Entry{strange}, ""},
		"new":                {[]Object{fault(1, 0, "")}, []Entry{strange}, "place f"},
		"in force":           {[]Object{fault(1, 1, Active)}, []Entry{own}, ""},
		"changed":            {[]Object{fault(2, 1, Active)}, []Entry{own}, "place f"},
		"over":               {[]Object{fault(1, 1, Active)}, nil, "end f"},
		"said to be over":    {[]Object{fault(1, 1, Ended)}, nil, ""},
		"refused":            {[]Object{fault(1, 1, Refused)}, nil, ""},
		"refused, corrected": {[]Object{fault(2, 1, Refused)}, nil, "place f"},
		// Its own cut may keep the status from being written: it is put there once all the same.
		"unsaid":               {[]Object{fault(1, 0, "").withOutcome(1, Active)}, []Entry{own}, "say f"},
		"unsaid, and healed":   {[]Object{fault(1, 0, "").withOutcome(1, Active)}, nil, "end f"},
		"unsaid, then changed": {[]Object{fault(2, 0, "").withOutcome(1, Active)}, []Entry{own}, "place f"},
		"unsaid to be refused": {[]Object{fault(1, 0, "").withOutcome(1, Refused)}, nil, "say f"},
		"said by now":          {[]Object{fault(1, 1, Active).withOutcome(1, Active)}, []Entry{own}, ""},
		"being deleted":        {[]Object{leaving}, []Entry{own}, "remove f"},
		"deleted":              {nil, []Entry{orphan, strange}, "remove old"},
	} {
		plan := Decide(row.objects, row.board)
		var got []string
		for _, name := range plan.Remove {
			got = append(got, "remove "+name)
		}
		for _, o := range plan.Place {
			got = append(got, "place "+o.Name)
		}
		for _, o := range plan.End {
			got = append(got, "end "+o.Name)
		}
		for _, o := range plan.WriteStatus {
			got = append(got, "say "+o.Name)
		}
		if fmt.Sprint(strings.Join(got, ", ")) != row.want {
			t.Errorf("%s: %q, want %q", name, got, row.want)
		}
	}
}
