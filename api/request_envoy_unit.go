package api

import (
	"math"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// envoyUnits are Envoy's units of time, the longest first. As in envoyproxy/ratelimit a month has 30 days and a year
// 365, and their windows, like those of a week, are counted from 1970-01-01, a Thursday.
var envoyUnits = []struct {
	span     limit.Span
	answer   rlsv3.RateLimitResponse_RateLimit_Unit
	override typev3.RateLimitUnit // UNKNOWN means none
}{
	{365 * envoyDay, rlsv3.RateLimitResponse_RateLimit_YEAR, typev3.RateLimitUnit_YEAR},
	{30 * envoyDay, rlsv3.RateLimitResponse_RateLimit_MONTH, typev3.RateLimitUnit_MONTH},
	{7 * envoyDay, rlsv3.RateLimitResponse_RateLimit_WEEK, typev3.RateLimitUnit_UNKNOWN},
	{envoyDay, rlsv3.RateLimitResponse_RateLimit_DAY, typev3.RateLimitUnit_DAY},
	{3600 * microsPerSecond, rlsv3.RateLimitResponse_RateLimit_HOUR, typev3.RateLimitUnit_HOUR},
	{60 * microsPerSecond, rlsv3.RateLimitResponse_RateLimit_MINUTE, typev3.RateLimitUnit_MINUTE},
	{microsPerSecond, rlsv3.RateLimitResponse_RateLimit_SECOND, typev3.RateLimitUnit_SECOND},
}

const envoyDay limit.Span = 24 * 3600 * microsPerSecond

// envoyUnitOf returns a limit's period in Envoy's units, which Envoy shows to clients, or UNKNOWN, which it does not
// show, if the limit has no period of whole seconds.
func envoyUnitOf(l *policy.Limit, window limit.Span) (unit rlsv3.RateLimitResponse_RateLimit_Unit, times uint32) {
	if l.Algorithm == limit.Calendar {
		return envoyCycles[l.Cycle.Unit], uint32(l.Cycle.Every)
	}
	for _, u := range envoyUnits {
		if window == u.span {
			return u.answer, 1
		}
	}
	for _, u := range envoyUnits {
		if n := window / u.span; u.span <= envoyDay && window > 0 && window%u.span == 0 && n <= math.MaxUint32 {
			return u.answer, uint32(n)
		}
	}
	return rlsv3.RateLimitResponse_RateLimit_UNKNOWN, 0
}

// envoyCycles maps the units of calendars.
var envoyCycles = map[limit.Unit]rlsv3.RateLimitResponse_RateLimit_Unit{
	limit.Minute: rlsv3.RateLimitResponse_RateLimit_MINUTE,
	limit.Hour:   rlsv3.RateLimitResponse_RateLimit_HOUR,
	limit.Day:    rlsv3.RateLimitResponse_RateLimit_DAY,
	limit.Week:   rlsv3.RateLimitResponse_RateLimit_WEEK,
	limit.Month:  rlsv3.RateLimitResponse_RateLimit_MONTH,
	limit.Year:   rlsv3.RateLimitResponse_RateLimit_YEAR,
}
