package shard

import (
	"encoding/base64"
	"errors"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard/slot"
)

var testSecret = [32]byte{1, 2, 3}

// anyHandle returns random content of an id.
func anyHandle(rnd *rand.Rand) (Target, string, []Entry) {
	target := Target{Hold: rnd.IntN(2) == 0, DecidedAt: limit.Time(rnd.Int64() >> rnd.IntN(63)),
		Retention: limit.Span(rnd.Int64() >> rnd.IntN(63))}
	if rnd.IntN(3) == 0 {
		target.Home, target.Operation = slot.ID(rnd.IntN(slot.Count)), strings.Repeat("o", 1+rnd.IntN(64))
	} else {
		target.Position = Position{ID(rnd.Uint32()), rnd.Uint64() >> rnd.IntN(64), rnd.Uint64() >> rnd.IntN(64)}
		target.Index = 1 + rnd.Uint32N(1000)
	}
	var entries []Entry
	for range 1 + rnd.IntN(3) {
		e := Entry{Policy: "api", Key: strings.Repeat("k", 1+rnd.IntN(300)), Cost: 1 + rnd.Uint64N(1<<40)}
		switch rnd.IntN(4) {
		case 0:
			e.Tier = "free"
		case 1:
			e.Policy, e.Limits = "", []policy.Limit{{Name: "a"}, {Name: "minute"}}
		case 2:
			e.Limits = []policy.Limit{}
		}
		for range rnd.IntN(3) {
			e.Counted = append(e.Counted, LimitPrint(rnd.Uint32()))
		}
		entries = append(entries, e)
	}
	target.Hashed = rnd.IntN(4) == 0
	return target, "default", entries
}

func TestAnIDBringsBackWhatItWasMadeOf(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	here, there := NewSealer(1, SealingSecret{1, testSecret}), NewSealer(1, SealingSecret{1, testSecret})
	seen := map[string]bool{}
	for range 2000 {
		target, namespace, entries := anyHandle(rnd)
		text := here.Seal(target, namespace, entries)
		got, err := there.Open(text)
		want := Request{Op: Settle, Namespace: namespace, Entries: entries, Settlement: &Settlement{Target: target}}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%q says %+v, %v; want %+v", text, got, err, want)
		}
		if again := there.Seal(target, namespace, entries); again != text {
			t.Fatalf("the same hold has the ids %q and %q", text, again)
		}
		if seen[text] {
			t.Fatalf("%q names two holds", text)
		}
		seen[text] = true
	}
}

// TestAnIDHasOnlyTheNamesOfInlineLimits: the limits' numbers are in their record, not under the client's control.
func TestAnIDHasOnlyTheNamesOfInlineLimits(t *testing.T) {
	s := NewSealer(1, SealingSecret{1, testSecret})
	l := policy.Limit{Name: "a", Unit: "bytes", Shadow: true, Limit: limit.Limit{Algorithm: limit.Lifetime, Quota: 5}}
	got, err := s.Open(s.Seal(Target{Index: 1}, "default", []Entry{{Key: "k", Cost: 1, Limits: []policy.Limit{l}}}))
	if want := []policy.Limit{{Name: "a"}}; err != nil || !reflect.DeepEqual(got.Entries[0].Limits, want) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestAnIDIsNeitherReadNorMadeByClients(t *testing.T) {
	s := NewSealer(1, SealingSecret{1, testSecret})
	text := s.Seal(Target{Hold: true, Position: Position{3, 7, 12}, Index: 1, DecidedAt: origin}, "default",
		[]Entry{{Policy: "login", Key: "mallory@example.com", Cost: 1}})
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(raw), "mallory") || strings.Contains(string(raw), "login") {
		t.Errorf("%q can be read", raw)
	}
	for i := range len(raw) * 8 {
		forged := append([]byte(nil), raw...)
		forged[i/8] ^= 1 << (i % 8)
		r, err := s.Open(base64.RawURLEncoding.EncodeToString(forged))
		if anotherSecret := i/8 == 1 && errors.Is(err, ErrHandleNewer); !anotherSecret && !errors.Is(err, ErrHandle) {
			t.Fatalf("with bit %d flipped it is read as %+v, %v", i, r, err)
		}
	}
	for _, wrong := range []string{"", "A", text[:len(text)-1], text + "A", text + "\n", text + "=", " " + text, "{}"} {
		if r, err := s.Open(wrong); !errors.Is(err, ErrHandle) {
			t.Errorf("%q is read as %+v, %v", wrong, r, err)
		}
	}
	if r, err := NewSealer(1, SealingSecret{1, [32]byte{1, 2, 4}}).Open(text); !errors.Is(err, ErrHandle) {
		t.Errorf("another cluster reads %+v, %v", r, err)
	}
}

// TestTheLastCharacterOfAnIDCounts: the unused bits of the last character must not be changed either.
func TestTheLastCharacterOfAnIDCounts(t *testing.T) {
	s := NewSealer(1, SealingSecret{1, testSecret})
	for n := range 3 {
		text := s.Seal(Target{Index: 1}, "default", []Entry{{Policy: "p", Key: strings.Repeat("k", n+1), Cost: 1}})
		for _, c := range "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_" {
			other := text[:len(text)-1] + string(c)
			if _, err := s.Open(other); (err == nil) != (other == text) {
				t.Fatalf("%q of %q: %v", other, text, err)
			}
		}
	}
}

// Clients keep ids, so these are read by every release, whichever secret seals now.
func TestGoldenIDs(t *testing.T) {
	hold := Target{Hold: true, Position: Position{3, 7, 12}, Index: 1, DecidedAt: 1_700_000_000_000_000}
	decision := Target{Position: Position{3, 7, 13}, Index: 2, DecidedAt: 1_700_000_000_000_001, Retention: 600_000_000}
	for _, golden := range []struct {
		id, namespace string
		target        Target
		entry         Entry
	}{
		{"AQFDWcr4QEdOcPyPm0CX7I1li5tuVPLhXVvDoI-KpkUOVzJF9-B6nqSIYAd5pR_TvIsE65I9-VKz9htORE7O2tY5zFnu",
			"default", hold, Entry{Policy: "login", Key: "user:42", Cost: 2}},
		{"AQE0sfCC0sc0knzL-asnH1dtOHWOl8HnfOzzOM2EuLVF3uh9uvPx3AEpzjHfAhUTkEKKYQBlnz_M0L6BbHnzqab52C_93vf3W2JaECh47A",
			"shop", decision, Entry{Policy: "login", Key: "user:42", Tier: "free", Cost: 2,
				Counted: []LimitPrint{7, 65535}}},
	} {
		want := Request{Op: Settle, Namespace: golden.namespace, Entries: []Entry{golden.entry},
			Settlement: &Settlement{Target: golden.target}}
		for _, s := range []*Sealer{NewSealer(1, SealingSecret{1, testSecret}), rotated(1), rotated(2)} {
			if got, err := s.Open(golden.id); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%q says %+v, %v; want %+v", golden.id, got, err, want)
			}
		}
		if id := rotated(1).Seal(golden.target, golden.namespace, want.Entries); id != golden.id {
			t.Errorf("the id is %q, and must be %q", id, golden.id)
		}
	}
}

// rotated returns the Sealer of a cluster with the secrets 1, 2 and 300.
func rotated(seals uint32) *Sealer {
	return NewSealer(seals, SealingSecret{1, testSecret}, SealingSecret{2, [32]byte{2}},
		SealingSecret{300, [32]byte{3}})
}

// An id says which secret sealed it, and is opened by that one alone, as long as it is there.
func TestAnIDNamesTheSecretThatSealedIt(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	without := map[uint32]*Sealer{
		1:   NewSealer(300, SealingSecret{2, [32]byte{2}}, SealingSecret{300, [32]byte{3}}),
		2:   NewSealer(300, SealingSecret{1, testSecret}, SealingSecret{300, [32]byte{3}}),
		300: NewSealer(2, SealingSecret{1, testSecret}, SealingSecret{2, [32]byte{2}}),
	}
	wrong := NewSealer(1, SealingSecret{1, [32]byte{9}}, SealingSecret{2, [32]byte{9}}, SealingSecret{300, [32]byte{9}})
	for range 200 {
		target, namespace, entries := anyHandle(rnd)
		want := Request{Op: Settle, Namespace: namespace, Entries: entries, Settlement: &Settlement{Target: target}}
		for seals, refusal := range map[uint32]error{1: ErrHandleDropped, 2: ErrHandleDropped, 300: ErrHandleNewer} {
			text := rotated(seals).Seal(target, namespace, entries)
			if got, err := rotated(1).Open(text); err != nil || !reflect.DeepEqual(got, want) {
				t.Fatalf("%q, sealed by number %d, says %+v, %v; want %+v", text, seals, got, err, want)
			}
			if got, err := without[seals].Open(text); !errors.Is(err, refusal) {
				t.Fatalf("without number %d its id says %+v, %v; want %v", seals, got, err, refusal)
			}
			if got, err := wrong.Open(text); !errors.Is(err, ErrHandle) {
				t.Fatalf("with another number %d it says %+v, %v", seals, got, err)
			}
		}
	}
}

// The number of a secret has one form, and belongs to what is sealed.
func TestTheNumberInAnIDIsAuthenticated(t *testing.T) {
	// the same key, to see that
	s := NewSealer(2, SealingSecret{1, testSecret}, SealingSecret{2, testSecret}, SealingSecret{3, testSecret})
	target, namespace, entries := anyHandle(rand.New(rand.NewPCG(7, 8)))
	raw, err := base64.RawURLEncoding.DecodeString(s.Seal(target, namespace, entries))
	if err != nil || raw[0] != handleFormat || raw[1] != 2 {
		t.Fatalf("%x, %v", raw[:2], err)
	}
	rest := string(raw[2:])
	for _, head := range []string{"\x02", "\x01\x00", "\x01\x01", "\x01\x03", "\x01\x82\x00",
		"\x01\xff\xff\xff\xff\x1f", "\x02\x02"} {
		if r, err := s.Open(base64.RawURLEncoding.EncodeToString([]byte(head + rest))); !errors.Is(err, ErrHandle) {
			t.Errorf("with the head %x it is read as %+v, %v", head, r, err)
		}
	}
	for _, short := range []string{"", "\x01", "\x01\x02", "\x01\x04" + rest[:nonceSize-1], "\x01\xff"} {
		if r, err := s.Open(base64.RawURLEncoding.EncodeToString([]byte(short))); !errors.Is(err, ErrHandle) {
			t.Errorf("%x is read as %+v, %v", short, r, err)
		}
	}
}

// appendHandle writes what an id seals.
func appendHandle(b []byte, target *Target, namespace string, entries []Entry) []byte {
	c := MessageWriter(b)
	target.code(&c, &namespace)
	for i := range entries {
		c.handleEntry(&entries[i])
	}
	return c.Written()
}

func FuzzDecodeHandle(f *testing.F) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 8 {
		target, namespace, entries := anyHandle(rnd)
		f.Add(appendHandle(nil, &target, namespace, entries))
	}
	f.Fuzz(func(t *testing.T, plain []byte) {
		r, err := decodeHandle(plain)
		if err != nil {
			return
		}
		b := appendHandle(nil, &r.Settlement.Target, r.Namespace, r.Entries)
		again, err := decodeHandle(b)
		if err != nil || !reflect.DeepEqual(r, again) {
			t.Fatalf("%+v comes back as %+v, %v", r, again, err)
		}
	})
}

func BenchmarkID(b *testing.B) {
	s := NewSealer(1, SealingSecret{1, testSecret})
	r := Request{Op: Check, Namespace: "default", Entries: []Entry{{Policy: "per-ip", Key: "203.0.113.7", Cost: 1}}}
	d := Decision{Allowed: true, Position: Position{3, 7, 12}, Index: 1, DecidedAt: origin, Limits: []LimitStatus{
		{Policy: "per-ip", Key: "203.0.113.7", Limit: "minute"}, {Policy: "per-ip", Key: "203.0.113.7", Limit: "day"}}}
	d.Limits[0].Allowed, d.Limits[1].Allowed = true, true
	b.ReportAllocs()
	for b.Loop() {
		s.ID(&r, &d, policy.DefaultRetention)
	}
}
