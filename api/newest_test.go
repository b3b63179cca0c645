package api

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// strict is a shard that has adopted some version of the policies.
type strict struct {
	version uint64
	asked   []shard.Request
}

func (s *strict) Decide(_ context.Context, requests []shard.Request) []shard.Result {
	results := make([]shard.Result, len(requests))
	for i := range requests {
		s.asked = append(s.asked, requests[i])
		if requests[i].Revision < s.version {
			results[i].Err = &shard.Error{Code: shard.Outdated, Message: "older"}
			continue
		}
		results[i].Decision = shard.Decision{Allowed: true, Index: 1}
	}
	return results
}

// A request made from policies older than the shard's is made again once this node knows the newer ones. It fails, not
// counted, if the node does not learn them in time.
func TestARequestOfOlderPoliciesIsMadeAgain(t *testing.T) {
	entries := []*stintv1.Entry{{Policy: "product", Key: "acme/x"}}
	check := &stintv1.CheckRequest{Entries: entries}
	for name, ask := range map[string]func(ctx context.Context, s limitService) error{
		"check": func(ctx context.Context, s limitService) error { _, err := s.check(ctx, check); return err },
		"get": func(ctx context.Context, s limitService) error {
			_, err := s.get(ctx, &stintv1.GetRequest{Entries: entries})
			return err
		},
		"reserve": func(ctx context.Context, s limitService) error {
			_, err := s.reserve(ctx, &stintv1.ReserveRequest{Check: check})
			return err
		},
		"batch": func(ctx context.Context, s limitService) error {
			m, err := s.checkBatch(ctx, &stintv1.CheckBatchRequest{Checks: []*stintv1.CheckRequest{check, check}})
			for i, result := range m.GetResults() {
				if failure := result.GetFailure(); failure != nil {
					err = fmt.Errorf("check %d: %s", i, failure.Message)
				}
			}
			return err
		},
	} {
		for _, hears := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				var known atomic.Pointer[policy.Set]
				known.Store(testPolicies().At(1))
				decider := &strict{version: 2}
				s := limitService{&Config{
					Decider: decider,
					Revision: func() *policy.Revision {
						set := known.Load()
						return &policy.Revision{Set: set, Version: set.Version()}
					},
					Sealer: func() *shard.Sealer { return testSealer },
				}}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if hears {
					time.AfterFunc(300*time.Millisecond, func() { known.Store(familyPolicies().At(2)) })
				}
				err := ask(ctx, s)
				last := decider.asked[len(decider.asked)-1]
				switch {
				case !hears && err == nil:
					t.Errorf("%s: nobody told the node of the policies, and it was answered", name)
				case hears && (err != nil || last.Revision != 2 || len(last.Entries) != 2 ||
					last.Entries[1].Policy != "vendor"):
					t.Errorf("%s: %v; at last it asked %+v", name, err, last)
				}
			})
		}
	}
}
