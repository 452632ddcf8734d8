package eviction

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Parse parses thresholds as upstream's flags give them: signal<quantity or signal<percent%,
// separated by commas; and the graces of soft ones, signal=duration. An empty text has none.
func Parse(hard, soft, graces string) ([]Threshold, error) {
	thresholds, err := parseThresholds(hard)
	if err != nil {
		return nil, fmt.Errorf("eviction-hard: %w", err)
	}
	later, err := parseThresholds(soft)
	if err != nil {
		return nil, fmt.Errorf("eviction-soft: %w", err)
	}
	periods, err := parseGraces(graces)
	if err != nil {
		return nil, fmt.Errorf("eviction-soft-grace-period: %w", err)
	}
	for i := range later {
		grace, said := periods[later[i].Signal]
		if !said {
			return nil, fmt.Errorf("eviction-soft-grace-period: want one for %s", later[i].Signal)
		}
		later[i].Grace = grace
		delete(periods, later[i].Signal)
	}
	for signal := range periods {
		return nil, fmt.Errorf("eviction-soft-grace-period: %s has no soft threshold", signal)
	}
	return append(thresholds, later...), nil
}

func parseThresholds(text string) ([]Threshold, error) {
	thresholds := []Threshold{}
	for one := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(one) == "" {
			continue
		}
		name, value, found := strings.Cut(strings.TrimSpace(one), "<")
		t := Threshold{Signal: Signal(name)}
		switch {
		case !found:
			return nil, fmt.Errorf("%q: want signal<quantity, such as memory.available<100Mi", one)
		case !slices.Contains(signals(), t.Signal):
			return nil, fmt.Errorf("%q: want one of the signals %v", name, signals())
		case slices.ContainsFunc(thresholds, func(other Threshold) bool { return other.Signal == t.Signal }):
			return nil, fmt.Errorf("%q: is there twice", name)
		}
		if err := t.parseLimit(value); err != nil {
			return nil, err
		}
		thresholds = append(thresholds, t)
	}
	return thresholds, nil
}

// parseLimit parses how little there may be.
func (t *Threshold) parseLimit(text string) error {
	if number, percent := strings.CutSuffix(text, "%"); percent {
		value, err := strconv.ParseFloat(number, 64)
		if err != nil || !(value > 0 && value < 100) {
			return fmt.Errorf("%q: want more than 0%% and less than 100%%", text)
		}
		t.Percent = value
		return nil
	}
	quantity, err := resource.ParseQuantity(text)
	if err != nil || quantity.Sign() <= 0 {
		return fmt.Errorf("%q: want a positive quantity, such as 100Mi, or a percentage, such as 10%%", text)
	}
	t.Quantity = quantity
	return nil
}

func parseGraces(text string) (map[Signal]time.Duration, error) {
	graces := make(map[Signal]time.Duration)
	for one := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(one) == "" {
			continue
		}
		name, value, _ := strings.Cut(strings.TrimSpace(one), "=")
		grace, err := time.ParseDuration(value)
		if err != nil || grace <= 0 {
			return nil, fmt.Errorf("%q: want signal=duration, such as memory.available=1m30s", one)
		}
		graces[Signal(name)] = grace
	}
	return graces, nil
}
