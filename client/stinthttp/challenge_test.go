package stinthttp_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/client/stinthttp"
)

// challenging is a cluster that challenges every request.
type challenging struct{}

func (challenging) Check(context.Context, *stintv1.CheckRequest) (*stintv1.Decision, error) {
	return &stintv1.Decision{Outcome: stintv1.Outcome_OUTCOME_CHALLENGE, Reason: "Are you a robot?",
		DeniedBy: []string{"login/challenge"}}, nil
}

func TestAChallengeIsAnsweredWithItsCode(t *testing.T) {
	key := func(*http.Request) (string, error) { return "k", nil }
	var seen stintv1.Outcome
	own := func(w http.ResponseWriter, _ *http.Request, d *stintv1.Decision) {
		seen = d.GetOutcome()
		w.WriteHeader(http.StatusTeapot)
	}
	ask := func(options ...stinthttp.Option) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		handler := stinthttp.Limit(challenging{}, append(options, stinthttp.Entry("login", key))...)
		handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it passes") })).
			ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		return w
	}
	w := ask()
	var body map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || w.Code != http.StatusForbidden ||
		body["code"] != "challenge" || body["type"] != "urn:stint:problem:challenge" ||
		body["detail"] != "Are you a robot?" || body["status"] != 403.0 {
		t.Errorf("%d %v, %v", w.Code, body, err)
	}
	if w := ask(stinthttp.OnDenied(own)); w.Code != http.StatusTeapot || seen != stintv1.Outcome_OUTCOME_CHALLENGE {
		t.Errorf("OnDenied: %d, sees %v", w.Code, seen)
	}
}
