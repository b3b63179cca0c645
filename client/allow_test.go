package client_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/client"
)

func TestAllowAnswersByTheLimitWithLeastLeft(t *testing.T) {
	limits := []*stintv1.LimitStatus{{Quota: 9, Remaining: 8}, {Quota: 5, Remaining: 3}, {Quota: 1, Shadow: true},
		{Quota: 2, Unlimited: true}}
	for name, test := range map[string]struct {
		decision *stintv1.Decision
		want     client.Answer
	}{
		"allowed": {&stintv1.Decision{Allowed: true, Limits: limits},
			client.Answer{Allowed: true, Quota: 5, Remaining: 3}},
		"no limits": {&stintv1.Decision{Allowed: true, Limits: limits[2:]}, client.Answer{Allowed: true}},
		"blocked":   {&stintv1.Decision{Limits: limits}, client.Answer{Quota: 5, RetryAfter: -1}},
		"denied":    {&stintv1.Decision{RetryAfter: durationpb.New(time.Second)}, client.Answer{RetryAfter: time.Second}},
		"no wait helps": {
			&stintv1.Decision{},
			client.Answer{RetryAfter: -1}},
	} {
		n := startNode(t)
		own(n)
		n.answer = func(r *stintv1.CheckRequest) *stintv1.Result {
			if e := r.Entries; r.IdempotencyId == "" || len(e) != 1 || e[0].Policy != "api" || e[0].Key != "k" {
				t.Errorf("asked %v", r)
			}
			return &stintv1.Result{Result: &stintv1.Result_Decision{Decision: test.decision}}
		}
		if got, err := start(t, n.url).Allow(t.Context(), "api", "k"); err != nil || got != test.want {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, test.want)
		}
	}
	got, err := start(t, "http://127.0.0.1:1").Allow(t.Context(), "", "")
	if err == nil || got.Allowed {
		t.Errorf("without a decision: %+v, %v", got, err)
	}
}
