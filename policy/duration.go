package policy

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

const day = 24 * time.Hour

// ParseDuration reads a duration in the form of time.ParseDuration (90s, 2h30m), with weeks and days before it, as in
// 90d, 2w or 1d12h. A day is 24 hours.
func ParseDuration(text string) (time.Duration, error) {
	rest, sign := text, time.Duration(1)
	if after, ok := strings.CutPrefix(rest, "-"); ok {
		rest, sign = after, -1
	}
	var length time.Duration
	for _, unit := range []struct {
		name string
		is   time.Duration
	}{{"w", 7 * day}, {"d", day}} {
		count, after, ok := strings.Cut(rest, unit.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(count, 10, 31)
		if err != nil || length > 1<<62-time.Duration(n)*unit.is || time.Duration(n) > 1<<62/unit.is {
			return 0, fmt.Errorf("%q is no duration: write it as 90s, 2h30m or 90d", text)
		}
		length, rest = length+time.Duration(n)*unit.is, after
	}
	if rest == "" && length > 0 {
		return sign * length, nil
	}
	small, err := time.ParseDuration(rest)
	if err != nil || small < 0 {
		return 0, fmt.Errorf("%q is no duration: write it as 90s, 2h30m or 90d", text)
	}
	return sign * (length + small), nil
}
