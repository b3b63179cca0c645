package replay

import (
	"strconv"
	"strings"
	"time"

	"github.com/stint-io/stint/limit"
)

// parseTime parses RFC 3339, or a Unix time in seconds or milliseconds with or without a fraction. Digits below a
// microsecond are cut off.
func parseTime(text string) (limit.Time, error) {
	whole, fraction, _ := strings.Cut(text, ".")
	if whole != "" && strings.Trim(whole+fraction, "0123456789") == "" {
		return parseUnix(whole, fraction)
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return 0, lineErrorf("time: must be RFC 3339 or a Unix time in seconds or milliseconds, not %q", text)
	}
	return instant(t)
}

// parseUnix tells seconds from milliseconds by their size: 10^11 seconds is the year 5138, 10^11 milliseconds is 1973.
func parseUnix(whole, fraction string) (limit.Time, error) {
	const millisFrom, millisMost = 100_000_000_000, 100_000_000_000_000
	n, err := strconv.ParseUint(whole, 10, 64)
	if err != nil || n >= millisMost {
		return 0, lineErrorf("time: %s is neither seconds nor milliseconds since 1970", whole)
	}
	millionths, err := strconv.ParseUint((fraction + "000000")[:6], 10, 64)
	if err != nil {
		return 0, lineErrorf("time: the fraction %q is no number", fraction)
	}
	if n < millisFrom {
		return limit.Time(n*1_000_000 + millionths), nil
	}
	return limit.Time(n*1_000 + millionths/1_000), nil
}

func instant(t time.Time) (limit.Time, error) {
	if t.Unix() < 0 {
		return 0, lineErrorf("time: %s is before 1970", t.Format(time.RFC3339))
	}
	return limit.Time(t.UnixMicro()), nil
}

func clock(t limit.Time) time.Time { return time.UnixMicro(int64(t)).UTC() }
