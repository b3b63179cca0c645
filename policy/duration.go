package policy

import (
	"fmt"
	"math"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/stint-io/stint/limit"
)

// spanMax is the longest duration that a file can express: 292 years, the most that a time.Duration holds.
const spanMax = limit.Span(math.MaxInt64 / int64(time.Microsecond))

const day = 24 * time.Hour

const minute, hour limit.Span = 60 * 1_000_000, 3600 * 1_000_000

// ParseDuration reads a duration in the form of time.ParseDuration (90s, 2h30m), with weeks and days before it, as in
// 90d, 2w or 1d12h. A day is 24 hours. The most is 292 years, as for a time.Duration.
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
		if err != nil || time.Duration(n) > (math.MaxInt64-length)/unit.is {
			return 0, fmt.Errorf("%q is no duration: write it as 90s, 2h30m or 90d", text)
		}
		length, rest = length+time.Duration(n)*unit.is, after
	}
	if rest == "" && length > 0 {
		return sign * length, nil
	}
	small, err := time.ParseDuration(rest)
	if err != nil || small < 0 || length > math.MaxInt64-small {
		return 0, fmt.Errorf("%q is no duration: write it as 90s, 2h30m or 90d", text)
	}
	return sign * (length + small), nil
}

func duration(s limit.Span) time.Duration { return time.Duration(s) * time.Microsecond }

// SpanText returns a length of time exactly, in the form of a policies file: the form of time.Duration, but without
// trailing zero units and in ASCII, such as 24h instead of 24h0m0s, and 5us.
func SpanText(s limit.Span) string {
	if s > spanMax {
		return strconv.FormatInt(int64(s), 10) + "us"
	}
	text := (time.Duration(s) * time.Microsecond).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return strings.Replace(text, "µ", "u", 1)
}

const aDuration = "a duration such as 90s, 2h30m or 30d"

// spanKind is a duration: a multiple of the tag step, and at most the tag max.
func spanKind(tag reflect.StructTag) kind {
	step, most := spanBound(tag, "step", 1), spanBound(tag, "max", spanMax)
	least := "at least 1us"
	if step > 1 {
		least = "a multiple of " + tag.Get("step")
	}
	return kind{
		read: func(d *decoder, v value, into reflect.Value) {
			length, err := ParseDuration(v.node.Value)
			switch s := limit.Span(length.Microseconds()); {
			case v.node.Kind == yaml.ScalarNode && err != nil && durationForm.MatchString(v.node.Value):
				d.fail(v.path, "is more than 292 years")
			case v.node.Kind != yaml.ScalarNode || err != nil:
				d.refuse(v, aDuration)
			case length <= 0:
				d.fail(v.path, "must be more than 0, not %v", length)
			case length%time.Microsecond != 0:
				d.fail(v.path, "must be whole microseconds, not %v", length)
			case s%step != 0 || s > most:
				d.fail(v.path, "must be %s and at most %s%s", least, tag.Get("max"), hint(tag))
			default:
				into.SetInt(int64(s))
			}
		},
		node:   func(of reflect.Value, _ bool) *yaml.Node { return scalar(SpanText(limit.Span(of.Int())), false) },
		schema: jsonSchema{"type": "string", "pattern": durationForm.String(), "minLength": 1},
	}
}

// durationForm is the form of a duration, however long it is.
var durationForm = regexp.MustCompile(`^([0-9]+w)?([0-9]+d)?\+?(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))*$`)

// spanBound returns a tag's duration.
func spanBound(tag reflect.StructTag, key string, otherwise limit.Span) limit.Span {
	if length, err := ParseDuration(tag.Get(key)); err == nil {
		return limit.Span(length.Microseconds())
	}
	return otherwise
}
