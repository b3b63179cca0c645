package calllog

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/observe/decisions"
)

func TestWhichCallsAreLogged(t *testing.T) {
	var text bytes.Buffer
	l := New(slog.New(slog.NewTextHandler(&text, nil)), time.Second, time.Now)
	for _, c := range []struct {
		call decisions.Event
		want string
	}{
		{decisions.Event{Method: "m", Code: "ok", Took: time.Second - 1}, ""},
		{decisions.Event{Method: "m", Code: "ok", Took: time.Second, Policy: "p", TraceID: "abc"},
			`level=WARN msg="a call was slow" method=m code=ok duration_us=1000000 policy=p trace_id=abc`},
		{decisions.Event{Method: "m", Code: "invalid_argument", Caller: "token:web"},
			`level=INFO msg="a call was refused" method=m code=invalid_argument duration_us=0 caller=token:web`},
		{decisions.Event{Method: "m", Code: "aborted", Failure: "why"},
			`level=WARN msg="a call failed" method=m code=aborted duration_us=0 reason=why`},
	} {
		text.Reset()
		l.Ended(&c.call)
		if got := text.String(); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s %v: %q", c.call.Code, c.call.Took, got)
		}
	}
	text.Reset()
	turned := decisions.Event{Method: "m", Code: "unauthenticated", TurnedAway: true}
	(*Log)(nil).Ended(&turned)
	l.Ended(&turned)
	New(slog.New(slog.NewTextHandler(&text, nil)), 0, nil).Ended(&decisions.Event{Code: "ok", Took: time.Hour})
	if text.Len() > 0 {
		t.Errorf("a call that was turned away, or one that is never slow, has a line: %s", text.String())
	}
}

// A flood of one kind is ten lines, and a number later; another kind has its own.
func TestAFloodIsBounded(t *testing.T) {
	var text bytes.Buffer
	now := time.Now()
	l := New(slog.New(slog.NewTextHandler(&text, nil)), 0, func() time.Time { return now })
	flood := func() int {
		text.Reset()
		for range 1000 {
			l.Ended(&decisions.Event{Method: "m", Code: "invalid_argument"})
		}
		return strings.Count(text.String(), "\n")
	}
	if got := flood(); got != linesMost {
		t.Errorf("%d lines", got)
	}
	l.Ended(&decisions.Event{Method: "m", Code: "unavailable"})
	if !strings.Contains(text.String(), "code=unavailable") {
		t.Error("a flood of one code keeps another out")
	}
	now = now.Add(linesPer)
	if got := flood(); got != linesMost || !strings.Contains(text.String(), "like_this_left_out=990") {
		t.Errorf("%d lines, then: %s", got, text.String())
	}
}
