package shard

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard/table"
)

// stamp is a position and time with numbers of more than one byte.
var stamp = Stamp{Position: Position{3, 300, 70_000}, Now: origin}

// samples are an entry of each kind, with their content.
var samples = []struct {
	name    string
	payload []byte
	entry   entry
}{
	{"epoch open", EncodeEpochOpen(3, origin, LevelNewest), entry{kind: epochOpen, shard: 3, time: origin}},
	{"batch", EncodeBatch(stamp, samplePuts), entry{batchEntry, 3, 300, 70_000, origin, samplePuts}},
	{"empty batch", EncodeBatch(stamp, nil), entry{batchEntry, 3, 300, 70_000, origin, []Put{}}},

	{"sum", EncodeSum(stamp), entry{sumEntry, 3, 300, 70_000, origin, nil}},
}

var samplePuts = []Put{
	{"key", Record{Value: []byte("value"), ForgetAt: origin + 1}},
	{"for ever", Record{Value: []byte{0}, ForgetAt: limit.Forever}},
	{"without a value", Record{Value: []byte{}, ForgetAt: origin}},
	{"forgotten", Record{}},
}

func TestEntryComesBack(t *testing.T) {
	for _, s := range samples {
		got, err := decodeEntry(s.payload)
		if err != nil || !reflect.DeepEqual(got, s.entry) {
			t.Errorf("%s came back as %+v, %v; written was %+v", s.name, got, err, s.entry)
		}
	}
	extreme := Stamp{Position: Position{math.MaxUint32, math.MaxUint64, math.MaxUint64}, Now: limit.Forever}
	got, err := decodeEntry(EncodeBatch(extreme, nil))
	if err != nil || got.shard != extreme.Shard || got.epoch != extreme.Epoch || got.seq != extreme.Seq ||
		got.time != extreme.Now {
		t.Errorf("%+v came back as %+v, %v", extreme, got, err)
	}
}

// These bytes are stored in users' logs and snapshots: a change needs a new feature level, and a reader for the old
// one.
func TestGoldenBytes(t *testing.T) {
	text := ""
	show := func(name string, b []byte) {
		text += name + "\n"
		for len(b) > 0 {
			n := min(len(b), 32)
			text += fmt.Sprintf("  %x\n", b[:n])
			b = b[n:]
		}
	}
	for _, s := range samples {
		show("entry: "+s.name, s.payload)
	}
	w := newWorld(t, everyAlgorithm())
	w.batch(origin+9, checkOf("p", "user:42", 2))
	request := checkOf("p", "user:42", 1)
	request.ID = "first"
	_, puts := w.batch(origin+1009, request)
	for _, p := range puts {
		show("record: key", []byte(p.Key))
		show("record: value", p.Value)
	}
	show("snapshot", fileOf(t, w.state.Snapshot()))
	for _, p := range clusterPuts() {
		show("record: key", []byte(p.Key))
		show("record: value", p.Value)
	}
	_, puts = w.batch(origin+2009, tallyOf("user:42", TallyTerms{Verb: TallySet, Amount: -300, TTL: minute}))
	show("record: key", []byte(puts[0].Key))
	show("record: a tally", puts[0].Value)
	show("record: a session with tallies", talliedSession().encode())
	show("record: a session with answers", answeredSession().encode())
	show("entry: a session, a document and an adoption", EncodeBatch(stamp, clusterPuts()))
	golden(t, "testdata/codec.golden", text)
}

// talliedSession returns a session with answers to tallies of one counter, and one of another.
func talliedSession() *session {
	s := &session{acked: 300}
	for n := range uint64(3) {
		s.add(&s.counted, 301+n)
		s.tell(301+n, &Tallied{Known: true, Done: true, Before: 70_000 + int64(n), Value: 70_001 + int64(n),
			EndsAt: origin})
	}
	s.add(&s.counted, 400)
	s.tell(400, &Tallied{Done: true, Before: math.MinInt64})
	return s
}

// answeredSession returns a session with answers to three checks of two batches: two of one shape, and one of two
// entries.
func answeredSession() *session {
	s := &session{acked: 300}
	one := LimitStatus{Policy: "p", Key: "k", Limit: "minute", Quota: 100,
		Verdict: limit.Verdict{Allowed: true, Used: 9, Remaining: 91, WindowStart: origin,
			ResetAt: origin + limit.Time(minute)}}
	other := LimitStatus{Policy: "q", Key: "k", Limit: "a", Quota: 5, Shadow: true, Held: 3,
		Verdict: limit.Verdict{Used: 5, RetryAfter: second}}
	entries := []Entry{{Policy: "p", Key: "k", Cost: 1}, {Policy: "q", Key: "k", Cost: 1}}
	answer := func(number uint64, seq uint64, index uint32, shown ...LimitStatus) {
		s.add(&s.counted, number)
		s.answer(number, &Request{Entries: entries[:len(shown)]}, &Decision{Allowed: true, ShadowDenied: len(shown) > 1,
			Index: index, DecidedAt: origin, Position: Position{3, 7, seq}, Limits: shown})
	}
	answer(301, 8, 1, one)
	s, _ = decodeSession(s.name, s.encode())
	answer(302, 9, 1, one)
	one.Used, one.Remaining = 10, 90
	answer(303, 9, 2, one)
	answer(400, 9, 5, one, other)
	return s
}

// everyAlgorithm returns a policy with a limit of each algorithm.
func everyAlgorithm() *policy.Policy {
	return onePolicy(
		limit.Limit{Algorithm: limit.FixedWindow, Quota: 100, Period: minute},
		limit.Limit{Algorithm: limit.FixedWindowFirstHit, Quota: 100, Period: day},
		limit.Limit{Algorithm: limit.SlidingWindow, Quota: 100, Period: minute},
		limit.Limit{Algorithm: limit.SlidingBuckets, Quota: 100_000, Period: day, Bucket: minute},
		limit.Limit{Algorithm: limit.SlidingLog, Quota: 1000, Period: 15 * minute},
		limit.Limit{Algorithm: limit.TokenBucket, Quota: 200, Period: second, Count: 50, Initial: 20},
		limit.Limit{Algorithm: limit.GCRA, Quota: 200, Period: second, Count: 50},
		limit.Limit{Algorithm: limit.Lifetime, Quota: 1_000_000_000},
		limit.Limit{Algorithm: limit.Unlimited},
	)
}

func TestEntryRefusesEveryFlippedBitAndEveryCut(t *testing.T) {
	for _, s := range samples {
		for i := range len(s.payload) * 8 {
			broken := bytes.Clone(s.payload)
			broken[i/8] ^= 1 << (i % 8)
			if _, err := decodeEntry(broken); err == nil {
				t.Errorf("%s: bit %d of byte %d may be wrong", s.name, i%8, i/8)
			}
		}
		for n := range len(s.payload) {
			if _, err := decodeEntry(s.payload[:n]); err == nil {
				t.Errorf("%s: %d of %d bytes are enough", s.name, n, len(s.payload))
			}
		}
		if _, err := decodeEntry(append(bytes.Clone(s.payload), 0)); err == nil {
			t.Errorf("%s: a byte more does not matter", s.name)
		}
	}
}

// A correct checksum does not make an entry valid: another version, or a bug, may have written these.
func TestEntryOfAnotherVersionHalts(t *testing.T) {
	body := func(s int) []byte { return bytes.Clone(samples[s].payload[:len(samples[s].payload)-4]) }
	newer, kind := body(0), body(0)
	newer[0], kind[1] = byte(LevelNewest+1), 9
	long := appendString(binary.AppendUvarint(appendHead(nil, batchEntry, stamp), 1),
		strings.Repeat("k", table.MaxKeyBytes+1))
	long = append(long, 0, 2, 1)
	for _, c := range []struct {
		body []byte
		want string
	}{
		{newer, fmt.Sprintf("level %d, this version reads %d: run a newer version", LevelNewest+1, LevelNewest)},
		{kind, "unknown kind 9: run a newer version"},
		{append(body(0), 0), "malformed"},
		{body(1)[:len(body(1))-1], "malformed"},
		{append(appendHead(nil, batchEntry, stamp), 0xff, 0xff, 0xff, 0xff, 0x0f), "malformed"},
		{long, "malformed"},
	} {
		s := NewState(3)
		if _, err := s.Install(appendChecksum(c.body), 1, 1); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%x: %v; expected: %s", c.body[:min(len(c.body), 40)], err, c.want)
		}
		if s.Sum() != NewState(3).Sum() {
			t.Errorf("%x changed the state", c.body)
		}
	}
}

// An entry that every replica would reject must not get into the log.
func TestEncodeBatchPanicsOnAKeyNobodyReads(t *testing.T) {
	for _, length := range []int{0, table.MaxKeyBytes + 1} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("a key of %d bytes is written", length)
				}
			}()
			EncodeBatch(stamp, []Put{{Key: strings.Repeat("k", length), Record: Record{Value: []byte{1}}}})
		}()
	}
}

func TestCounterComesBack(t *testing.T) {
	w := newWorld(t, everyAlgorithm())
	var last Put
	for i := range 5 {
		_, puts := w.batch(origin+limit.Time(i*7777), checkOf("p", "user:42", 2))
		last = puts[0]
	}
	limits := everyAlgorithm().Limits
	for _, names := range [][]policy.Limit{limits, nil, limits[1:]} {
		c := counter{key: last.Key, policy: inlinePolicy}
		if err := c.decode(last.Value, names); err != nil {
			t.Fatal(err)
		}
		if again := c.encode(w.state.Time()); !reflect.DeepEqual(again, last) {
			t.Errorf("%x came back as %x", last.Value, again.Value)
		}
	}
}

// everyStatus returns a request and a decision that use every field of an answer record.
func everyStatus() (*Request, *Decision) {
	r := &Request{Op: Check, Namespace: "default", ID: "first", Entries: []Entry{
		{Policy: "p", Key: "user:42", Cost: 1 << 40, Tier: "gold"}, {Policy: "q", Key: "user:42", Cost: 1},
		{Policy: "p", Key: "", Cost: 7}}}
	d := &Decision{Allowed: true, ShadowDenied: true, DecidedAt: origin, Position: Position{3, 300, 70_000},
		Index: 1000}
	for i := range 5 {
		e := r.Entries[i/2]
		d.Limits = append(d.Limits, LimitStatus{Policy: e.Policy, Key: e.Key, Limit: fmt.Sprint("limit ", i),
			Quota: 1 << 53, Unlimited: i == 0, Shadow: i == 1, Verdict: limit.Verdict{Allowed: i != 2, Used: uint64(i),
				Remaining: 5, WindowStart: origin - 1, ResetAt: origin + 1, RetryAfter: limit.Span(i) - 1}})
	}
	return r, d
}

func TestAnswerComesBack(t *testing.T) {
	r, d := everyStatus()
	value := encodeAnswer(r, d)
	got, same, err := decodeAnswer(value, r)
	d.Replayed = true
	if err != nil || !same || !reflect.DeepEqual(got, *d) {
		t.Errorf("%+v\ncame back as %+v, %v, %v", *d, got, same, err)
	}
	for n := range len(value) {
		if _, same, err := decodeAnswer(value[:n], r); same && err == nil {
			t.Errorf("%d of %d bytes are enough", n, len(value))
		}
	}
	if _, _, err := decodeAnswer(append(value, 0), r); err == nil {
		t.Error("a byte more does not matter")
	}
}

func TestATallysAnswerComesBack(t *testing.T) {
	r := tallyOf("k", TallyTerms{Verb: TallyAdd, Amount: 5})
	for _, tallied := range []Tallied{{}, {Known: true, Done: true, Before: math.MaxInt64, Value: math.MinInt64,
		EndsAt: limit.MaxTime}} {
		d := &Decision{Allowed: true, DecidedAt: origin, Position: Position{3, 300, 70_000}, Index: 1,
			Tallied: &tallied}
		value := encodeAnswer(&r, d)
		got, same, err := decodeAnswer(value, &r)
		d.Replayed = true
		if err != nil || !same || !reflect.DeepEqual(got, *d) {
			t.Errorf("%+v\ncame back as %+v, %v, %v", *d, got, same, err)
		}
	}
	other := tallyOf("k", TallyTerms{Verb: TallyAdd, Amount: 6})
	if Fingerprint(&r) == Fingerprint(&other) {
		t.Error("an id would not tell two tallies apart")
	}
}

// Requests are the same only if everything that affects the decision is the same.
func TestAnswerIsForOneRequest(t *testing.T) {
	original, d := everyStatus()
	value := encodeAnswer(original, d)
	for name, change := range map[string]func(r *Request){
		"op":        func(r *Request) { r.Op = Reset },
		"namespace": func(r *Request) { r.Namespace = "other" },
		"limit":     func(r *Request) { r.Limit = "a" },
		"policy":    func(r *Request) { r.Entries[0].Policy = "q" },
		"key":       func(r *Request) { r.Entries[2].Key = "user:43" },
		"cost":      func(r *Request) { r.Entries[1].Cost++ },
		"tier":      func(r *Request) { r.Entries[0].Tier = "" },
		"order":     func(r *Request) { r.Entries[0], r.Entries[1] = r.Entries[1], r.Entries[0] },
		"one less":  func(r *Request) { r.Entries = r.Entries[:2] },
		"one more":  func(r *Request) { r.Entries = append(r.Entries, Entry{}) },
	} {
		r, _ := everyStatus()
		change(r)
		if _, same, err := decodeAnswer(value, r); same || err != nil {
			t.Errorf("another %s is the same request (%v)", name, err)
		}
	}
	r, _ := everyStatus()
	r.NotAfter, r.ID = origin, "" // origin and time of the request do not matter
	if _, same, _ := decodeAnswer(value, r); !same {
		t.Error("a request sent again with another deadline is not the same")
	}
}

func TestTimeOfUUIDv7(t *testing.T) {
	for id, want := range map[string]limit.Time{
		"017f22e2-79b0-7cc3-98c4-dc0c0c07398f": 1645557742000_000, // the example of RFC 9562, appendix A.6
		"017F22E2-79B0-7CC3-98C4-DC0C0C07398F": 1645557742000_000,
		"00000000-0000-7000-8000-000000000000": 0,
		"ffffffff-ffff-7fff-bfff-ffffffffffff": (1<<48 - 1) * 1000,
	} {
		if got, ok := timeOfUUIDv7(id); !ok || got != want {
			t.Errorf("%s was made at %d, %v; expected %d", id, got, ok, want)
		}
	}
	for _, id := range []string{
		"", "first", "017f22e279b07cc398c4dc0c0c07398f", // without dashes
		"017f22e2-79b0-4cc3-98c4-dc0c0c07398f",  // version 4
		"017f22e2-79b0-7cc3-18c4-dc0c0c07398f",  // another variant
		"017f22e2-79b0-7cc3-98c4-dc0c0c07398g",  // not hexadecimal
		"017f22e2-79b0-7cc3-98c4-dc0c0c07398",   // too short
		"017f22e2-79b0-7cc3-98c4-dc0c0c07398f0", // too long
		"017f22e2-79b0-7cc3-98c4-dc0c0c07-98f",  // a dash in the wrong place
		"017f22e2 79b0-7cc3-98c4-dc0c0c07398f",
	} {
		if at, ok := timeOfUUIDv7(id); ok {
			t.Errorf("%q is a UUIDv7 made at %d", id, at)
		}
	}
}

// FuzzDecodeEntry decodes bodies with correct checksums. It encodes accepted ones again.
func FuzzDecodeEntry(f *testing.F) {
	for _, s := range samples {
		f.Add(s.payload[:len(s.payload)-4])
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		decodeEntry(body)
		e, err := decodeEntry(appendChecksum(bytes.Clone(body)))
		if err != nil {
			return
		}
		if cap(e.puts) > len(body) {
			t.Fatalf("room for %d puts in %d bytes", cap(e.puts), len(body))
		}
		at := Stamp{Position: Position{e.shard, e.epoch, e.seq}, Now: e.time}
		again := map[entryKind][]byte{batchEntry: EncodeBatch(at, e.puts), sumEntry: EncodeSum(at),
			epochOpen: appendChecksum(appendHead(nil, epochOpen, at))}[e.kind]
		if back, err := decodeEntry(again); err != nil || !sameEntry(back, e) {
			t.Fatalf("%+v was written again and came back as %+v, %v", e, back, err)
		}
		installFuzzed(t, &e, body)
	})
}

// sameEntry ignores the end of a forgotten key, which is not written.
func sameEntry(a, b entry) bool {
	for _, e := range []*entry{&a, &b} {
		for i := range e.puts {
			if e.puts[i].Value == nil {
				e.puts[i].ForgetAt = 0
			}
		}
	}
	return reflect.DeepEqual(a, b)
}

func installFuzzed(t *testing.T, e *entry, body []byte) {
	s := NewState(e.shard)
	s.epoch, s.term, s.seq = e.epoch, 1, e.seq-1
	if _, err := s.Install(appendChecksum(bytes.Clone(body)), 7, 1); err == nil {
		audit(t, s)
	}
}

// FuzzRestore first corrects the checksum at the end.
func FuzzRestore(f *testing.F) {
	f.Add(fileOf(f, NewState(3).Snapshot()))
	f.Add(fileOf(f, small(f).Snapshot()))
	f.Add(fileOf(f, filled(f, 100, windowLimit).Snapshot()))
	f.Fuzz(func(t *testing.T, file []byte) {
		Restore(3, bytes.NewReader(file))
		if len(file) < 4 {
			return
		}
		fixed := bytes.Clone(file)
		end := len(file) - 4
		binary.LittleEndian.PutUint32(fixed[end:], crc32.Checksum(fixed[:end], castagnoli))
		s, err := Restore(3, bytes.NewReader(fixed))
		if err != nil {
			return
		}
		audit(t, s)
		if back := restored(t, fileOf(t, s.Snapshot())); back.Sum() != s.Sum() {
			t.Fatalf("sum %016x came back as %016x", s.Sum(), back.Sum())
		}
	})
}

func FuzzCounter(f *testing.F) {
	w := newWorld(f, everyAlgorithm())
	for i := range 3 {
		_, puts := w.batch(origin+limit.Time(i), checkOf("p", "user:42", 2))
		f.Add(puts[0].Value)
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		c, again := counter{policy: inlinePolicy}, counter{policy: inlinePolicy}
		if c.decode(value, everyAlgorithm().Limits) != nil {
			return
		}
		if cap(c.limits) > len(value)+9 {
			t.Fatalf("room for %d limits in %d bytes", cap(c.limits), len(value))
		}
		p := c.encode(0)
		if err := again.decode(p.Value, nil); err != nil || !reflect.DeepEqual(again.encode(0), p) {
			t.Fatalf("%x was written again and came back as %x, %v", p.Value, again.encode(0).Value, err)
		}
		for i, l := range everyAlgorithm().Limits {
			c.at(i, &l, origin)
		}
	})
}

func FuzzAnswer(f *testing.F) {
	r, d := everyStatus()
	f.Add(encodeAnswer(r, d))
	f.Add(encodeAnswer(r, &Decision{}))
	f.Fuzz(func(t *testing.T, value []byte) {
		if len(value) >= 9 {
			value = bytes.Clone(value)
			binary.LittleEndian.PutUint64(value[1:], Fingerprint(r))
		}
		d, same, err := decodeAnswer(value, r)
		if err != nil || !same {
			return
		}
		if cap(d.Limits) > len(value) {
			t.Fatalf("room for %d limits in %d bytes", cap(d.Limits), len(value))
		}
	})
}

func FuzzSession(f *testing.F) {
	f.Add(clusterPuts()[0].Value)
	f.Add((&session{}).encode())
	f.Add(talliedSession().encode())
	f.Add(answeredSession().encode())
	f.Fuzz(func(t *testing.T, value []byte) {
		s, err := decodeSession(Session{1, 1, 1}, value)
		if err != nil {
			return
		}
		if cap(s.tallies) > len(value)/4 {
			t.Fatalf("room for %d tallies in %d bytes", cap(s.tallies), len(value))
		}
		if room := cap(s.counted.bits) + cap(s.closed.bits); room > len(value)+2*64 {
			t.Fatalf("room for %d bytes in %d", room, len(value))
		}
		if s.answerBytes() > sessionAnswers {
			return // the oldest are dropped when it is written
		}
		again, err := decodeSession(s.name, s.encode())
		if err != nil || !reflect.DeepEqual(again, s) {
			t.Fatalf("%x was written again and came back as %+v, %v", value, again, err)
		}
		for _, set := range []*numbers{&s.counted, &s.closed} {
			if set.has(s.acked) || len(set.bits) > sessionWindow/8+1 {
				t.Fatalf("%x remembers what is finished, or too much: %d bytes above %d", value, len(set.bits), s.acked)
			}
		}
		for i := range s.answered {
			s.answerTo(s.answered[i].last, 3, &Request{Entries: []Entry{{Policy: "p", Key: "k"}}})
		}
		s.ack(s.acked + 9)
		s.tell(s.acked+sessionWindow, &Tallied{Value: math.MinInt64})
		s.add(&s.counted, s.acked+1)
		s.add(&s.closed, s.acked+sessionWindow)
		if _, err := decodeSession(s.name, s.encode()); err != nil {
			t.Fatalf("%x cannot go on: %v", value, err)
		}
	})
}

func FuzzDocumentAndAdoption(f *testing.F) {
	for _, p := range clusterPuts()[1:] {
		f.Add(p.Value)
	}
	f.Add(adoptPut(policy.Revision{Version: 8, Text: []byte("y")}, []numberChange{{"p", "a", origin}}).Value)
	f.Fuzz(func(t *testing.T, value []byte) {
		if version, body, ok := versioned(value); ok {
			v, again, ok := versioned(encodeDocument(version, body))
			if !ok || v != version || !bytes.Equal(again, body) {
				t.Fatalf("document %x came back as version %d, %x, %v", value, v, again, ok)
			}
		}
		if version, text, changes, err := decodeAdoption(value); err == nil {
			p := adoptPut(policy.Revision{Version: version, Text: text}, changes)
			if v, again, same, err := decodeAdoption(p.Value); err != nil || v != version ||
				!bytes.Equal(again, text) || !slices.Equal(same, changes) {
				t.Fatalf("adoption %x came back as %d, %q, %v", value, v, again, err)
			}
		}
	})
}

// encode writes a record into memory of its own.
func (c *counter) encode(now limit.Time) Put {
	p, _ := c.appendTo(make([]byte, 0, recordRoom), now)
	return p
}
