package inbound_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/client"
	"github.com/stint-io/stint/client/stinthttp"
)

// noMajority is a Checker without a decision.
type noMajority struct{}

func (noMajority) Check(context.Context, *stintv1.CheckRequest) (*stintv1.Decision, error) {
	return nil, &client.Error{Code: "unavailable", Message: "no majority"}
}

// A script of another origin reads only the headers that a response exposes: how long to wait is one of them, also
// where there was no decision.
func TestScriptsMayReadHowLongToWait(t *testing.T) {
	key := func(*http.Request) (string, error) { return "k", nil }
	limit := stinthttp.Limit(noMajority{}, stinthttp.Entry("p", key))
	w := httptest.NewRecorder()
	limit(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "1" ||
		w.Header().Get("Access-Control-Expose-Headers") != "Retry-After" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
}
