package wire

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

const perIP = `{"entries":[{"policy":"per-ip","key":"203.0.113.7"}]}`

// FuzzJSONReader checks that the reader of checks is sure only about text that it reads as the library does.
func FuzzJSONReader(f *testing.F) {
	for _, text := range readerSeeds {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, fresh := range []func() proto.Message{
			func() proto.Message { return &stintv1.CheckRequest{} },
			func() proto.Message { return &stintv1.CheckBatchRequest{} },
		} {
			got, want := fresh(), fresh()
			gotErr, wantErr := UnmarshalJSON(data, got), readJSON.Unmarshal(data, want)
			if (gotErr == nil) != (wantErr == nil) {
				t.Fatalf("%q: error %v, the library's %v", data, gotErr, wantErr)
			}
			if wantErr == nil && !proto.Equal(got, want) {
				t.Errorf("%q: read as %v, by the library as %v", data, got, want)
			}
		}
	})
}

var readerSeeds = []string{
	perIP,
	`{"checks":[` + perIP + `, ` + perIP + `]}`,
	`{}`, `{"checks":[]}`, `{"checks":[{}]}`, `{"entries":[{}]}`, ``, ` `, `null`, `[]`, `{} {}`, `{}x`,
	` { "namespace" : "shop" , "mode" : "MODE_PEEK" , "idempotency_id" : "x" , "explain" : true , "entries" : [ ` +
		`{ "policy" : "api" , "key" : "{a}b\u00e9" , "cost" : "7" , "tier" : "gold" } ] } `,
	`{"entries":[{"policy":"p","key":"` + "é€😀" + `","cost":12}]}`,
	`{"entries":[{"key":"` + "\xff" + `"}]}`, `{"entries":[{"key":"` + "\x01" + `"}]}`,
	`{"entries":[{"key":"a\\b\""}]}`, `{"entries":[{"cost":"18446744073709551615"}]}`,
	`{"entries":[{"cost":18446744073709551616}]}`, `{"entries":[{"cost":1e3}]}`, `{"entries":[{"cost":1.0}]}`,
	`{"entries":[{"cost":-1}]}`, `{"entries":[{"cost":007}]}`, `{"entries":[{"cost":" 7"}]}`,
	`{"entries":[{"cost":""}]}`, `{"entries":[{"cost":}]}`, `{"entries":[{"cost":7x}]}`, `{"entries":[{"cost":null}]}`,
	`{"entries":null}`, `{"entries":[null]}`, `{"entries":[{},]}`, `{"entries":[,{}]}`, `{"mode":1}`,
	`{"mode":"MODE_X"}`, `{"mode":null}`, `{"mode":MODE_PEEK}`, `{"explain":truex}`, `{"explain":"true"}`,
	`{"explain":1}`, `{"explain":true,"explain":false}`, `{"idempotencyId":"a","idempotency_id":"b"}`,
	`{"expain":true}`, `{"entries":[{"limits":[{"name":"l","quota":"1"}]}]}`, `{,}`, `{"explain":true,}`, `{"explain"}`,
	`{"namespace":"a"`, `{"namespace":"a`, `{"explain":true}}`, `{"[x]":1}`, `{"@type":1}`, `{namespace:"a"}`,
}

// The reader must be sure about the usual text of clients; otherwise it is useless.
func TestOrdinaryChecksAreReadWithoutTheLibrary(t *testing.T) {
	for _, text := range []string{perIP, readerSeeds[1], strings.ReplaceAll(readerSeeds[12], `\u00e9`, ``),
		readerSeeds[13]} {
		for _, m := range []interface {
			proto.Message
			Reset()
		}{&stintv1.CheckRequest{}, &stintv1.CheckBatchRequest{}} {
			r := jsonReader{rest: []byte(text)}
			switch m := m.(type) {
			case *stintv1.CheckRequest:
				r.check(m)
			case *stintv1.CheckBatchRequest:
				r.checkBatch(m)
			}
			r.blanks()
			if batch := strings.Contains(text, "checks"); batch == isBatch(m) && (r.unsure || len(r.rest) > 0) {
				t.Errorf("%s: unsure before %q", text, r.rest)
			}
		}
	}
}

func isBatch(m proto.Message) bool {
	_, batch := m.(*stintv1.CheckBatchRequest)
	return batch
}

// FuzzJSONWriter checks that any answer is written as the library writes it, up to white space.
func FuzzJSONWriter(f *testing.F) { fuzzAnswers(f, sameJSON) }

// Every field is written: this fails when a message has a new field that the writer does not know.
func TestEveryFieldOfAnAnswerIsWritten(t *testing.T) {
	eachFullAnswer(func(m proto.Message) {
		sameJSON(t, m)
		w := &jsonWriter{}
		writeAnswer(w, m)
		if w.unsure {
			t.Errorf("the writer is unsure about %v", m)
		}
	})
}

// fuzzAnswers compares arbitrary answers with the library's output.
func fuzzAnswers(f *testing.F, same func(*testing.T, proto.Message)) {
	for seed := range uint64(50) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		random := rand.New(rand.NewPCG(seed, 0))
		for _, m := range []proto.Message{&stintv1.CheckResponse{}, &stintv1.CheckBatchResponse{}} {
			scribble(random, m.ProtoReflect(), false)
			same(t, m)
		}
	})
}

// eachFullAnswer makes answers with all fields set.
func eachFullAnswer(do func(proto.Message)) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		for _, m := range []proto.Message{&stintv1.CheckResponse{}, &stintv1.CheckBatchResponse{}} {
			scribble(random, m.ProtoReflect(), true)
			do(m)
		}
	}
}

func writeAnswer(w interface {
	checkResponse(*stintv1.CheckResponse)
	checkBatchResponse(*stintv1.CheckBatchResponse)
}, m proto.Message) {
	switch m := m.(type) {
	case *stintv1.CheckResponse:
		w.checkResponse(m)
	case *stintv1.CheckBatchResponse:
		w.checkBatchResponse(m)
	}
}

func sameJSON(t *testing.T, m proto.Message) {
	t.Helper()
	before := []byte("before")
	got, gotErr := MarshalJSON(before, m)
	want, wantErr := writeJSON.MarshalAppend(before, m)
	if (gotErr == nil) != (wantErr == nil) {
		t.Fatalf("%v: error %v, the library's %v", m, gotErr, wantErr)
	}
	if wantErr != nil {
		return
	}
	squeeze := func(b []byte) string {
		var out bytes.Buffer
		if err := json.Compact(&out, bytes.TrimPrefix(b, before)); err != nil {
			t.Fatalf("%v in %s", err, b)
		}
		return out.String()
	}
	if squeeze(got) != squeeze(want) {
		t.Errorf("%v\ngot  %s\nwant %s", m, squeeze(got), squeeze(want))
	}
}

// scribble fills a message at random; tame: with all fields set and only values that JSON can express.
func scribble(random *rand.Rand, m protoreflect.Message, tame bool) {
	switch known := m.Interface().(type) {
	case *timestamppb.Timestamp:
		known.Seconds, known.Nanos = random.Int64N(253_402_300_800), scribbledNanos(random)
		if !tame && random.IntN(20) == 0 {
			known.Seconds, known.Nanos = random.Int64()-math.MaxInt64/2, random.Int32()
		}
		return
	case *durationpb.Duration:
		known.Seconds, known.Nanos = random.Int64N(315_576_000_000), scribbledNanos(random)
		if !tame && random.IntN(20) == 0 {
			known.Seconds, known.Nanos = -known.Seconds, -known.Nanos
		}
		return
	}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if !tame && random.IntN(4) == 0 || f.ContainingOneof() != nil && random.IntN(2) == 0 &&
			m.WhichOneof(f.ContainingOneof()) != nil {
			continue
		}
		switch {
		case f.IsMap():
			for range 1 + random.IntN(4) {
				m.Mutable(f).Map().Set(protoreflect.ValueOfString(scribbledText(random, tame)).MapKey(),
					protoreflect.ValueOfString(scribbledText(random, tame)))
			}
		case f.IsList():
			list := m.Mutable(f).List()
			for range 1 + random.IntN(3) {
				if f.Message() == nil {
					list.Append(protoreflect.ValueOfString(scribbledText(random, tame)))
					continue
				}
				element := list.NewElement()
				scribble(random, element.Message(), tame)
				list.Append(element)
			}
		case f.Message() != nil:
			scribble(random, m.Mutable(f).Message(), tame)
		default:
			m.Set(f, scribbled(random, f, tame))
		}
	}
}

func scribbled(random *rand.Rand, f protoreflect.FieldDescriptor, tame bool) protoreflect.Value {
	switch f.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(tame || random.IntN(2) == 0)
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(1 + random.Uint32()>>random.IntN(32))
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(1 + random.Uint64()>>random.IntN(64))
	case protoreflect.EnumKind: // any but the first, which is written nowhere
		values := f.Enum().Values()
		return protoreflect.ValueOfEnum(values.Get(1 + random.IntN(values.Len()-1)).Number())
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(scribbledText(random, tame))
	}
	panic("scribble knows no " + f.Kind().String())
}

func scribbledNanos(random *rand.Rand) int32 {
	return []int32{0, 1, 999_999_999, 250_000_000, 1000, 100_000, 59_750_001, random.Int32N(1e9)}[random.IntN(8)]
}

func scribbledText(random *rand.Rand, tame bool) string {
	pieces := []string{"a", "Z9", `"`, `\`, "/", "<&>", "é", "😀", "\u2028", "\x7f", " ", "\n", "\x00", "\x1f", "\xff"}
	if tame {
		pieces = pieces[:11]
	}
	text := "x"
	for range random.IntN(6) {
		text += pieces[random.IntN(len(pieces))]
	}
	return text
}
