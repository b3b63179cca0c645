package wire

import (
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

// MarshalProto writes the same bytes as the library. Answers to checks have their own writer, as in JSON: the library
// measures each message before it writes it, and looks up the kind of each field. Unknown messages are left to the
// library.
func MarshalProto(b []byte, m proto.Message) ([]byte, error) {
	w := protoWriter{b: b}
	switch m := m.(type) {
	case *stintv1.CheckResponse:
		w.checkResponse(m)
	case *stintv1.CheckBatchResponse:
		w.checkBatchResponse(m)
	default:
		w.unsure = true
	}
	if w.unsure {
		return proto.MarshalOptions{}.MarshalAppend(b, m)
	}
	return w.b, nil
}

// protoWriter appends messages in binary, by the numbers of their fields. New fields of these messages must be added
// here; a test compares the output with the library's.
type protoWriter struct {
	b      []byte
	unsure bool // the output must not be used
}

func (w *protoWriter) checkResponse(m *stintv1.CheckResponse) {
	if m.GetDecision() != nil {
		w.decision(1, m.Decision)
	}
}

func (w *protoWriter) checkBatchResponse(m *stintv1.CheckBatchResponse) {
	for _, r := range m.GetResults() {
		at := w.begin(1)
		switch r := r.GetResult().(type) {
		case *stintv1.Result_Decision:
			w.decision(1, r.Decision)
		case *stintv1.Result_Failure:
			w.failure(2, r.Failure)
		default:
			w.unsure = true
		}
		w.end(at)
	}
}

func (w *protoWriter) failure(field protowire.Number, m *stintv1.Failure) {
	at := w.begin(field)
	w.text(1, m.GetCode())
	w.text(2, m.GetMessage())
	w.bool(3, m.GetMaybeApplied())
	w.end(at)
}

func (w *protoWriter) decision(field protowire.Number, m *stintv1.Decision) {
	if m == nil {
		w.unsure = true
		return
	}
	at := w.begin(field)
	w.bool(1, m.Allowed)
	w.text(2, m.DecisionId)
	for _, s := range m.Limits {
		w.status(3, s)
	}
	for _, name := range m.DeniedBy {
		w.element(4, name)
	}
	w.text(5, m.Reason)
	w.wait(6, m.RetryAfter)
	w.instant(7, m.DecidedAt)
	for name, value := range m.Headers {
		entry := w.begin(8)
		w.element(1, name)
		w.element(2, value)
		w.end(entry)
	}
	w.text(9, m.HoldId)
	w.instant(10, m.HoldExpiresAt)
	w.bool(11, m.Replayed)
	w.bool(12, m.ShadowDenied)
	for _, p := range m.Positions {
		w.position(13, p)
	}
	w.text(14, m.Explanation)
	w.uint64(15, uint64(m.Outcome))
	w.bool(16, m.Leased)
	w.end(at)
}

func (w *protoWriter) status(field protowire.Number, m *stintv1.LimitStatus) {
	if m == nil {
		w.unsure = true
		return
	}
	at := w.begin(field)
	w.text(1, m.Policy)
	w.text(2, m.Limit)
	w.text(3, m.Key)
	w.uint64(4, m.Quota)
	w.uint64(5, m.Used)
	w.uint64(6, m.Held)
	w.uint64(7, m.Remaining)
	w.uint64(8, m.Granted)
	w.instant(9, m.WindowStart)
	w.instant(10, m.ResetAt)
	w.wait(11, m.RetryAfter)
	w.bool(12, m.Allowed)
	w.bool(13, m.Shadow)
	w.uint64(14, uint64(m.LockoutLevel))
	w.instant(15, m.BlockedUntil)
	w.bool(16, m.Unlimited)
	w.bool(17, m.Soft)
	w.end(at)
}

func (w *protoWriter) position(field protowire.Number, m *stintv1.Position) {
	at := w.begin(field)
	w.uint64(1, uint64(m.GetShard()))
	w.uint64(2, m.GetEpoch())
	w.uint64(3, m.GetSeq())
	w.end(at)
}

// begin opens a nested message and returns the start of its content, after one byte for the length.
func (w *protoWriter) begin(field protowire.Number) (at int) {
	w.b = append(protowire.AppendTag(w.b, field, protowire.BytesType), 0)
	return len(w.b)
}

// end writes the length of the content since begin, and moves the content if the length takes more than one byte.
func (w *protoWriter) end(at int) {
	size := len(w.b) - at
	if more := protowire.SizeVarint(uint64(size)) - 1; more > 0 {
		w.b = append(w.b, make([]byte, more)...)
		copy(w.b[at+more:], w.b[at:])
	}
	protowire.AppendVarint(w.b[:at-1], uint64(size))
}

// The functions below write nothing for a zero value, as the format requires.

func (w *protoWriter) bool(field protowire.Number, v bool) {
	if v {
		w.b = append(protowire.AppendTag(w.b, field, protowire.VarintType), 1)
	}
}

func (w *protoWriter) uint64(field protowire.Number, v uint64) {
	if v != 0 {
		w.b = protowire.AppendVarint(protowire.AppendTag(w.b, field, protowire.VarintType), v)
	}
}

func (w *protoWriter) text(field protowire.Number, v string) {
	if v != "" {
		w.element(field, v)
	}
}

// element writes a text of a list, where an empty text counts. Bytes that are not UTF-8 are left to the library, which
// refuses them.
func (w *protoWriter) element(field protowire.Number, v string) {
	w.unsure = w.unsure || !utf8.ValidString(v)
	w.b = protowire.AppendString(protowire.AppendTag(w.b, field, protowire.BytesType), v)
}

func (w *protoWriter) instant(field protowire.Number, m *timestamppb.Timestamp) {
	if m != nil {
		w.seconds(field, m.Seconds, m.Nanos)
	}
}

func (w *protoWriter) wait(field protowire.Number, m *durationpb.Duration) {
	if m != nil {
		w.seconds(field, m.Seconds, m.Nanos)
	}
}

// seconds writes an instant or a wait: both are messages of seconds and nanoseconds.
func (w *protoWriter) seconds(field protowire.Number, seconds int64, nanos int32) {
	at := w.begin(field)
	w.uint64(1, uint64(seconds))
	w.uint64(2, uint64(int64(nanos)))
	w.end(at)
}
