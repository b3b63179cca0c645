package gates

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/policy"
)

// A gate answers a challenge with 403 and its code, also with a body of the operator's for denials; with ?deny=403 a
// header tells it from the others.
func TestAGateAsksForAChallenge(t *testing.T) {
	for _, masked := range []bool{false, true} {
		for _, own := range []*policy.GateBody{nil, {ContentType: "text/plain", Body: "no"}} {
			w := httptest.NewRecorder()
			(&answer{w: w, masked: masked, denied: own}).
				deny(&stintv1.Decision{Outcome: stintv1.Outcome_OUTCOME_CHALLENGE})
			var p problem
			if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
				t.Fatal(err)
			}
			h := w.Header()
			if w.Code != http.StatusForbidden || p.Code != "challenge" || p.Type != problemChallenge ||
				p.Status != http.StatusForbidden ||
				h.Get("X-Stint-Outcome") != "challenge" || h.Get("Content-Type") != "application/problem+json" ||
				masked && h.Get("X-Stint-Status") != "403" {
				t.Errorf("masked %v: %d %v %s", masked, w.Code, h, w.Body)
			}
			w = httptest.NewRecorder()
			(&answer{w: w, masked: masked, denied: own}).
				deny(&stintv1.Decision{Outcome: stintv1.Outcome_OUTCOME_DENIED})
			if h := w.Header(); h.Get("X-Stint-Outcome") != "" || strings.Contains(w.Body.String(), `"code"`) ||
				masked && h.Get("X-Stint-Status") != "429" {
				t.Errorf("a denial, masked %v: %d %v %s", masked, w.Code, h, w.Body)
			}
		}
	}
}

// A body of JSON stays JSON, whatever the reason of the policy is, and if no wait helps.
func TestADeniedBodyOfJSONStaysJSON(t *testing.T) {
	own := &policy.GateBody{ContentType: "application/Problem+JSON", Body: `{"why":"{reason}","wait":{retry_after}}`}
	for _, reason := range []string{"", "Wait a little.", `no more "logins"`, `"`, `a\`, "{retry_after}"} {
		for wait, headers := range map[any]map[string]string{7.0: {"Retry-After": "7"}, nil: nil} {
			w := httptest.NewRecorder()
			(&answer{w: w, denied: own}).deny(&stintv1.Decision{Reason: reason, Headers: headers})
			var got map[string]any
			err := json.Unmarshal(w.Body.Bytes(), &got)
			if err != nil || got["why"] != reason || got["wait"] != wait {
				t.Errorf("%q, wait %v: %s: %v", reason, wait, w.Body, err)
			}
		}
	}
}

func TestAMaskedBodyIsOneLine(t *testing.T) {
	for _, before := range []string{"a\nb\r\x00", "a\nb\r"} { // the cut is between two characters, or within one
		if got := oneLine(before + strings.Repeat("é", 1000)); len(got) > maskedBytesMax ||
			strings.ContainsAny(got, "\r\n\x00") {
			t.Errorf("%d bytes: %q", len(got), got)
		}
	}
}
