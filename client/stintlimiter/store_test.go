package stintlimiter_test

import (
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	limiter "github.com/sethvargo/go-limiter"
	"github.com/sethvargo/go-limiter/httplimit"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/client"
	"github.com/stint-io/stint/client/stintlimiter"
	"github.com/stint-io/stint/stinttest"
)

const policies = `
policies:
  per-ip:
    limits:
      - {name: day, quota: 3, sliding_log: {period: 24h}}
      - {name: week, quota: 10, sliding_log: {period: 168h}}
  slow:
    limits:
      - {name: bucket, quota: 1, token_bucket: {refill: 1, per: 36500d}}
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
		at.Before(begun.Add(24*time.Hour)) || at.After(server.Now().Add(24*time.Hour+time.Second)) {
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

// A header has whole seconds, and what lasts for centuries has no instant in nanoseconds.
func TestNoRequestIsToldToComeTooEarly(t *testing.T) {
	ctx := t.Context()
	server := stinttest.Start(t, policies)
	if _, err := server.Client().Adjust(ctx, &stintv1.AdjustRequest{Policy: "slow", Key: "key",
		Op: &stintv1.AdjustRequest_SetUsed{SetUsed: 9}}); err != nil {
		t.Fatal(err)
	}
	_, _, reset, ok, err := stintlimiter.New(server.Client(), "slow").Take(ctx, "key")
	if ok || err != nil || reset != math.MaxInt64 {
		t.Errorf("denied for centuries: %v, %v, until %d", ok, err, reset)
	}
	store := stintlimiter.New(server.Client(), "per-ip")
	for range 4 {
		_, _, reset, ok, err := store.Take(ctx, "key")
		if err != nil || reset%uint64(time.Second) != 0 {
			t.Errorf("allowed is %v, %v, until %d, which a header cannot tell", ok, err, reset)
		}
	}
}

// A client may have written the key, as in IPKeyFunc("X-Forwarded-For"): it chooses no shard with it, and names no key
// of others.
func TestAKeyFromOutsideIsEscaped(t *testing.T) {
	ctx := t.Context()
	server := stinttest.Start(t, policies)
	store := stintlimiter.New(server.Client(), "per-ip")
	long := strings.Repeat("x", 600)
	for key, kept := range map[string]string{"{a}b": "%7Ba%7Db", "2001:db8::1": "2001:db8::1", long: ""} {
		if _, _, _, ok, err := store.Take(ctx, key); !ok || err != nil {
			t.Errorf("%.20q: %v, %v", key, ok, err)
		}
		if _, left, err := store.Get(ctx, key); left != 2 || err != nil {
			t.Errorf("%.20q: %d left, %v", key, left, err)
		}
		if err := store.Burst(ctx, key, 1); err != nil {
			t.Errorf("%.20q: %v", key, err)
		}
		if _, left, err := store.Get(ctx, key); left != 3 || err != nil {
			t.Errorf("%.20q: %d left, %v, after a burst", key, left, err)
		}
		if kept == "" {
			continue
		}
		if _, err := server.Client().Check(ctx, client.Entry("per-ip", kept)); err != nil {
			t.Fatal(err)
		}
		if _, left, err := store.Get(ctx, key); left != 2 || err != nil {
			t.Errorf("%.20q is not %q: %d left, %v", key, kept, left, err)
		}
	}
	if _, _, _, ok, err := store.Take(ctx, ""); ok || err == nil {
		t.Errorf("no key: %v, %v", ok, err)
	}
}
