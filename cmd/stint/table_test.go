package main

import (
	"bytes"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

// Waits have one precision side by side, and none is shown shorter than it is.
func TestATableRoundsWaitsUp(t *testing.T) {
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	wait := 23*time.Hour + 59*time.Minute + 59*time.Second + 868_355*time.Microsecond
	limits := []*stintv1.LimitStatus{
		{Policy: "a", Limit: "l", Used: 5, Quota: 5, ResetAt: timestamppb.New(noon.Add(wait)),
			RetryAfter: durationpb.New(wait)},
		{Policy: "b", Limit: "l", Used: 5, Quota: 5, ResetAt: timestamppb.New(noon.Add(2 * time.Second)),
			RetryAfter: durationpb.New(time.Microsecond)},
	}
	var out bytes.Buffer
	if printLimits(streams{out: &out}, limits, timestamppb.New(noon), true); out.String() !=
		`LIMIT  USED  QUOTA  REMAINING  NEXT              AT REST
a/l    5     5      0          in 23h59m59.869s  in 23h59m59.869s  [####################]
b/l    5     5      0          in 1ms            in 2s             [####################]
` {
		t.Errorf("%s", out.String())
	}
}

// When the same request is admitted is not when nothing counts any longer: a denial shows both.
func TestATableOfADenialSaysWhenTheSameIsAdmitted(t *testing.T) {
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	reset := timestamppb.New(noon.Add(time.Hour))
	limits := []*stintv1.LimitStatus{
		{Policy: "api", Limit: "burst", Used: 5, Quota: 5, ResetAt: reset,
			RetryAfter: durationpb.New(12 * time.Minute)},
		{Policy: "api", Limit: "day", Used: 5, Quota: 100, Remaining: 95, Allowed: true, ResetAt: reset},
		{Policy: "api", Limit: "ever", Used: 9, Quota: 9},
		{Policy: "api", Limit: "all", Used: 9, Unlimited: true, Allowed: true},
	}
	for _, c := range []struct {
		limits []*stintv1.LimitStatus
		denied bool
		want   string
	}{
		{limits, true, `LIMIT      USED  QUOTA      REMAINING  NEXT    AT REST
api/burst  5     5          0          in 12m  in 1h  [####################]
api/day    5     100        95         now     in 1h  [#...................]
api/ever   9     9          0          never   never  [####################]
api/all    9     unlimited             now     never  
`},
		{limits[2:3], true, `LIMIT     USED  QUOTA  REMAINING  NEXT   AT REST
api/ever  9     9      0          never  never  [####################]
`},
		// A count of what has happened has no room either, and is denied nothing.
		{limits[2:3], false, `LIMIT     USED  QUOTA  REMAINING  AT REST
api/ever  9     9      0          never  [####################]
`},
		{limits[1:2], false, `LIMIT    USED  QUOTA  REMAINING  AT REST
api/day  5     100    95         in 1h  [#...................]
`},
	} {
		var out bytes.Buffer
		if printLimits(streams{out: &out}, c.limits, timestamppb.New(noon), c.denied); out.String() != c.want {
			t.Errorf("%s", out.String())
		}
	}
}
