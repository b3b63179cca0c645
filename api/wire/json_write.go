package wire

import (
	"maps"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

const (
	secondsMax     = 253_402_300_799 // since 1970: the end of the year 9999, the last instant that JSON can express
	waitSecondsMax = 315_576_000_000 // the longest wait that JSON can express: about 10,000 years
)

// MarshalJSON writes the output of writeJSON, up to white space. Most answers are answers to checks, which have their
// own writer. It takes a tenth of the time, because it need not look up the kind of each field. It leaves unknown
// messages to the library.
func MarshalJSON(b []byte, m proto.Message) ([]byte, error) {
	w := jsonWriter{b: b}
	switch m := m.(type) {
	case *stintv1.CheckResponse:
		w.checkResponse(m)
	case *stintv1.CheckBatchResponse:
		w.checkBatchResponse(m)
	default:
		w.unsure = true
	}
	if w.unsure {
		return writeJSON.MarshalAppend(b, m)
	}
	return w.b, nil
}

// jsonWriter appends messages as JSON. New fields of these messages must be added here; a test compares the output with
// the library's. The methods with an argument before write that text as it is, and then the value.
type jsonWriter struct {
	b      []byte
	unsure bool // the output must not be used
}

func (w *jsonWriter) checkResponse(m *stintv1.CheckResponse) {
	if m == nil || m.Decision == nil {
		w.unsure = true
		return
	}
	w.raw(`{"decision":`)
	w.decision(m.Decision)
	w.raw(`}`)
}

func (w *jsonWriter) checkBatchResponse(m *stintv1.CheckBatchResponse) {
	if m == nil {
		w.unsure = true
		return
	}
	w.raw(`{"results":[`)
	for i, r := range m.Results {
		w.comma(i)
		switch r := r.GetResult().(type) {
		case *stintv1.Result_Decision:
			w.raw(`{"decision":`)
			w.decision(r.Decision)
		case *stintv1.Result_Failure:
			w.raw(`{"failure":`)
			w.failure(r.Failure)
		default:
			w.unsure = true
			return
		}
		w.raw(`}`)
	}
	w.raw(`]}`)
}

func (w *jsonWriter) failure(m *stintv1.Failure) {
	if m == nil {
		w.unsure = true
		return
	}
	w.text(`{"code":`, m.Code)
	w.text(`,"message":`, m.Message)
	w.bool(`,"maybeApplied":`, m.MaybeApplied)
	w.raw(`}`)
}

func (w *jsonWriter) decision(m *stintv1.Decision) {
	if m == nil {
		w.unsure = true
		return
	}
	w.bool(`{"allowed":`, m.Allowed)
	w.text(`,"decisionId":`, m.DecisionId)
	w.raw(`,"limits":[`)
	for i, s := range m.Limits {
		w.comma(i)
		w.status(s)
	}
	w.raw(`],"deniedBy":[`)
	for i, name := range m.DeniedBy {
		w.comma(i)
		w.text("", name)
	}
	w.text(`],"reason":`, m.Reason)
	w.wait(`,"retryAfter":`, m.RetryAfter)
	w.instant(`,"decidedAt":`, m.DecidedAt)
	w.raw(`,"headers":{`)
	if len(m.Headers) > 0 {
		for i, name := range slices.Sorted(maps.Keys(m.Headers)) {
			w.comma(i)
			w.text("", name)
			w.text(`:`, m.Headers[name])
		}
	}
	w.text(`},"holdId":`, m.HoldId)
	w.instant(`,"holdExpiresAt":`, m.HoldExpiresAt)
	w.bool(`,"replayed":`, m.Replayed)
	w.bool(`,"shadowDenied":`, m.ShadowDenied)
	w.raw(`,"positions":[`)
	for i, p := range m.Positions {
		w.comma(i)
		w.position(p)
	}
	w.text(`],"explanation":`, m.Explanation)
	w.outcome(`,"outcome":`, m.Outcome)
	w.bool(`,"leased":`, m.Leased)
	w.raw(`}`)
}

func (w *jsonWriter) outcome(before string, o stintv1.Outcome) {
	name, known := stintv1.Outcome_name[int32(o)]
	w.unsure = w.unsure || !known
	w.text(before, name)
}

func (w *jsonWriter) status(m *stintv1.LimitStatus) {
	if m == nil {
		w.unsure = true
		return
	}
	w.text(`{"policy":`, m.Policy)
	w.text(`,"limit":`, m.Limit)
	w.text(`,"key":`, m.Key)
	w.uint64(`,"quota":`, m.Quota)
	w.uint64(`,"used":`, m.Used)
	w.uint64(`,"held":`, m.Held)
	w.uint64(`,"remaining":`, m.Remaining)
	w.uint64(`,"granted":`, m.Granted)
	w.instant(`,"windowStart":`, m.WindowStart)
	w.instant(`,"resetAt":`, m.ResetAt)
	w.wait(`,"retryAfter":`, m.RetryAfter)
	w.bool(`,"allowed":`, m.Allowed)
	w.bool(`,"shadow":`, m.Shadow)
	w.uint32(`,"lockoutLevel":`, m.LockoutLevel)
	w.instant(`,"blockedUntil":`, m.BlockedUntil)
	w.bool(`,"unlimited":`, m.Unlimited)
	w.bool(`,"soft":`, m.Soft)
	w.raw(`}`)
}

func (w *jsonWriter) position(m *stintv1.Position) {
	if m == nil {
		w.unsure = true
		return
	}
	w.uint32(`{"shard":`, m.Shard)
	w.uint64(`,"epoch":`, m.Epoch)
	w.uint64(`,"seq":`, m.Seq)
	w.raw(`}`)
}

func (w *jsonWriter) raw(text string) { w.b = append(w.b, text...) }

// comma writes a comma before every element of a list except the first.
func (w *jsonWriter) comma(i int) {
	if i > 0 {
		w.b = append(w.b, ',')
	}
}

func (w *jsonWriter) bool(before string, v bool) {
	w.b = strconv.AppendBool(append(w.b, before...), v)
}

func (w *jsonWriter) uint32(before string, v uint32) {
	w.b = strconv.AppendUint(append(w.b, before...), uint64(v), 10)
}

// uint64 writes a string, because JSON numbers have 53 bits in most languages.
func (w *jsonWriter) uint64(before string, v uint64) {
	w.b = append(append(w.b, before...), '"')
	w.b = append(strconv.AppendUint(w.b, v, 10), '"')
}

// text writes a string. It escapes quotes and backslashes; control characters, and bytes that are not UTF-8, are left
// to the library, which has its own spellings and errors for them.
func (w *jsonWriter) text(before, v string) {
	w.b = append(append(w.b, before...), '"')
	plain, wide := 0, false // start of the bytes that can be copied unchanged
	for i := 0; i < len(v); i++ {
		switch c := v[i]; {
		case c == '"' || c == '\\':
			w.b = append(append(w.b, v[plain:i]...), '\\')
			plain = i
		case c < ' ':
			w.unsure = true
		case c >= utf8.RuneSelf:
			wide = true
		}
	}
	if wide && !utf8.ValidString(v) {
		w.unsure = true
	}
	w.b = append(append(w.b, v[plain:]...), '"')
}

// instant writes a present timestamp in RFC 3339, with 0, 3, 6 or 9 fractional digits.
func (w *jsonWriter) instant(before string, m *timestamppb.Timestamp) {
	if m == nil {
		return
	}
	if m.Seconds < 0 || m.Seconds > secondsMax || m.Nanos < 0 || m.Nanos >= 1e9 {
		w.unsure = true
		return
	}
	w.b = append(append(w.b, before...), '"')
	w.b = time.Unix(m.Seconds, 0).UTC().AppendFormat(w.b, "2006-01-02T15:04:05")
	w.fraction(m.Nanos)
	w.raw(`Z"`)
}

// wait writes a present duration in seconds, with 0, 3, 6 or 9 fractional digits.
func (w *jsonWriter) wait(before string, m *durationpb.Duration) {
	if m == nil {
		return
	}
	if m.Seconds < 0 || m.Seconds > waitSecondsMax || m.Nanos < 0 || m.Nanos >= 1e9 {
		w.unsure = true
		return
	}
	w.b = append(append(w.b, before...), '"')
	w.b = strconv.AppendInt(w.b, m.Seconds, 10)
	w.fraction(m.Nanos)
	w.raw(`s"`)
}

// fraction writes the nanoseconds of an instant or a wait, 0 to 999,999,999, behind its seconds.
func (w *jsonWriter) fraction(nanos int32) {
	if nanos == 0 {
		return
	}
	digits := 9
	for nanos%1000 == 0 {
		nanos, digits = nanos/1000, digits-3
	}
	w.b = append(w.b, ".000000000"[:1+digits]...)
	for i := len(w.b) - 1; nanos > 0; i, nanos = i-1, nanos/10 {
		w.b[i] = '0' + byte(nanos%10)
	}
}
