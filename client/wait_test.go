package client_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/client"
)

// denying answers the first checks with a denial each, and the others with an admission. It records their ids.
func denying(n *fakeNode, ids *[]string, denials int, retryAfter *durationpb.Duration) {
	n.answer = func(r *stintv1.CheckRequest) *stintv1.Result {
		*ids = append(*ids, r.IdempotencyId)
		d := &stintv1.Decision{Allowed: len(*ids) > denials}
		if !d.Allowed {
			d.RetryAfter = retryAfter
		}
		return &stintv1.Result{Result: &stintv1.Result_Decision{Decision: d}}
	}
}

func TestWaitEndsWithAnAdmission(t *testing.T) {
	n := startNode(t)
	own(n)
	var ids []string
	denying(n, &ids, 2, durationpb.New(time.Millisecond))
	d, err := start(t, n.url).Wait(t.Context(), client.Entry("api", "k"))
	if err != nil || !d.Allowed || len(ids) != 3 {
		t.Fatalf("%v %v after %d checks, want an admission by the third", d, err, len(ids))
	}
	slices.Sort(ids)
	if ids[0] == "" || len(slices.Compact(ids)) != 3 {
		t.Errorf("the ids %q: each check needs one of its own, or its denial is repeated", ids)
	}
}

func TestWaitReturnsADenialThatOutlastsIt(t *testing.T) {
	bounded, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	for name, after := range map[string]*durationpb.Duration{"no wait helps": nil,
		"the wait is too long": durationpb.New(2 * time.Hour)} {
		n := startNode(t)
		own(n)
		var ids []string
		denying(n, &ids, 1, after)
		if d, err := start(t, n.url).Wait(bounded, client.Entry("api", "k")); err != nil || d.Allowed || len(ids) != 1 {
			t.Errorf("%s: %v %v after %d checks, want the denial", name, d, err, len(ids))
		}
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	n := startNode(t)
	own(n)
	ctx, cancel := context.WithCancel(t.Context())
	n.answer = func(*stintv1.CheckRequest) *stintv1.Result {
		cancel()
		return &stintv1.Result{Result: &stintv1.Result_Decision{
			Decision: &stintv1.Decision{RetryAfter: durationpb.New(time.Hour)}}}
	}
	// If the answer has not come when ctx ends, it is an error.
	if d, err := start(t, n.url).Wait(ctx, client.Entry("api", "k")); d.GetAllowed() || (d == nil) != (err != nil) {
		t.Errorf("%v %v, want the denial, or an error", d, err)
	}
}

func TestWaitDrawsTheIds(t *testing.T) {
	r := client.Entry("api", "k")
	r.IdempotencyId = "mine"
	var failure *client.Error
	if _, err := start(t, "http://127.0.0.1:1").Wait(t.Context(), r); !errors.As(err, &failure) ||
		failure.Code != "invalid_argument" {
		t.Errorf("%v, want invalid_argument", err)
	}
}
