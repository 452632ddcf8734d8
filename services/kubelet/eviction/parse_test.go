package eviction

import (
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	got, err := Parse("memory.available<100Mi, nodefs.available<10%", "memory.available<1Gi", "memory.available=1m30s")
	if err != nil || len(got) != 3 || got[0].Quantity.Value() != 100<<20 || got[1].Percent != 10 || got[2].Grace != 90*time.Second {
		t.Errorf("Parse: %+v, %v", got, err)
	}
	if got, err := Parse("", "", ""); err != nil || got == nil || len(got) != 0 {
		t.Errorf("none: %v, %v", got, err)
	}
	for want, c := range map[string][3]string{
		`eviction-hard: "memory.available": want signal<quantity, such as memory.available<100Mi`:                {"memory.available"},
		`eviction-hard: "cpu": want one of the signals [memory.available nodefs.available pid.available]`:        {"cpu<1"},
		`eviction-hard: "pid.available": is there twice`:                                                         {"pid.available<1,pid.available<2"},
		`eviction-soft: "-1": want a positive quantity, such as 100Mi, or a percentage, such as 10%`:             {"", "pid.available<-1"},
		`eviction-hard: "100%": want more than 0% and less than 100%`:                                            {"pid.available<100%"},
		`eviction-soft-grace-period: want one for pid.available`:                                                 {"", "pid.available<1"},
		`eviction-soft-grace-period: pid.available has no soft threshold`:                                        {"", "", "pid.available=1s"},
		`eviction-soft-grace-period: "pid.available=soon": want signal=duration, such as memory.available=1m30s`: {"", "pid.available<1", "pid.available=soon"},
	} {
		if _, err := Parse(c[0], c[1], c[2]); err == nil || err.Error() != want {
			t.Errorf("Parse(%q): %v\nwant %s", c, err, want)
		}
	}
}
