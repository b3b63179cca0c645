package shard

import (
	"bytes"

	"errors"
	"fmt"

	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// fileOf returns the state's snapshot as a file.
func fileOf(t testing.TB, p *Snapshot) []byte {
	t.Helper()
	var file bytes.Buffer
	n, err := p.WriteTo(&file)
	if err != nil || n != int64(file.Len()) {
		t.Fatalf("wrote %d of %d bytes: %v", n, file.Len(), err)
	}
	return file.Bytes()
}

func restored(t testing.TB, file []byte) *State {
	t.Helper()
	s, err := Restore(3, bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	audit(t, s)
	return s
}

// TestReplicasAgree installs one log on several replicas. At random points one is thrown away and rebuilt from
// another's snapshot, which is written while that one goes on.
func TestReplicasAgree(t *testing.T) {
	t.Parallel()
	rnd := seeded(t)
	replicas := []*State{NewState(3), NewState(3), NewState(3)}
	log := newLog(rnd)
	for range 60 {
		for range 1 + rnd.IntN(30) {
			log.next(t, replicas)
		}
		from, to := rnd.IntN(3), rnd.IntN(3)
		sum, records := replicas[from].Sum(), allRecords(replicas[from])
		picture := replicas[from].Snapshot()
		file := make(chan []byte)
		go func() {
			var b bytes.Buffer
			picture.WriteTo(&b)
			file <- b.Bytes()
		}()
		tail := log.next(t, replicas)
		for range rnd.IntN(30) {
			tail = append(tail, log.next(t, replicas)...)
		}
		fresh := restored(t, <-file)
		if fresh.Sum() != sum || !reflect.DeepEqual(allRecords(fresh), records) {
			t.Fatalf("the picture of sum %016x came back as %016x", sum, fresh.Sum())
		}
		for _, e := range tail {
			if _, err := fresh.Install(e.payload, e.index, e.term); err != nil {
				t.Fatal(err)
			}
		}
		replicas[to] = fresh
		agree(t, replicas)
	}
	if log.swept == 0 || log.mostRecords < 200 {
		t.Fatalf("too little happened: %d records swept, %d at most", log.swept, log.mostRecords)
	}
}

func agree(t testing.TB, replicas []*State) {
	t.Helper()
	first := replicas[0]
	for i, s := range replicas {
		audit(t, s)
		if s.Sum() != first.Sum() || s.Records() != first.Records() || s.Time() != first.Time() ||
			s.Epoch() != first.Epoch() || s.Seq() != first.Seq() {
			t.Fatalf("replica %d has sum %016x and %d records, replica 0 %016x and %d", i, s.Sum(), s.Records(),
				first.Sum(), first.Records())
		}
	}
}

type logged struct {
	payload     []byte
	index, term uint64
}

// randomLog makes the entries of a sequence of owners, and some of deposed ones.
type randomLog struct {
	rnd         *rand.Rand
	index, term uint64
	now         limit.Time
	flood       bool // many keys that end soon, then few
	swept       int
	mostRecords int
}

func newLog(rnd *rand.Rand) *randomLog { return &randomLog{rnd: rnd, term: 1, now: origin} }

// next appends an entry and installs it everywhere.
func (l *randomLog) next(t testing.TB, replicas []*State) []logged {
	t.Helper()
	l.index++
	l.now += limit.Time(l.rnd.IntN(int(second)))
	payload := l.entry(replicas[0])
	before := replicas[0].Records()
	var first Outcome
	for i, s := range replicas {
		outcome, err := s.Install(payload, l.index, l.term)
		if err != nil {
			t.Fatalf("replica %d, entry %d: %v", i, l.index, err)
		}
		if i == 0 {
			first = outcome
		}
		if outcome != first || s.Sum() != replicas[0].Sum() {
			t.Fatalf("entry %d: replica %d says %+v, sum %016x, replica 0 %+v, sum %016x", l.index, i, outcome, s.Sum(),
				first, replicas[0].Sum())
		}
	}
	l.swept += max(0, before-replicas[0].Records())
	l.mostRecords = max(l.mostRecords, replicas[0].Records())
	return []logged{{payload, l.index, l.term}}
}

func (l *randomLog) entry(s *State) []byte {
	at := Stamp{Position: Position{3, s.Epoch(), s.Seq() + 1}, Now: l.now}
	switch n := l.rnd.IntN(100); {
	case n < 3 || s.Epoch() == 0:
		l.term += uint64(l.rnd.IntN(2))
		return EncodeEpochOpen(3, l.now-limit.Time(l.rnd.IntN(int(minute))), LevelNewest)
	case n < 6:
		return EncodeSum(at)
	case n < 9:
		at.Seq += uint64(l.rnd.IntN(3)) - 1
	case n < 12:
		at.Epoch--
	case n < 20:
		l.flood = !l.flood
	}
	var puts []Put
	for range l.rnd.IntN(100) {
		p := Put{Key: fmt.Sprint("key ", l.rnd.IntN(300))}
		if l.flood {
			p.Key = fmt.Sprint("flood ", l.rnd.Uint32())
		}
		if l.rnd.IntN(10) > 0 {
			p.Record = Record{Value: make([]byte, 1+l.rnd.IntN(30)),
				ForgetAt: l.now + limit.Time(l.rnd.IntN(int(30*second)))}
			p.Value[0] = byte(l.rnd.Uint32())
		}
		puts = append(puts, p)
	}
	return EncodeBatch(at, puts)
}

// A shard that once held very many keys and has forgotten them can be restored from its snapshot.
func TestRestoreAfterAFloodHasPassed(t *testing.T) {
	w := newWorld(t, onePolicy(windowLimit))
	for i := range 500 {
		requests := make([]Request, 100)
		for j := range requests {
			requests[j] = checkOf("p", fmt.Sprint(i, "/", j), 1)
		}
		w.batch(origin+limit.Time(i), requests...)
	}
	for i := 0; w.state.Records() > 0; i++ {
		if i > 5000 {
			t.Fatalf("%d dead records are left", w.state.Records())
		}
		w.batch(origin + limit.Time(hour) + limit.Time(i))
	}
	if s := restored(t, fileOf(t, w.state.Snapshot())); s.Sum() != w.state.Sum() {
		t.Errorf("sum %016x came back as %016x", w.state.Sum(), s.Sum())
	}
}

// small returns a state with a record of each kind.
func small(t testing.TB) *State {
	w := newWorld(t, onePolicy(bucketLimit, logLimit))
	request := checkOf("p", "user:42", 3)
	request.ID = "first"
	w.batch(origin+5, request)
	w.batch(origin+6, checkOf("p", "user:43", 1), checkOf("p", "user:42", 1))
	w.append(EncodeBatch(w.next(origin+7), clusterPuts()))
	return w.state
}

// clusterPuts returns a record of each kind without a key, with numbers of more than one byte where possible.
func clusterPuts() []Put {
	s := &session{name: Session{300, 70_000, 1}, acked: 1_000_000}
	for _, n := range []uint64{1_000_001, 1_000_002, 1_000_100} {
		s.counted.add(n)
	}
	s.closed.add(1_000_050)
	return []Put{
		s.put(origin),
		{documentKey("table"), Record{Value: encodeDocument(300, []byte(`{"Shards":4}`)), ForgetAt: limit.Forever}},
		adoptPut(policy.Revision{Version: 300, Text: []byte("policies: {}\n")}, nil),
	}
}

func TestSnapshotRefusesEveryFlippedBitAndEveryCut(t *testing.T) {
	file := fileOf(t, small(t).Snapshot())
	for i := range len(file) * 8 {
		broken := bytes.Clone(file)
		broken[i/8] ^= 1 << (i % 8)
		if _, err := Restore(3, bytes.NewReader(broken)); err == nil {
			t.Fatalf("bit %d of byte %d may be wrong", i%8, i/8)
		}
	}
	for n := range len(file) {
		if _, err := Restore(3, bytes.NewReader(file[:n])); err == nil {
			t.Fatalf("%d of %d bytes are enough", n, len(file))
		}
	}
	if _, err := Restore(4, bytes.NewReader(file)); err == nil || !strings.Contains(err.Error(), "shard 3's") {
		t.Errorf("another shard's snapshot: %v", err)
	}
}

// TestSnapshotReportsAFailedWrite fails each of the writes of a large snapshot in turn.
func TestSnapshotReportsAFailedWrite(t *testing.T) {
	picture := filled(t, 5000, windowLimit).Snapshot()
	writes := &failingWriter{after: 1 << 30}
	if _, err := picture.WriteTo(writes); err != nil {
		t.Fatal(err)
	}
	for n := range writes.calls {
		if _, err := picture.WriteTo(&failingWriter{after: n}); !errors.Is(err, errFull) {
			t.Errorf("write %d of %d failed, WriteTo says %v", n, writes.calls, err)
		}
	}
}

var errFull = errors.New("the disk is full")

type failingWriter struct{ calls, after int }

func (w *failingWriter) Write(b []byte) (int, error) {
	if w.calls++; w.calls > w.after {
		return 0, errFull
	}
	return len(b), nil
}
