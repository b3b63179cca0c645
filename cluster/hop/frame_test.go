package hop

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

func callsFrame(t testing.TB, number uint64, budget time.Duration, requests ...shard.Request) []byte {
	body, err := encodeCall(1, 3, requests)
	if err != nil {
		t.Fatal(err)
	}
	return append(appendCallHead(beginFrame(nil, frameCalls), number, budget), body...)
}

func resultBytes(r *shard.Result) []byte {
	c := shard.MessageWriter(nil)
	c.Result(r)
	return c.Written()
}

// followed is a trace.
type followed shard.TraceContext

func (f followed) Context() shard.TraceContext { return shard.TraceContext(f) }

func (followed) Reached(shard.TraceStep, time.Time) {}

func lifetime(quota uint64) limit.Limit { return limit.Limit{Algorithm: limit.Lifetime, Quota: quota} }

// inSession returns a check that travels in a session.
func inSession(number, acked uint64) shard.Request {
	r := check("k")
	r.Session = shard.Session{Epoch: math.MaxUint64, Seq: 300, Index: math.MaxUint32}
	r.Number, r.Acked = number, acked
	return r
}

func TestLargeAnswersComeInParts(t *testing.T) {
	results := make([]shard.Result, maxCallRequests)
	for i := range results {
		results[i].Decision = shard.Decision{Index: uint32(i), Limits: make([]shard.LimitStatus, 100)}
		for j := range results[i].Decision.Limits {
			results[i].Decision.Limits[j] = shard.LimitStatus{Limit: strings.Repeat("l", 100)}
		}
	}
	var got []shard.Result
	parts := appendAnswers(nil, 1, results)
	for i := range parts {
		record := appendAnswer(nil, &parts[i])
		if len(record) > maxFrame-1 {
			t.Errorf("part %d has %d bytes", i, len(record))
		}
		answers, err := decodeAnswers(record)
		if err != nil || answers[0].first != len(got) {
			t.Fatalf("part %d begins with result %d, want %d: %v", i, answers[0].first, len(got), err)
		}
		got = append(got, answers[0].results...)
	}
	if len(parts) < 2 || !reflect.DeepEqual(got, results) {
		t.Errorf("%d results in %d parts came as %d other ones", len(results), len(parts), len(got))
	}
}

func TestAnAnswerThatFitsNoFrameIsAnUnknownOutcome(t *testing.T) {
	huge := shard.Result{Err: &shard.Error{Message: strings.Repeat("m", maxFrame)}}
	for i, part := range appendAnswers(nil, 1, []shard.Result{{}, huge, {}}) {
		answers, err := decodeAnswers(appendAnswer(nil, &part))
		if err != nil {
			t.Fatal(err)
		}
		if r := answers[0].results[0]; i == 1 && (r.Err == nil || r.Err.Code != shard.UnknownOutcome) {
			t.Errorf("it came as %+v", r)
		}
	}
}

func TestWhatNoFrameMayCarryIsRefusedBeforeItIsSent(t *testing.T) {
	large := check("k")
	large.Entries[0].Key = strings.Repeat("k", maxFrame)
	for name, requests := range map[string][]shard.Request{
		"too many requests": make([]shard.Request, maxCallRequests+1),
		"no entry":          {{Op: shard.Check}},
		"too many entries":  {{Op: shard.Check, Entries: make([]shard.Entry, shard.MaxEntries+1)}},
		"too many bytes":    {large},
		"a long name":       {{Op: shard.Fetch, Document: strings.Repeat("d", shard.MaxDocumentName+1)}},
		"a large body":      {{Op: shard.Swap, Document: "d", Body: make([]byte, shard.MaxDocumentBytes+1)}},
		"too many limits": {{Op: shard.Check,
			Entries: []shard.Entry{{Limits: make([]policy.Limit, shard.MaxLimits+1)}}}},
		"too many legs": {{Op: shard.AskHome,
			Operation: &shard.Operation{Legs: make([]shard.Leg, shard.MaxEntries+1)}}},
		"a large excess": {{Op: shard.AskHome, Operation: &shard.Operation{Excess: &shard.Excess{
			Legs: make([]shard.Leg, shard.MaxEntries+1)}}}},
	} {
		if _, err := encodeCall(1, 0, requests); err == nil || err.Code != shard.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An unreadable request is refused alone: the other requests of its call, and other calls in the same frame, are
// decoded. Here a limit uses the calendar of a time zone that only the sender knows.
func TestARequestThatCannotBeReadFailsAlone(t *testing.T) {
	zone, err := limit.LoadZone("America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	foreign := check("foreign")
	foreign.Entries[0].Limits = []policy.Limit{{Name: "a", Limit: limit.Limit{Algorithm: limit.Calendar, Quota: 5,
		Cycle: &limit.Cycle{Unit: limit.Day, Every: 1, Zone: zone}}}}
	frame := callsFrame(t, 1, 0, check("a"), foreign, check("b"))
	frame = append(frame, callsFrame(t, 2, 0, foreign)[frameHead+1:]...)
	frame = append(frame, callsFrame(t, 3, 0, check("c"))[frameHead+1:]...)
	frame = bytes.ReplaceAll(frame, []byte("America/New_York"), []byte("America/New_Land"))
	calls, err := decodeCalls(frame[frameHead+1:])
	if err != nil || len(calls) != 3 {
		t.Fatalf("%d calls, %v", len(calls), err)
	}
	got := ""
	for _, c := range calls {
		for _, r := range c.answers(echo(t.Context(), 1, c.shard, c.requests)) {
			if r.Err != nil {
				got += fmt.Sprint(c.number, " refused ", r.Err.Code, "; ")
			} else {
				got += fmt.Sprint(c.number, " ", r.Decision.Limits[0].Key, "; ")
			}
		}
	}
	if want := "1 a; 1 refused 16; 1 b; 2 refused 16; 3 c; "; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// Nodes of different versions exchange these bytes: another layout needs another kind of frame.
func TestFrameGoldenBytes(t *testing.T) {
	request := check("user:42")
	request.ID, request.NotAfter = "id", 1_000_000
	calls := sealFrame(callsFrame(t, 300, 2*time.Second, request))
	parts := appendAnswers(nil, 300, []shard.Result{
		{Decision: shard.Decision{Allowed: true, DecidedAt: 5, Position: shard.Position{Shard: 3, Epoch: 300, Seq: 2},
			Index: 1, Limits: []shard.LimitStatus{{Policy: "p", Key: "user:42", Limit: "minute", Quota: 100,
				Verdict: limit.Verdict{Allowed: true, Used: 1, Remaining: 99, WindowStart: 4, ResetAt: 64}}}}},
		{Err: &shard.Error{Code: shard.NotOwner, Field: "f", Message: "m", RetryAfter: 100}},
	})
	answers := sealFrame(appendAnswer(beginFrame(nil, frameAnswers), &parts[0]))
	swap := shard.Request{Op: shard.Swap, Document: "table", Expect: 7, Body: []byte("{}"), Retry: true}
	reserve := check("k")
	reserve.Op, reserve.Hold = shard.Reserve, &shard.HoldTerms{TTL: 60e6, OnExpire: policy.OnExpireCommit}
	tally := shard.Request{Op: shard.Tally, Namespace: "default",
		Entries: []shard.Entry{{Key: "k", Cost: 1, Limits: shard.TallyLimits}},
		Tally:   &shard.TallyTerms{Verb: shard.TallyAdd, Amount: 300, TTL: 5}}
	ending := tally
	ending.Tally = &shard.TallyTerms{Verb: shard.TallySet, At: true, Amount: 300, TTL: 5}
	traced := check("k")
	traced.Trace = followed{ID: [16]byte{0x4b, 15: 0x36}, Span: [8]byte{0xf0, 7: 0xb7}}
	for _, c := range []struct {
		name, want string
		frame      []byte
	}{
		{"a request that is followed", goldenFollowed, callsFrame(t, 1, 0, traced)[frameHead:]},
		{"calls", goldenCalls, calls},
		{"answers", goldenAnswers, answers},
		{"a request in a session", goldenInSession, callsFrame(t, 1, 0, inSession(300, 298))[frameHead:]},
		{"a hold", goldenReserve, callsFrame(t, 1, 0, reserve)[frameHead:]},
		{"a swap", goldenSwap, callsFrame(t, 1, 0, swap)[frameHead:]},
		{"a session opened", goldenOpened, resultBytes(&shard.Result{Decision: shard.Decision{Allowed: true,
			System: &shard.SystemAnswer{Session: shard.Session{Epoch: 300, Seq: 2, Index: 1}}}})},
		{"a hold's answer", goldenHeld, resultBytes(&shard.Result{Decision: shard.Decision{HoldExpires: 7,
			Limits: []shard.LimitStatus{{Held: 300, Granted: 2, LockoutLevel: 3, BlockedUntil: 5, Blocked: true}}}})},
		{"a soft limit's answer", goldenSoft, resultBytes(&shard.Result{Decision: shard.Decision{RetryAfter: 7,
			Limits: []shard.LimitStatus{{Soft: true}}}})},
		{"fired thresholds", goldenFired, resultBytes(&shard.Result{Decision: shard.Decision{Allowed: true,
			System: &shard.SystemAnswer{Fired: []shard.FiredThreshold{
				{Policy: "p", Limit: "a", Key: "k", Units: 300, Percent: 80, Starts: 5,
					Ends: limit.Forever}}}}})},
		{"a tally", goldenTally, callsFrame(t, 1, 0, tally)[frameHead:]},
		{"a tally that ends at an instant", goldenEnding, callsFrame(t, 1, 0, ending)[frameHead:]},
		{"a tally's answer", goldenTallied, resultBytes(&shard.Result{Decision: shard.Decision{Allowed: true,
			Tallied: &shard.Tallied{Known: true, Done: true, Before: -1, Value: 299, EndsAt: 5}}})},
		{"a document", goldenDocument, resultBytes(&shard.Result{Decision: shard.Decision{Allowed: true,
			System: &shard.SystemAnswer{Document: shard.Document{Version: 8, Body: []byte("{}")}}}})},
	} {
		if got := hex.EncodeToString(c.frame); got != c.want {
			t.Errorf("%s are\n%s, want\n%s", c.name, got, c.want)
		}
	}
}

const (
	goldenCalls = "270000007195f1b3" + "01" + "ac02" + "80897a" + "01" + "03" + "01" +
		"1d" + "01" + "0764656661756c74" + "00" + "026964" + "80897a" + "01" + "0170" + "07757365723a3432" + "00" + "01"
	goldenAnswers   = "310000002d54869b02ac0200022202000a03ac0202010104017007757365723a3432066d696e757465640163088001000801050166016dc801"
	goldenInSession = "01" + "01" + "00" + "01" + "03" + "01" +
		"28" + "01" + "0764656661756c74" + "00" + "00" + "00" + "01" + "0170" + "016b" + "00" + "01" + "01" +
		"ffffffffffffffffff01" + "ac02" + "ffffffff0f" + "ac02" + "02"
	goldenSwap = "01" + "01" + "00" + "01" + "03" + "01" +
		"11" + "07" + "00" + "00" + "00" + "00" + "00" + "06" + "057461626c65" + "07" + "027b7d"
	goldenReserve = "01" + "01" + "00" + "01" + "03" + "01" +
		"1a" + "0a" + "0764656661756c74" + "00" + "00" + "00" + "01" + "0170" + "016b" + "00" + "01" +
		"08" + "02" + "809c9c39" + "02"
	goldenFollowed = "01" + "01" + "00" + "01" + "03" + "01" +
		"2e" + "01" + "0764656661756c74" + "00" + "00" + "00" + "01" + "0170" + "016b" + "00" + "01" +
		"40" + "00" + "4b000000000000000000000000000036" + "f0000000000000b7" + "01"
	goldenHeld = "40" + "00" + "00" + "00" + "00" + "00" + "00" + "01" +
		"78" + "00" + "00" + "00" + "00" + "00" + "00" + "00" + "ac02" + "02" + "030a01" + "01" + "0e"
	goldenSoft = "00" + "0e" + "00" + "00" + "00" + "00" + "00" + "01" +
		"48" + "00" + "00" + "00" + "00" + "00" + "00" + "00" + "00" + "00" + "04"
	goldenFired = "42" + "00" + "00" + "00" + "00" + "00" + "00" + "00" + "40" + "01" +
		"0170" + "0161" + "016b" + "ac02" + "50" + "05" + "ffffffffffffffff7f"
	goldenTally = "01" + "01" + "00" + "01" + "03" + "01" +
		"1a" + "19" + "0764656661756c74" + "00" + "00" + "00" + "01" + "00" + "016b" + "00" + "01" +
		"08" + "40" + "01" + "00" + "00" + "d804" + "0a"
	goldenEnding = "01" + "01" + "00" + "01" + "03" + "01" +
		"1a" + "19" + "0764656661756c74" + "00" + "00" + "00" + "01" + "00" + "016b" + "00" + "01" +
		"08" + "40" + "02" + "00" + "02" + "d804" + "0a"
	goldenTallied  = "42" + "00" + "00" + "00" + "00" + "00" + "00" + "00" + "08" + "03" + "01" + "d604" + "0a"
	goldenOpened   = "12" + "00" + "00" + "00" + "00" + "00" + "00" + "00" + "ac02" + "02" + "01"
	goldenDocument = "22" + "00" + "00" + "00" + "00" + "00" + "00" + "00" + "08" + "027b7d"
)

func TestFrameRefusesWhatIsNone(t *testing.T) {
	good := sealFrame(callsFrame(t, 1, 0, check("k")))
	if _, _, _, err := readFrame(bytes.NewReader(good), nil); err != nil {
		t.Fatal(err)
	}
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 0x40
		if _, _, _, err := readFrame(bytes.NewReader(bad), nil); err == nil {
			t.Errorf("byte %d flipped: nobody saw it", i)
		}
		if _, _, _, err := readFrame(bytes.NewReader(good[:i]), nil); err == nil {
			t.Errorf("cut after byte %d: nobody saw it", i)
		}
	}
}

// No input panics, and accepted input is encoded as the same call or answer again.
func FuzzDecodeFrame(f *testing.F) {
	f.Add(byte(frameCalls), callsFrame(f, 1, time.Second, check("a", "b"))[frameHead+1:])
	f.Add(byte(frameCalls), []byte("00\x020\x0f\x15"+strings.Repeat("0", 20))) // a text one byte longer than the rest
	f.Add(byte(frameCalls), callsFrame(f, 1, 0, inSession(9, 8), shard.Request{Op: shard.OpenSession},
		shard.Request{Op: shard.Swap, Document: "d", Body: []byte("{}"), Retry: true},
		shard.Request{Op: shard.Check,
			Entries: []shard.Entry{{Limits: []policy.Limit{{Name: "day", Limit: lifetime(5)}}}}},
		shard.Request{Op: shard.Tally, Entries: []shard.Entry{{Limits: shard.TallyLimits}},
			Tally: &shard.TallyTerms{Amount: -1}},
		shard.Request{Op: shard.Acknowledge, Operation: &shard.Operation{ID: "x", Leg: 3}})[frameHead+1:])
	for _, results := range [][]shard.Result{
		{{Decision: shard.Decision{Allowed: true, Limits: make([]shard.LimitStatus, 2)}}, {Err: errUnreadable}}, {{}}} {
		parts := appendAnswers(nil, 2, results)
		f.Add(byte(frameAnswers), appendAnswer(nil, &parts[0]))
	}
	f.Fuzz(func(t *testing.T, kind byte, records []byte) {
		_, whole, _, err := readFrame(bytes.NewReader(records), nil)
		if err == nil {
			decodeCalls(whole)
		}
		switch frameKind(kind) {
		case frameCalls:
			checkCalls(t, records)
		case frameAnswers:
			checkAnswers(t, records)
		}
	})
}

func checkCalls(t *testing.T, records []byte) {
	calls, err := decodeCalls(records)
	if err != nil {
		return
	}
	var again []byte
	for _, c := range calls {
		if c.refused != nil {
			return // such a call cannot be sent
		}
		body, err := encodeCall(c.hops, c.shard, c.requests)
		if err != nil {
			t.Fatalf("%+v was accepted and cannot be sent: %v", c, err)
		}
		again = append(appendCallHead(again, c.number, c.budget), body...)
	}
	if got, err := decodeCalls(again); err != nil || !reflect.DeepEqual(got, calls) {
		t.Errorf("%+v came back as %+v, %v", calls, got, err)
	}
}

func checkAnswers(t *testing.T, records []byte) {
	answers, err := decodeAnswers(records)
	if err != nil {
		return
	}
	for _, a := range answers {
		if a.count == 0 {
			continue
		}
		parts := appendAnswers(nil, a.number, a.results)
		got, err := decodeAnswers(appendAnswer(nil, &parts[0]))
		if err != nil || !reflect.DeepEqual(got[0].results, a.results) {
			t.Errorf("%+v came back as %+v, %v", a, got, err)
		}
	}
}
