package hop

import (
	"testing"

	"github.com/stint-io/stint/shard"
)

// What travels of a trace is its ids.
func TestARequestIsFollowedOverAHop(t *testing.T) {
	sent := check("k")
	at := shard.TraceContext{ID: [16]byte{1, 15: 2}, Span: [8]byte{3, 7: 4}}
	sent.Trace = receivedTrace(at)
	calls, err := decodeCalls(callsFrame(t, 1, 0, sent, check("l"))[frameHead+1:])
	if err != nil {
		t.Fatal(err)
	}
	if got := calls[0].requests; got[0].Trace == nil || got[0].Trace.Context() != at || got[1].Trace != nil {
		t.Errorf("%+v", got)
	}
}

// A trace that is none fails its request alone.
func TestATraceThatIsNoneIsUnreadable(t *testing.T) {
	good := string(appendTrace(nil, shard.TraceContext{ID: [16]byte{1}, Span: [8]byte{2}}))
	for name, text := range map[string]string{
		"cut short":       good[:traceBytes-1],
		"another version": "\x01" + good[1:],
		"not followed":    good[:traceBytes-1] + "\x00",
		"no trace":        string(appendTrace(nil, shard.TraceContext{Span: [8]byte{2}})),
		"no span":         string(appendTrace(nil, shard.TraceContext{ID: [16]byte{1}})),
	} {
		r := frameReader{rest: text}
		if got := r.trace(); !r.failed || got != nil {
			t.Errorf("%s: taken as %v", name, got)
		}
	}
	r := frameReader{rest: good}
	if r.trace(); r.failed || r.rest != "" {
		t.Error("a trace is not taken")
	}
}
