package api

import (
	"encoding/binary"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
	"github.com/stint-io/stint/shard"
)

// The codes of S9, and the fate and retry delay of each.
func TestErrorCodes(t *testing.T) {
	for _, c := range []struct {
		failure      shard.Error
		status       int
		code         string
		maybeApplied bool
		retryAfter   string
		retryDelay   string
	}{
		{shard.Error{Code: shard.Invalid, Field: "entries[0].tier"}, 400, "invalid_argument", false, "", ""},
		{shard.Error{Code: shard.PolicyNotFound, Field: "entries[0].policy"}, 404, "not_found", false, "", ""},
		{shard.Error{Code: shard.IDReused}, 409, "already_exists", false, "", ""},
		{shard.Error{Code: shard.IDExpired}, 400, "failed_precondition", false, "", ""},
		{shard.Error{Code: shard.TooLate}, 400, "failed_precondition", false, "", ""},
		{shard.Error{Code: shard.NotOwner}, 503, "unavailable", false, "1", "0.100s"},
		{shard.Error{Code: shard.Overloaded, RetryAfter: 2_000_001}, 503, "unavailable", false, "3", "2.000001s"},
		{shard.Error{Code: shard.Draining}, 503, "unavailable", false, "1", "0.100s"},
		{shard.Error{Code: shard.Unavailable}, 503, "unavailable", false, "1", "0.100s"},
		{shard.Error{Code: shard.MemoryFull}, 503, "unavailable", false, "1", "0.100s"},
		{shard.Error{Code: shard.NotBuilt, Field: "entries[1].key"}, 501, "unimplemented", false, "", ""},
		{shard.Error{Code: shard.Conflict}, 400, "failed_precondition", false, "", ""},
		{shard.Error{Code: shard.HoldEnded, Field: "hold_id"}, 400, "failed_precondition", false, "", ""},
		{shard.Error{Code: shard.OverQuota, Field: "commit.actual_cost[0]"}, 400, "failed_precondition", false, "", ""},
		{shard.Error{Code: shard.SessionGone}, 503, "unavailable", false, "1", "0.100s"},
		{shard.Error{Code: shard.UnknownOutcome}, 409, "aborted", true, "", ""},
		{shard.Error{Code: 200}, 500, "internal", true, "", ""},
	} {
		w := newWorld(t)
		c.failure.Message = "something failed"
		w.decider.decide = fail(&c.failure)
		status, header, body := w.post("LimitService/Check", perIP)
		e, f := readError(t, body)
		if status != c.status || e.Code != c.code || f.Code != c.code || f.MaybeApplied != c.maybeApplied {
			t.Errorf("shard code %d: %d %s %+v", c.failure.Code, status, e.Code, f)
		}
		if e.Message != c.failure.Error() || f.Message != e.Message {
			t.Errorf("shard code %d: message %q, %q", c.failure.Code, e.Message, f.Message)
		}
		if header.Get("Retry-After") != c.retryAfter || retryDelayOf(t, e) != c.retryDelay {
			t.Errorf("shard code %d: Retry-After %q, RetryInfo %q",
				c.failure.Code, header.Get("Retry-After"), retryDelayOf(t, e))
		}
		if seen := w.observer.seen(); !slices.Equal(seen, []string{"request Check " + c.code}) {
			t.Errorf("shard code %d: observed %q", c.failure.Code, seen)
		}
	}
}

func retryDelayOf(t *testing.T, e wireError) string {
	t.Helper()
	for _, d := range e.Details {
		if d.Type == "google.rpc.RetryInfo" {
			var info struct{ RetryDelay string }
			if err := json.Unmarshal(d.Debug, &info); err != nil {
				t.Fatal(err)
			}
			return info.RetryDelay
		}
	}
	return ""
}

// An Adjust has no list of entries, so its errors mention none.
func TestAdjustNamesItsOwnFields(t *testing.T) {
	w := newWorld(t)
	w.decider.decide = fail(&shard.Error{Code: shard.PolicyNotFound, Field: "entries[0].policy",
		Message: "no such policy"})
	_, _, body := w.post("LimitService/Adjust", `{"policy":"nobody","key":"k","reset":{}}`)
	if e, _ := readError(t, body); e.Code != "not_found" || e.Message != "policy: no such policy" {
		t.Errorf("got %s: %s", e.Code, e.Message)
	}
}

// A deadline that has passed before the request is handed on is reported as such: nothing was counted.
func TestExpiredDeadline(t *testing.T) {
	w := newWorld(t)
	r, err := http.NewRequest("POST", w.url+stintv1connect.LimitServiceCheckProcedure, strings.NewReader(perIP))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Connect-Timeout-Ms", "0")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var e wireError
	if err := json.NewDecoder(response.Body).Decode(&e); err != nil {
		t.Fatal(err)
	}
	if e.Code != "deadline_exceeded" || len(e.Details) != 1 || len(w.decider.requests()) != 0 {
		t.Errorf("got %+v after %d requests", e, len(w.decider.requests()))
	}
}

// A gRPC message that is too large, or claims to be, is an invalid argument and not resource_exhausted.
func TestLargeMessagesOfGRPC(t *testing.T) {
	w := newWorld(t)
	big := aCheck()
	big.Entries[0].Key = strings.Repeat("k", bodyBytesMax)
	for name, option := range map[string]connect.ClientOption{
		"gRPC": connect.WithGRPC(), "gRPC-Web": connect.WithGRPCWeb(), "Connect": connect.WithClientOptions(),
	} {
		transport := &http.Transport{Protocols: new(http.Protocols)}
		transport.Protocols.SetUnencryptedHTTP2(true)
		client := stintv1connect.NewLimitServiceClient(&http.Client{Transport: transport}, w.url, option)
		_, err := client.Check(t.Context(), connect.NewRequest(big))
		transport.CloseIdleConnections()
		if connect.CodeOf(err) != connect.CodeInvalidArgument || !strings.Contains(err.Error(), "1048576") {
			t.Errorf("%s: %v", name, err)
		}
	}
	liar := binary.BigEndian.AppendUint32([]byte{0}, 1<<31)
	_, header, _ := w.do("POST", stintv1connect.LimitServiceCheckProcedure, "application/grpc-web+proto",
		string(liar)+"short")
	if code := header.Get("Grpc-Status"); code == "8" {
		t.Error("a promise of 2 GiB is answered resource_exhausted")
	}
}
