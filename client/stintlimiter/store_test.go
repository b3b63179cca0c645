package stintlimiter_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	limiter "github.com/sethvargo/go-limiter"
	"github.com/sethvargo/go-limiter/httplimit"

	"github.com/stint-io/stint/client/stintlimiter"
	"github.com/stint-io/stint/stinttest"
)

const policies = `
policies:
  per-ip:
    limits:
      - {name: day, quota: 3, sliding_log: {period: 24h}}
      - {name: week, quota: 10, sliding_log: {period: 168h}}
`

// The middleware of go-limiter asks the store: so its interface and what it does with the answers are the library's.
func TestTheMiddlewareOfGoLimiterAdmitsWhatThePolicySays(t *testing.T) {
	server := stinttest.Start(t, policies)
	store := stintlimiter.New(server.Client(), "per-ip")
	middleware, err := httplimit.NewMiddleware(store, httplimit.IPKeyFunc())
	if err != nil {
		t.Fatal(err)
	}
	handler := middleware.Handle(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
	}))
	ask := func() *http.Response {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		return w.Result()
	}
	begun := server.Now()
	for _, left := range []string{"2", "1", "0"} {
		r := ask()
		if r.StatusCode != http.StatusNoContent || r.Header.Get(httplimit.HeaderRateLimitRemaining) != left {
			t.Fatalf("status %d, %v; %s should be left", r.StatusCode, r.Header, left)
		}
	}
	denied := ask()
	at, err := time.Parse(time.RFC1123, denied.Header.Get(httplimit.HeaderRetryAfter))
	if denied.StatusCode != http.StatusTooManyRequests || err != nil ||
		at.Before(begun.Add(24*time.Hour-time.Second)) || at.After(server.Now().Add(24*time.Hour)) {
		t.Fatalf("status %d, retry after %v (%v): it should be denied until the first is a day old",
			denied.StatusCode, at, err)
	}
	if denied.Header.Get(httplimit.HeaderRateLimitLimit) != "3" {
		t.Fatalf("%v: the limit should be that of the day", denied.Header)
	}
	server.Advance(24 * time.Hour)
	if r := ask(); r.StatusCode != http.StatusNoContent {
		t.Fatalf("status %d on the next day", r.StatusCode)
	}
}

func TestGetChangesNothingAndBurstGivesBack(t *testing.T) {
	ctx := t.Context()
	var store limiter.Store = stintlimiter.New(stinttest.Start(t, policies).Client(), "per-ip")
	left := func() uint64 {
		t.Helper()
		quota, remaining, err := store.Get(ctx, "key")
		if err != nil || quota != 3 {
			t.Fatal(quota, err)
		}
		return remaining
	}
	for range 2 {
		if _, _, _, ok, err := store.Take(ctx, "key"); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	if got := left(); got != 1 {
		t.Fatalf("%d left of 3 after 2", got)
	}
	if got := left(); got != 1 {
		t.Fatalf("%d left: a look has changed it", got)
	}
	if err := store.Burst(ctx, "key", 0); err != nil || left() != 1 {
		t.Fatalf("%d left, %v, after a burst of nothing", left(), err)
	}
	if err := store.Burst(ctx, "key", 1); err != nil || left() != 2 {
		t.Fatalf("%d left, %v, after 1 came back", left(), err)
	}
	if err := store.Burst(ctx, "key", 5); err != nil || left() != 3 {
		t.Fatalf("%d left, %v, after more came back than was used", left(), err)
	}
	if err := store.Set(ctx, "key", 5, time.Minute); !errors.Is(err, errors.ErrUnsupported) {
		t.Fatalf("%v: the limits are the policy's", err)
	}
	if err := store.Close(ctx); err != nil || left() != 3 {
		t.Fatalf("%v: the client is not the store's", err)
	}
}
