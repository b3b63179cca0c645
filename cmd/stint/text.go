package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/stint-io/stint/api"
)

// plural returns "1 shard" or "3 shards".
func plural[N int | uint32 | uint64](n N, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func numberList(numbers []uint32) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(numbers), " ", ", "), "[]")
}

func dash(text string) string { return cmp.Or(text, "-") }

// instant formats a time for display.
func instant(t *timestamppb.Timestamp) string { return t.AsTime().UTC().Format(time.RFC3339) }

// instantOr is instant for a time that may be absent.
func instantOr(t *timestamppb.Timestamp, absent string) string {
	if t == nil {
		return absent
	}
	return instant(t)
}

// centuries is a wait of which no end is told: a longer one may be more than a time.Duration holds.
const centuries = 290 * 365 * day

const centuriesText = "more than 290 years"

// waitText formats a wait in milliseconds, rounded up, so that no retry is too early.
func waitText(d time.Duration) string {
	if d > centuries { //mutant:endless-wait-is-over
		return centuriesText
	}
	return api.DurationText((d + time.Millisecond - 1).Truncate(time.Millisecond))
}

func micros(n int64) string { return (time.Duration(n) * time.Microsecond).String() }

// millis formats microseconds, rounded for readers.
func millis(micros int64) string {
	d := time.Duration(micros) * time.Microsecond
	if d >= 10*time.Millisecond {
		d = d.Round(time.Millisecond)
	} else {
		d = d.Round(10 * time.Microsecond)
	}
	return d.String()
}
