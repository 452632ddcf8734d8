package fault

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

var (
	errSkew  = errors.New("want a duration, such as 90s or -1h, or a percentage from -50% to 100%, such as 5%")
	errLimit = errors.New("want nofile= and a number of files from 1, or memory= and an amount from 1Mi, such as 300Mi")
)

// ParseSkew parses a value of [ClockSkew]: how far a clock is ahead, and how many times as fast as
// the cluster's it runs, from 0.5 to 2. The rate is 1 for a clock that is only ahead.
func ParseSkew(value string) (ahead time.Duration, rate float64, err error) {
	percent, isPercent := strings.CutSuffix(value, "%")
	if !isPercent {
		if ahead, err = time.ParseDuration(value); err != nil {
			return 0, 1, errSkew
		}
		return ahead, 1, nil
	}
	const least, most = -50, 100
	more, err := strconv.ParseFloat(percent, 64)
	if err != nil || !(more >= least && more <= most) { // NaN too
		return 0, 1, errSkew
	}
	return 0, 1 + more/100, nil
}

// Limit is a value of [ProcessLimit]: the maximum of one resource.
type Limit struct {
	// Memory is set for a limit in bytes of memory. Otherwise the limit is a number of open files.
	Memory bool
	// Max is at least 1.
	Max uint64
}

// ParseLimit parses a value of [ProcessLimit].
func ParseLimit(value string) (Limit, error) {
	name, text, _ := strings.Cut(value, "=")
	switch name {
	case "nofile":
		if most, err := strconv.ParseUint(text, 10, 32); err == nil && most > 0 {
			return Limit{Max: most}, nil
		}
	case "memory":
		amount, err := resource.ParseQuantity(text)
		if err == nil && amount.Value() >= 1<<20 && amount.Value() < math.MaxInt64 {
			return Limit{Memory: true, Max: uint64(amount.Value())}, nil
		}
	}
	return Limit{}, errLimit
}
