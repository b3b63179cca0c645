package calllog

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestWhichCallsAreLogged(t *testing.T) {
	var text bytes.Buffer
	l := New(slog.New(slog.NewTextHandler(&text, nil)), time.Second, time.Now)
	for _, c := range []struct {
		call Call
		want string
	}{
		{Call{Method: "m", Code: "ok", Took: time.Second - 1}, ""},
		{Call{Method: "m", Code: "ok", Took: time.Second, Policy: "p", Trace: "abc"}, `level=WARN msg="a call was slow" method=m code=ok duration_us=1000000 policy=p trace_id=abc`},
		{Call{Method: "m", Code: "invalid_argument", Caller: "token:web"}, `level=INFO msg="a call was refused" method=m code=invalid_argument duration_us=0 caller=token:web`},
		{Call{Method: "m", Code: "aborted", Reason: "why"}, `level=WARN msg="a call failed" method=m code=aborted duration_us=0 reason=why`},
	} {
		text.Reset()
		l.Ended(c.call)
		if got := text.String(); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%+v: %q", c.call, got)
		}
	}
	if (*Log)(nil).Worth("aborted", time.Hour) || New(nil, 0, nil).Worth("ok", time.Hour) {
		t.Error("a log that is off wants lines")
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
			l.Ended(Call{Method: "m", Code: "invalid_argument"})
		}
		return strings.Count(text.String(), "\n")
	}
	if got := flood(); got != linesMost {
		t.Errorf("%d lines", got)
	}
	l.Ended(Call{Method: "m", Code: "unavailable"})
	if !strings.Contains(text.String(), "code=unavailable") {
		t.Error("a flood of one code keeps another out")
	}
	now = now.Add(linesPer)
	if got := flood(); got != linesMost || !strings.Contains(text.String(), "like_this_left_out=990") {
		t.Errorf("%d lines, then: %s", got, text.String())
	}
	for i := range 2 * codesMost {
		l.Ended(Call{Method: "m", Code: strings.Repeat("x", i+1)})
	}
	if len(l.told) > codesMost+1 {
		t.Errorf("%d codes are remembered", len(l.told))
	}
}
