package limit_test

import (
	"bytes"
	"encoding/hex"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/stint-io/stint/limit"
)

// These bytes are stored in logs and snapshots and must not change.
var goldenStates = []struct {
	hex string
	limit.State
}{
	{"00000000", limit.State{}},
	{"80c0fcbd97c2820307f82a00", limit.State{T: noon, A: 7, B: 5496}},
	// The instants are multiples of 2 minutes apart: 809c9c39 is that step.
	{"80c0fcbd97c28203020a02" + "809c9c39" + "0603" + "0505", limit.State{T: noon, A: 2, B: 10, Points: []limit.Point{
		{At: noon - limit.Time(12*minute), Units: 3}, {At: noon - limit.Time(2*minute), Units: 5}}}},
}

func TestGoldenBytes(t *testing.T) {
	for _, g := range goldenStates {
		b := limit.AppendState(nil, g.State)
		if got := hex.EncodeToString(b); got != g.hex {
			t.Errorf("%+v is %s, want %s", g.State, got, g.hex)
		}
		s, rest, err := limit.DecodeState(append(b, 0xff))
		if err != nil || !reflect.DeepEqual(s, g.State) || !bytes.Equal(rest, []byte{0xff}) {
			t.Errorf("%x is %+v, %x, %v", b, s, rest, err)
		}
	}
	zoned := calendar(limit.Cycle{Unit: limit.Month, Every: 3, AnchorDay: 15, Zone: mustLoad("UTC")}, nil)
	if got := hex.EncodeToString(limit.AppendLimit(nil, zoned)); got != "0a0100000000"+"05030f00"+"03555443" {
		t.Errorf("%+v is %s", zoned, got)
	}
	l := limit.Limit{Algorithm: limit.TokenBucket, Quota: 5, Period: second, Count: 2, Initial: 3}
	b := limit.AppendLimit([]byte{9}, l)
	if got := hex.EncodeToString(b); got != "090605c0843d020003" {
		t.Errorf("%+v is %s", l, got)
	}
	if back, rest, err := limit.DecodeLimit(append(b[1:], 7), limit.Limit{}); err != nil || back != l ||
		!bytes.Equal(rest, []byte{7}) {
		t.Errorf("%+v, %x, %v", back, rest, err)
	}
}

func TestWhatIsWrittenIsReadBack(t *testing.T) {
	for _, l := range small {
		walk(l, 6, visitRoundTrip(t, l))
		back, rest, err := limit.DecodeLimit(limit.AppendLimit(nil, l), limit.Limit{})
		if err != nil || !back.Equal(&l) || len(rest) != 0 {
			t.Errorf("%+v: %+v, %x, %v", l, back, rest, err)
		}
	}
}

// Whatever is counted, given back, set, converted or found full, and however much of it: what is written can be read,
// also where counts saturate.
func TestASaturatedStateIsReadBack(t *testing.T) {
	for i, l := range small {
		rng := rand.New(rand.NewPCG(uint64(i), 9))
		for range 40 {
			var s limit.State
			now := limit.Time(1000) * pace(l)
			for range 60 {
				before, cost := now, 1+rng.Uint64N(limit.MaxCost)
				now += limit.Time(rng.IntN(3)*rng.IntN(20)) * pace(l)
				switch rng.IntN(8) {
				case 0:
					s = limit.SetUsed(l, s, 1<<62-rng.Uint64N(4)*rng.Uint64N(limit.MaxCost), now)
				case 1:
					s = limit.Refund(l, s, cost, before, now)
				case 2:
					other := small[rng.IntN(len(small))]
					s = limit.Convert(other, limit.Convert(l, s, other, now), l, now)
				case 3:
					s = limit.Full{At: now, Hold: 5}.With(l, s)
				default:
					s, _ = limit.Add(l, s, cost, now)
				}
				back, _, err := limit.DecodeState(limit.AppendState(nil, s))
				if err != nil || back.T != s.T || back.A != s.A || back.B != s.B ||
					!slices.Equal(back.Points, s.Points) {
					t.Errorf("%+v: %+v is read as %+v, %v", l, s, back, err)
				}
				if used := limit.Status(l, s, now).Used; used > 1<<62 {
					t.Fatalf("%+v: %+v has used %d", l, s, used)
				}
			}
		}
	}
}

func TestWrongBytesAreRefused(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":                   "",
		"cut off":                   "8080",
		"longer than needed":        "80000000" + "00",
		"T too late":                "ffffffffffffffffff01000000",
		"A too large":               "00ffffffffffffffffff010000",
		"more points than bytes":    "0a010bffff03",
		"step 0":                    "0a010201000101",
		"step not the largest":      "0a010201010201",
		"first point not before T":  "0a010201010001",
		"first point before 1970":   "0a010201010b01",
		"point without units":       "0a010201010100",
		"points do not rise":        "0a01030201020100" + "01",
		"points do not add up to B": "0a010901010101",
	} {
		b, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		if s, _, err := limit.DecodeState(b); err == nil {
			t.Errorf("%s: %x was read as %+v", name, b, s)
		}
	}
	if _, _, err := limit.DecodeState([]byte{10, 1, 11, 0x90, 0x4e, 1}); err == nil ||
		err.Error() != "limit: decode: 10000 points in 1 bytes" { // before memory is allocated for them
		t.Errorf("%v", err)
	}
	if l, _, err := limit.DecodeLimit([]byte{byte(limit.FixedWindow), 1, 0, 0, 0, 0}, limit.Limit{}); err == nil {
		t.Errorf("a period of 0 was read: %+v", l)
	}
}

// FuzzDecodeState feeds garbage to the decoder, and every accepted State to every function with every limit.
func FuzzDecodeState(f *testing.F) {
	for _, g := range goldenStates {
		f.Add(limit.AppendState(nil, g.State), uint64(noon), uint64(1))
	}
	f.Add([]byte("\x0a\x01\x02\x01\x01\x01\x01"), uint64(11), uint64(limit.MaxCost))
	f.Fuzz(func(t *testing.T, b []byte, at, cost uint64) {
		s, rest, err := limit.DecodeState(b)
		if err != nil {
			return
		}
		read := b[:len(b)-len(rest)]
		if again := limit.AppendState(nil, s); !bytes.Equal(again, read) {
			t.Fatalf("%x was read as %+v and written as %x", read, s, again)
		}
		now, cost := limit.Time(at%uint64(limit.MaxTime+1)), 1+cost%limit.MaxCost
		for i, l := range small {
			useEverything(t, l, s, cost, now, small[(i+1)%len(small)])
			useEverything(t, examples[i%len(examples)].Limit, s, cost, now, l)
		}
	})
}

func useEverything(t *testing.T, l limit.Limit, s limit.State, cost uint64, now limit.Time, other limit.Limit) {
	before := limit.AppendState(nil, s)
	taken, v := limit.Take(l, s, cost, now)
	if p := limit.Peek(l, s, cost, now); p.Allowed != v.Allowed || p.RetryAfter != v.RetryAfter {
		t.Fatalf("%+v %+v: peek %+v, take %+v", l, s, p, v)
	}
	if v.ResetAt < 0 || v.WindowStart < 0 || v.RetryAfter < limit.Never || !v.Allowed && v.RetryAfter == 0 {
		t.Fatalf("%+v %+v: %+v", l, s, v)
	}
	added, _ := limit.Add(l, s, cost, now)
	for _, next := range []limit.State{
		taken, added, limit.Refund(l, s, cost, now, now), limit.Refund(l, added, cost, now/2, now),
		limit.Convert(l, s, other, now), limit.Convert(l, added, l, now), limit.SetUsed(l, s, cost, now),
	} {
		limit.StillCounts(l, next, now/2, now)
		b := limit.AppendState(nil, next)
		if _, rest, err := limit.DecodeState(b); err == nil && len(rest) > 0 {
			t.Fatalf("%+v is written as %x", next, b)
		}
		limit.Status(l, next, now)
		if limit.ForgetAt(l, next) < 0 {
			t.Fatalf("%+v %+v is forgotten before time begins", l, next)
		}
	}
	if !bytes.Equal(before, limit.AppendState(nil, s)) {
		t.Fatalf("%+v: %+v was changed", l, s)
	}
}

// FuzzDecodeLimit feeds garbage to the decoder; an accepted Limit is valid.
func FuzzDecodeLimit(f *testing.F) {
	for _, l := range small {
		f.Add(limit.AppendLimit(nil, l))
	}
	f.Add(limit.AppendLimit(nil, limit.Limit{Algorithm: limit.Calendar, Quota: 1, Cycle: monthInNewYork}))
	f.Fuzz(func(t *testing.T, b []byte) {
		l, rest, err := limit.DecodeLimit(b, limit.Limit{})
		if err != nil {
			return
		}
		if err := l.Validate(); err != nil {
			t.Fatalf("%x was read as an impossible limit: %v", b, err)
		}
		if again := limit.AppendLimit(nil, l); !bytes.Equal(again, b[:len(b)-len(rest)]) {
			t.Fatalf("%x was read as %+v and written as %x", b, l, again)
		}
		s, _ := limit.Take(l, limit.State{}, 1, noon)
		limit.Take(l, s, limit.MaxCost, noon+1)
	})
}
