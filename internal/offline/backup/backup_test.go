package backup

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

const origin limit.Time = 1_767_571_200_000_000

// testState returns a shard with some keys.
func testState(t testing.TB, id shard.ID, keys int) *shard.State {
	t.Helper()
	state := shard.NewState(id)
	if _, err := state.Install(shard.EncodeEpochOpen(id, origin, shard.LevelNewest), 7, 2); err != nil {
		t.Fatal(err)
	}
	set := policy.NewSet([]*policy.Policy{{Name: "p", Retention: policy.DefaultRetention,
		Limits: []policy.Limit{{Name: "a", Limit: limit.Limit{Algorithm: limit.Lifetime, Quota: 10}}}}})
	var requests []shard.Request
	for n := range keys {
		requests = append(requests, shard.Request{Op: shard.Check, Namespace: "default",
			Entries: []shard.Entry{{Policy: "p", Key: fmt.Sprint("key-", n), Cost: 3}}})
	}
	if id == shard.System {
		requests = []shard.Request{{Op: shard.Swap, Namespace: "system", Document: "policies",
			Body: policy.Format(set)}}
	}
	at := shard.Stamp{Position: shard.Position{Shard: id, Epoch: state.Epoch(), Seq: 1}, Now: origin + 5}
	_, puts := shard.Evaluate(state, set, requests, at)
	if _, err := state.Install(shard.EncodeBatch(at, puts), 8, 2); err != nil {
		t.Fatal(err)
	}
	return state
}

var header = Header{Cluster: "c1", Release: "v9", Level: shard.LevelNewest, Shards: 2, Begun: int64(origin)}

// write writes all sections of a file.
func write(t testing.TB, w *Writer, states []*shard.State) {
	t.Helper()
	for _, state := range states {
		if err := w.Section(func(out io.Writer) error {
			_, err := state.Snapshot().WriteTo(out)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
}

func fileOf(t testing.TB, h Header, states ...*shard.State) []byte {
	t.Helper()
	var file bytes.Buffer
	w, err := NewWriter(&file, h)
	if err != nil {
		t.Fatal(err)
	}
	write(t, w, states)
	if w.Written() != int64(file.Len()) {
		t.Errorf("%d bytes are counted, of %d", w.Written(), file.Len())
	}
	return file.Bytes()
}

func small(t testing.TB) []byte {
	return fileOf(t, header, testState(t, 0, 5), testState(t, 1, 0), testState(t, shard.System, 0))
}

func read(file []byte) (*Backup, error) { return Read(bytes.NewReader(file), int64(len(file))) }

func TestABackupComesBack(t *testing.T) {
	states := []*shard.State{testState(t, 0, 3000), testState(t, 1, 1), testState(t, shard.System, 0)}
	b, err := read(fileOf(t, header, states...))
	if err != nil {
		t.Fatal(err)
	}
	if b.Header != header || len(b.Data) != 2 {
		t.Errorf("it has %+v and %d shards", b.Header, len(b.Data))
	}
	for i, got := range append(b.Data, b.System) {
		if want := states[i]; got.Sum() != want.Sum() || got.Records() != want.Records() || got.Time() != want.Time() ||
			got.Epoch() != 7 {
			t.Errorf("shard %d has %d records with sum %+v", i, got.Records(), got.Sum())
		}
	}
}

func TestEveryFlippedByteIsDetected(t *testing.T) {
	file := small(t)
	for i := range file {
		file[i] ^= 0x10
		if _, err := read(file); err == nil {
			t.Errorf("byte %d of %d was flipped, and nobody noticed", i, len(file))
		}
		file[i] ^= 0x10
	}
	for n := range file {
		if _, err := read(file[:n]); !errors.Is(err, ErrDamaged) {
			t.Errorf("%d of %d bytes: %v", n, len(file), err)
		}
	}
	if _, err := read(append(file, 0)); !errors.Is(err, ErrDamaged) {
		t.Errorf("a byte more: %v", err)
	}
}

// TestABackupIsOfAllShardsInOrder: a file with a shard too few or too many is not restored.
func TestABackupIsOfAllShardsInOrder(t *testing.T) {
	w, _ := NewWriter(io.Discard, header)
	if err := w.Finish(); err == nil || !strings.Contains(err.Error(), "shard 0 is missing") {
		t.Errorf("an empty backup: %v", err)
	}
	more := header
	for _, shards := range []uint32{1, 3} {
		more.Shards = shards
		file := fileOf(t, header, testState(t, 0, 1), testState(t, 1, 1), testState(t, shard.System, 0))
		honest := bytes.Replace(file, []byte(`"Shards":2`), fmt.Appendf(nil, `"Shards":%d`, shards), 1)
		if _, err := decode(bufio.NewReader(bytes.NewReader(honest[:len(honest)-32]))); !errors.Is(err, ErrDamaged) {
			t.Errorf("with %d shards in the header: %v", shards, err)
		}
	}
	swapped := fileOf(t, header, testState(t, 1, 1), testState(t, 0, 1), testState(t, shard.System, 0))
	if _, err := read(swapped); !errors.Is(err, ErrDamaged) {
		t.Errorf("in another order: %v", err)
	}
}

func TestABackupOfANewerReleaseSaysWhichOneReadsIt(t *testing.T) {
	newer := header
	newer.Level = shard.LevelNewest + 1
	_, err := read(fileOf(t, newer, testState(t, 0, 1), testState(t, 1, 1), testState(t, shard.System, 0)))
	if err == nil || !strings.Contains(err.Error(), "run v9 or newer") || errors.Is(err, ErrDamaged) {
		t.Errorf("a newer level: %v", err)
	}
	file := small(t)
	file[len("stint backup ")] = '2'
	if _, err := read(file); err == nil || !strings.Contains(err.Error(), "newer format") {
		t.Errorf("a newer format: %v", err)
	}
}

// A part, or a backup, in the place of the other is whole: nobody must throw it away as damaged.
func TestAPartIsNoDamagedBackup(t *testing.T) {
	var part bytes.Buffer
	w, err := NewPartWriter(&part, PartHeader{Release: "v9", Level: shard.LevelNewest})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	if _, err := read(part.Bytes()); err == nil || errors.Is(err, ErrDamaged) ||
		!strings.Contains(err.Error(), "stint tool recover makes a backup of it") {
		t.Errorf("a part: %v", err)
	}
	file := small(t)
	if _, err := OpenPart(bytes.NewReader(file), int64(len(file))); err == nil || errors.Is(err, ErrDamaged) ||
		!strings.Contains(err.Error(), "but a backup: stint restore takes it") {
		t.Errorf("a backup: %v", err)
	}
	if _, err := read(bytes.Repeat([]byte("stint"), 20)); !errors.Is(err, ErrDamaged) {
		t.Errorf("something else: %v", err)
	}
}

func TestAShardThatCannotBeWrittenEndsTheBackup(t *testing.T) {
	w, _ := NewWriter(io.Discard, header)
	gone := errors.New("gone")
	if err := w.Section(func(io.Writer) error { return gone }); !errors.Is(err, gone) {
		t.Errorf("%v", err)
	}
	if id, more := w.Next(); id != 0 || !more {
		t.Errorf("next is %v, %v", id, more)
	}
}

func FuzzDecode(f *testing.F) {
	file := small(f)
	f.Add(file[:len(file)-32])
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, file []byte) {
		b, err := decode(bufio.NewReader(bytes.NewReader(file)))
		if err == nil && (len(b.Data) != int(b.Shards) || b.System == nil) {
			t.Errorf("%+v is accepted", b)
		}
	})
}

// TestAPartComesBack: its sections in any order and number, and every flipped or missing byte is noticed.
func TestAPartComesBack(t *testing.T) {
	states := []*shard.State{testState(t, shard.System, 0), testState(t, 1, 3000), testState(t, 1, 2)}
	h := PartHeader{Release: "v9", Level: shard.LevelNewest, Shards: []shard.ID{shard.System, 1, 1},
		About: []byte(`{"Node":"n1"}`)}
	part := partOf(t, h, states...)
	p, err := OpenPart(bytes.NewReader(part), int64(len(part)))
	if err != nil || string(p.About) != `{"Node":"n1"}` || len(p.Shards) != 3 {
		t.Fatal(p, err)
	}
	for _, n := range []int{2, 0, 1, 1} {
		if got, err := p.State(n); err != nil || got.Sum() != states[n].Sum() || got.Records() != states[n].Records() {
			t.Errorf("section %d: %v", n, err)
		}
	}
	h.Shards = h.Shards[:1]
	part = partOf(t, h, states[0])
	for i := range part {
		part[i] ^= 0x10
		if _, err := OpenPart(bytes.NewReader(part), int64(len(part))); err == nil {
			t.Errorf("byte %d of %d was flipped, and nobody noticed", i, len(part))
		}
		part[i] ^= 0x10
		if _, err := OpenPart(bytes.NewReader(part), int64(i)); !errors.Is(err, ErrDamaged) {
			t.Errorf("%d of %d bytes: %v", i, len(part), err)
		}
	}
	h.Level = shard.LevelNewest + 1
	part = partOf(t, h, states[0])
	if _, err := OpenPart(bytes.NewReader(part), int64(len(part))); err == nil ||
		!strings.Contains(err.Error(), "run v9 or newer") {
		t.Errorf("a newer level: %v", err)
	}
	if _, err := read(part); err == nil || !strings.Contains(err.Error(), "not a backup of stint") {
		t.Errorf("a part is read as a backup: %v", err)
	}
}

func partOf(t testing.TB, h PartHeader, states ...*shard.State) []byte {
	t.Helper()
	var file bytes.Buffer
	w, err := NewPartWriter(&file, h)
	if err != nil {
		t.Fatal(err)
	}
	write(t, w, states)
	return file.Bytes()
}

// TestExactMeansAllShards: one that is not exact makes the data inexact, and so does a header that does not list all.
func TestExactMeansAllShards(t *testing.T) {
	for _, c := range []struct {
		shards       []bool
		data, system bool
	}{{[]bool{true, true, true}, true, true}, {[]bool{true, true, false}, true, false},
		{[]bool{true, false, true}, false, true}, {[]bool{true, true}, false, false}, {nil, false, false}} {
		h := Header{Shards: 2, Recovery: &Recovery{}}
		for _, exact := range c.shards {
			h.Recovery.Shards = append(h.Recovery.Shards, RecoveredFrom{Exact: exact})
		}
		if h.DataExact() != c.data || h.SystemExact() != c.system {
			t.Errorf("%v: %v, %v", c.shards, h.DataExact(), h.SystemExact())
		}
	}
	if h := (Header{}); h.DataExact() || h.SystemExact() {
		t.Error("a backup of a running cluster is exact")
	}
}
