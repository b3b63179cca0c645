package policy_test

import (
	"testing"
	"time"

	"github.com/stint-io/stint/policy"
)

func TestDurationsOfDays(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"90d": 90 * day, "2w": 14 * day, "1w2d": 9 * day, "1d12h": 36 * time.Hour, "2h30m": 150 * time.Minute,
		"90s": 90 * time.Second, "1.5h": 90 * time.Minute, "-5s": -5 * time.Second, "0": 0,
		"106751d": 106751 * day,
	} {
		if got, err := policy.ParseDuration(text); err != nil || got != want {
			t.Errorf("%q is %v (%v), want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "d", "90", "1.5d", "-", "d1", "1d-1h", "--5s", "1d2w", "99999999999d", "106752d",
		"15000w2562047h", "15250w2d", "tomorrow"} {
		if got, err := policy.ParseDuration(text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}
