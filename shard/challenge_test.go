package shard

import (
	"encoding/hex"
	"testing"

	"github.com/stint-io/stint/limit"
)

// A denial is a challenge only if every limit that denies is soft and no block denies.
func TestADenialIsAChallengeIfOnlySoftLimitsDeny(t *testing.T) {
	soft, hard := LimitStatus{Soft: true}, LimitStatus{}
	roomy := LimitStatus{Verdict: limit.Verdict{Allowed: true}}
	blocked, shadow, softShadow := roomy, hard, soft
	blocked.Blocked, shadow.Shadow, softShadow.Shadow = true, true, true
	for name, c := range map[string]struct {
		limits []LimitStatus
		want   bool
	}{
		"a soft one":                       {[]LimitStatus{soft}, true},
		"a soft one beside room":           {[]LimitStatus{roomy, soft}, true},
		"two soft ones of two entries":     {[]LimitStatus{soft, soft}, true},
		"a soft one beside a shadow":       {[]LimitStatus{soft, shadow}, true},
		"a hard one":                       {[]LimitStatus{hard}, false},
		"a soft and a hard one":            {[]LimitStatus{soft, hard}, false},
		"a soft one and a block":           {[]LimitStatus{soft, blocked}, false},
		"only a soft one that is shadowed": {[]LimitStatus{softShadow}, false},
		"none":                             {nil, false},
	} {
		if d := (&Decision{Limits: c.limits}); d.Challenged() != c.want {
			t.Errorf("%s: challenged is %v", name, !c.want)
		}
		if d := (&Decision{Limits: c.limits, Allowed: true}); d.Challenged() {
			t.Errorf("%s, allowed: challenged", name)
		}
	}
}

// These bytes are stored in users' logs: a status of a soft limit in the record of an id.
func TestGoldenBytesOfASoftLimit(t *testing.T) {
	r := &Request{Op: Check, Namespace: "default", ID: "first", Entries: []Entry{{Policy: "p", Key: "k", Cost: 3}}}
	d := &Decision{DecidedAt: origin, Position: Position{3, 300, 7}, Index: 1, RetryAfter: limit.Never,
		Limits: []LimitStatus{
			{Policy: "p", Key: "k", Limit: "soft", Quota: 1, Soft: true,
				Verdict: limit.Verdict{Used: 1, RetryAfter: limit.Never}},
			{Policy: "p", Key: "k", Limit: "hard", Quota: 2,
				Verdict: limit.Verdict{Used: 1, Remaining: 1, RetryAfter: limit.Never}}}}
	value := encodeAnswer(r, d)
	const want = "0109392835f5015b530000018080eed797e6a30603ac02070102400004736f6674010100000001000004080468617264020101000001"
	if got := hex.EncodeToString(value); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	got, _, err := decodeAnswer(value, r)
	if err != nil || !got.Limits[0].Soft || got.Limits[1].Soft {
		t.Errorf("came back as %+v, %v", got, err)
	}
}
