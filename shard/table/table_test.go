package table

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/stint-io/stint/limit"
)

// TestTableIsAMap compares a table with a map under random puts, forgets and sweeps, with values that change their
// size, while pictures are taken.
func TestTableIsAMap(t *testing.T) {
	t.Parallel()
	rnd := seeded(t)
	for range 10 {
		compareWithMap(t, rnd, 1+rnd.IntN(2000))
	}
}

func compareWithMap(t *testing.T, rnd *rand.Rand, keys int) {
	table, want := newTable(1+rnd.IntN(5)), map[string]Record{}
	now := limit.Time(0)
	for n := range 10_000 {
		number := rnd.IntN(keys)
		key := fmt.Sprintf("key %d", number)
		if number%8 == 0 {
			key += strings.Repeat("k", number%300) // about as long as a stub has room for, and longer
		}
		switch what := rnd.IntN(100); {
		case what < 70:
			r := Record{make([]byte, rnd.IntN([]int{40, 600}[rnd.IntN(10)/9])), now + limit.Time(rnd.IntN(3000))}
			for i := range r.Value {
				r.Value[i] = byte(rnd.Uint32())
			}
			table.Put(key, r)
			want[key] = r
		case what < 80:
			table.Forget(key)
			delete(want, key)
		case what < 81:
			table.Picture()
		default:
			now++
			table.Sweep(1+rnd.IntN(8), math.MaxInt, now)
			forgetSwept(t, table, want, now)
		}
		if got, found := table.Lookup(key); found != (want[key].Value != nil) ||
			found && !reflect.DeepEqual(got, want[key]) {
			t.Fatalf("step %d: %q is %+v (%v), the map has %+v", n, key, got, found, want[key])
		}
		if n%500 == 0 {
			audit(t, table)
			if got := allRecords(table); !reflect.DeepEqual(got, want) {
				t.Fatalf("step %d: the table has %d records, the map %d: %v, %v", n, len(got), len(want), got, want)
			}
		}
	}
}

// forgetSwept removes from the map the records that the table dropped; all of them must have ended.
func forgetSwept(t *testing.T, table *Table, want map[string]Record, now limit.Time) {
	t.Helper()
	if table.records == len(want) {
		return
	}
	for key, r := range want {
		if _, found := table.Lookup(key); !found {
			if r.ForgetAt > now {
				t.Fatalf("%q was forgotten at %d and lives until %d", key, now, r.ForgetAt)
			}
			delete(want, key)
		}
	}
}

// Sweeping all segments leaves no dead record, and returns the memory of a flood of keys. While the table shrinks,
// records move to segments that were already searched, and wait there for the next round.
func TestSweepForgetsAllThatEndedAndNothingElse(t *testing.T) {
	rnd := seeded(t)
	table := newTable(1 + rnd.IntN(5))
	const keys = 50_000
	for i := range keys {
		forgetAt := limit.Time(100)
		if i%1000 == 0 {
			forgetAt = 101
		}
		table.Put(fmt.Sprint("key ", i), Record{[]byte("value"), forgetAt})
	}
	segments, bytes := segmentsOf(table), table.bytes
	table.Sweep(segments, math.MaxInt, 99)
	if table.records != keys {
		t.Fatalf("%d records ended early", keys-table.records)
	}
	for swept := 0; table.records > keys/1000 && swept < 2*segments; swept += 10 {
		table.Sweep(10, math.MaxInt, 100)
	}
	audit(t, table)
	for key, r := range allRecords(table) {
		if r.ForgetAt != 101 {
			t.Fatalf("%q ended at %d and is there at 100", key, r.ForgetAt)
		}
	}
	if table.records != keys/1000 {
		t.Fatalf("%d records, expected %d", table.records, keys/1000)
	}
	if packed := recordHeader + len("key 10000") + len("value"); bytes < keys*packed || table.bytes > bytes/20 {
		t.Errorf("%d records held %d bytes, the %d that stayed hold %d", keys, bytes, table.records, table.bytes)
	}
}

// However many records end at one instant, an entry drops a bounded number of them, and the next entry continues there.
func TestSweepStopsWhenItHasDroppedEnough(t *testing.T) {
	rnd := seeded(t)
	table := newTable(1 + rnd.IntN(5))
	const keys = 5000
	for i := range keys {
		table.Put(fmt.Sprint("key ", i), Record{[]byte("value"), 100})
	}
	for swept := 0; table.records > 0; {
		before := table.records
		table.Sweep(segmentsOf(table), 300, 100)
		audit(t, table)
		if dropped := before - table.records; dropped > 300+2*segmentRecords {
			t.Fatalf("%d records were dropped at once", dropped)
		}
		if swept++; swept > keys {
			t.Fatalf("%d records stay", table.records)
		}
	}
}

// A picture shows the records at its instant, however the table grows, shrinks and changes afterwards.
func TestPicturesStandStill(t *testing.T) {
	rnd := seeded(t)
	table := newTable(3)
	type shown struct {
		picture *Picture
		records map[string]Record
	}
	var all []shown
	for step := range 12 {
		if step%4 != 3 {
			for range 8_000 {
				table.Put(fmt.Sprint("key ", rnd.IntN(20_000)), Record{[]byte{byte(step)}, limit.Time(step + 1)})
			}
		} else {
			table.Sweep(segmentsOf(table), math.MaxInt, limit.Time(step))
		}
		audit(t, table)
		all = append(all, shown{table.Picture(), allRecords(table)})
	}
	for i, one := range all {
		back := reread(t, table.layout, one.picture)
		if got := allRecords(back); !reflect.DeepEqual(got, one.records) {
			t.Fatalf("picture %d shows %d records, there were %d", i, len(got), len(one.records))
		}
	}
}

// reread writes a picture and reads it.
func reread(t *testing.T, layout Layout, p *Picture) *Table {
	t.Helper()
	var file bytes.Buffer
	out := NewWriter(&file)
	if err := p.Write(out); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Flush(); err != nil {
		t.Fatal(err)
	}
	back, err := Read(NewReader(&file), layout, func(string, int, int) {}, func(string, []byte) {})
	if err != nil {
		t.Fatal(err)
	}
	audit(t, back)
	if back.sweeper != p.sweeper {
		t.Fatalf("the sweep continues at %v, it was at %v", back.sweeper, p.sweeper)
	}
	return back
}

// Heads come and go with the records that have them, more of them than there are numbers, and values of all lengths are
// replaced. Pictures show the keys of their instant although the numbers are used again.
func TestHeadsAreUsedAgain(t *testing.T) {
	table, want, rnd := newTable(4), map[string]Record{}, seeded(t)
	key := func(from, to int) string {
		namespace, policy := fmt.Sprint("namespace ", from+rnd.IntN(to-from)), fmt.Sprint("policy ", rnd.IntN(3))
		return namespace + policy + "|" + fmt.Sprint("key ", rnd.IntN(20))
	}
	numbered := 0
	for step, spread := range []int{5, 200, 50, 400} {
		for range 5000 {
			k, r := key(step*50, step*50+spread), Record{make([]byte, []int{0, 10, 127, 128, 300, 20_000}[rnd.IntN(6)]),
				limit.Time(step + 1)}
			r.Value = append(r.Value, byte(rnd.Uint32()))
			table.Put(k, r)
			want[k] = r
		}
		numbered = max(numbered, len(table.heads.numbers))
		audit(t, table)
		picture, before := table.Picture(), allRecords(table)
		if !reflect.DeepEqual(before, want) {
			t.Fatalf("step %d: the table has %d records, the map %d", step, len(before), len(want))
		}
		for k := range want {
			if rnd.IntN(10) > 0 {
				table.Forget(k)
				delete(want, k)
			}
		}
		for range 300 { // others get their numbers
			k := key(10_000*(step+1), 10_000*(step+1)+100)
			table.Put(k, Record{[]byte{1}, 100})
			want[k] = Record{[]byte{1}, 100}
		}
		audit(t, table)
		if got := allRecords(reread(t, table.layout, picture)); !reflect.DeepEqual(got, before) {
			t.Fatalf("step %d: the picture shows %d records, there were %d", step, len(got), len(before))
		}
		for k := range want {
			if rnd.IntN(2) == 0 {
				table.Forget(k)
				delete(want, k)
			}
		}
	}
	if numbered != 255 {
		t.Errorf("%d heads had numbers at most, which is too few for this test", numbered)
	}
	for k := range want {
		table.Forget(k)
	}
	if audit(t, table); len(table.heads.numbers) != 0 {
		t.Errorf("no record is left, and %d heads have numbers", len(table.heads.numbers))
	}
}

// TestAScanMeetsEveryRecord: those that are there all along, each once, while the table grows and shrinks between the
// pages.
func TestAScanMeetsEveryRecord(t *testing.T) {
	t.Parallel()
	rnd := seeded(t)
	for range 6 {
		table := newTable(1 + rnd.IntN(4))
		put := func(kind string, n int) {
			for i := range n {
				table.Put(fmt.Sprint(kind, i), Record{Value: []byte{1}, ForgetAt: limit.Forever})
			}
		}
		put("stays", 3000)
		met, other := map[string]int{}, 0
		for from, more := uint64(0), true; more; {
			more = false
			left := 1 + rnd.IntN(300)
			for key := range table.Scan(from) {
				place := Place(table.layout, key)
				if place < from {
					t.Fatalf("place %x follows %x", place, from)
				}
				if left--; left < 0 {
					from, more = place, true
					break
				}
				met[string(key)]++
			}
			switch n := rnd.IntN(20_000); rnd.IntN(3) {
			case 0:
				put("comes", n)
				other = max(other, n)
			case 1:
				for i := range other {
					table.Forget(fmt.Sprint("comes", i))
				}
				other = 0
			}
		}
		for i := range 3000 {
			if n := met[fmt.Sprint("stays", i)]; n != 1 {
				t.Fatalf("a record was met %d times", n)
			}
		}
	}
}

// TestAPartIsOneRangeOfAScan: what a part has is between its place and that of the next.
func TestAPartIsOneRangeOfAScan(t *testing.T) {
	table := newTable(7)
	for i := range 5000 {
		table.Put(fmt.Sprint("key ", i), Record{[]byte{1}, limit.Forever})
	}
	met := 0
	for part := range 7 {
		for key := range table.Scan(PartPlace(part)) {
			if its := table.layout.Part(string(key)); its < part {
				t.Fatalf("a record of part %d behind the place of part %d", its, part)
			} else if its > part {
				break
			}
			met++
		}
	}
	if met != 5000 {
		t.Errorf("%d of 5000 records were in the ranges of their parts", met)
	}
}

// A picture with any flipped bit in a record is refused, including key, lengths and end, and no search for a record
// fails over it.
func TestAFlippedBitIsInNoPicture(t *testing.T) {
	table := newTable(1)
	for i := range 6 {
		table.Put(fmt.Sprint("key ", i), Record{[]byte("value"), 1000})
	}
	for _, length := range []int{254, 255, 256, 300} {
		table.Put(strings.Repeat("k", length), Record{[]byte("a long key"), 1000})
		table.Put(fmt.Sprint("long value ", length), Record{[]byte(strings.Repeat("v", length)), 1000})
	}
	keys := slices.Collect(maps.Keys(allRecords(table)))
	g := table.parts[0].segments[0]
	for bit := range 8 * len(g.data) {
		flip := func() { g.data[bit/8] ^= 1 << (bit % 8) }
		flip()
		if err := table.Picture().Write(NewWriter(&bytes.Buffer{})); !errors.Is(err, ErrDiverged) {
			t.Errorf("bit %d of byte %d flipped: %v", bit%8, bit/8, err)
		}
		for _, key := range keys {
			table.Lookup(key)
		}
		flip()
	}
	if back := reread(t, table.layout, table.Picture()); back.sum != table.sum {
		t.Errorf("sum %016x came back as %016x", table.sum, back.sum)
	}
}

// A record with a flipped bit is lost, and perhaps those after it; but putting, forgetting, sweeping, splitting and
// merging never panic.
func TestAFlippedBitEndsNobody(t *testing.T) {
	t.Parallel()
	rnd := seeded(t)
	for range 1000 {
		table := newTable(1)
		for i := range 60 { // two segments or three
			length := []int{rnd.IntN(40), 250 + rnd.IntN(10)}[i%2]
			table.Put(fmt.Sprint("key ", i), Record{make([]byte, length), limit.Time(rnd.IntN(100))})
		}
		segments := table.parts[0].segments
		g := segments[rnd.IntN(len(segments))]
		bit := rnd.IntN(8 * len(g.data))
		if rnd.IntN(2) == 0 {
			bit = rnd.IntN(8 * g.stubsEnd())
		}
		g.data[bit/8] ^= 1 << (bit % 8)
		for i := range 120 {
			table.Put(fmt.Sprint("key ", i), Record{make([]byte, rnd.IntN(300)), limit.Time(rnd.IntN(100))})
			table.Lookup(fmt.Sprint("key ", i))
		}
		table.Sweep(1, 10, 50)
		for i := range 120 {
			table.Forget(fmt.Sprint("key ", i))
		}
		table.Sweep(segmentsOf(table), 1000, 100)
	}
}

// A wrong head with a correct checksum is refused before memory is allocated for it.
func TestReadBelievesNoCount(t *testing.T) {
	table := newTable(2)
	for i := range 100 {
		table.Put(fmt.Sprint("key ", i), Record{[]byte("value"), 1000})
	}
	var file bytes.Buffer
	out := NewWriter(&file)
	if err := table.Picture().Write(out); err != nil {
		t.Fatal(err)
	}
	out.Flush()
	const head = 8 * (5 + 2*3)
	for _, c := range []struct {
		number int // in the head
		value  uint64
	}{{0, 2}, {0, 1 << 63}, {1, 1 << 40}, {2, 1 << 40}, {2, 99}, {2, 101}, {3, 0}, {4, 0}, {4, 1}, {4, 3}, {4, 1 << 60},
		{5, 1}, {5, 2}, {6, 0}, {6, 1 << 40}, {6, 1}, {7, 1}, {7, 1 << 60}, {8, 0}, {8, 2}} {
		b := bytes.Clone(file.Bytes())
		binary.LittleEndian.PutUint64(b[8*c.number:], c.value)
		binary.LittleEndian.PutUint32(b[head:], crc32.Checksum(b[:head], castagnoli))
		if _, err := Read(NewReader(bytes.NewReader(b)), table.layout, func(string, int, int) {},
			func(string, []byte) {}); err == nil {
			t.Errorf("number %d of the head may be %d", c.number, c.value)
		}
	}
}

// testLayout has parts by the hash of a key; the head of a key ends with "|".
type testLayout struct{ parts int }

func (l testLayout) Parts() int          { return l.parts }
func (l testLayout) Part(key string) int { return int(xxhash.Sum64String(key) >> 32 % uint64(l.parts)) }
func (testLayout) Head(key string) int   { return strings.Index(key, "|") + 1 }

// newTable returns a table with a count that does nothing, for audit.
func newTable(parts int) *Table { return New(testLayout{parts}, func(string, int, int) {}) }

func segmentsOf(table *Table) (n int) {
	for i := range table.parts {
		n += max(1, len(table.parts[i].segments))
	}
	return n
}

var seedFlag = flag.Uint64("seed", 1, "of the random tests; 0 draws one")

func seeded(t *testing.T) *rand.Rand {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("again: -seed %d", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 0))
}

// allRecords returns a table's records by key.
func allRecords(table *Table) map[string]Record {
	all := make(map[string]Record, table.records)
	for key, r := range table.All() {
		all[string(key)] = Record{slices.Clone(r.Value), r.ForgetAt}
	}
	return all
}

// all returns the sums of the minutes in which any record ends.
func (e *endings) all() map[limit.Time]uint64 {
	sums := make(map[limit.Time]uint64)
	for _, at := range e.near {
		if at.sum != 0 {
			sums[at.minute] = at.sum
		}
	}
	for minute, sum := range e.far {
		sums[minute] = sum
	}
	return sums
}

// counted is what an audit has counted again.
type counted struct {
	records, bytes int
	sum            uint64
	minutes        map[limit.Time]uint64
	heads          [256]int
}

// audit checks the invariants of a table, by looking at every record.
func audit(t testing.TB, table *Table) {
	t.Helper()
	c := counted{minutes: make(map[limit.Time]uint64)}
	for i := range table.parts {
		before := c.records
		p := &table.parts[i]
		for n, g := range p.segments {
			auditSegment(t, table, i, n, g, &c)
		}
		records := c.records - before
		if fewest := (len(p.segments) - 1) * fewRecords; records != p.records || records < fewest ||
			records > len(p.segments)*segmentRecords {
			t.Fatalf("part %d says %d records, it has %d in %d segments", i, p.records, records, len(p.segments))
		}
	}
	if c.sum != table.sum || c.records != table.records || c.bytes != table.bytes {
		t.Fatalf("the table says %d records of sum %x, %d bytes, it holds %d of %x, %d",
			table.records, table.sum, table.bytes, c.records, c.sum, c.bytes)
	}
	c.heads[0] = 0
	if c.heads != table.heads.records {
		t.Fatalf("the heads have %v records, the table says %v", c.heads, table.heads.records)
	}
	for number, text := range table.heads.texts.texts {
		if (c.heads[number] > 0) != (text != "") || text != "" && table.heads.numbers[text] != byte(number) {
			t.Fatalf("head %d with %d records is %q, whose number is %d",
				number, c.heads[number], text, table.heads.numbers[text])
		}
	}
	if kept := table.ending.all(); !maps.Equal(kept, c.minutes) {
		t.Fatalf("the sums by minute are %x, of the records they are %x", kept, c.minutes)
	}
}

func auditSegment(t testing.TB, table *Table, part, n int, g *segment, c *counted) {
	t.Helper()
	c.bytes += g.bytes()
	at := g.first()
	for !g.past(at) {
		r, ok := g.intact(at)
		key := r.appendKey(nil, table.heads.texts)
		hash := xxhash.Sum64(key)
		if !ok || table.parts[part].index(hash) != n || table.layout.Part(string(key)) != part ||
			r.tag != tagOfHash(hash) {
			t.Fatalf("the record of %q is in segment %d of part %d, where nobody looks for it", key, n, part)
		}
		if r.ForgetAt < g.forgetFirst {
			t.Fatalf("%q ends at %d, but its segment says that none ends before %d", key, r.ForgetAt, g.forgetFirst)
		}
		c.sum += r.sum(hash)
		c.minutes[r.ForgetAt/sumMinute] += r.sum(hash)
		c.heads[r.head]++
		c.records++
		at = r.next
	}
	if at.body != len(g.data) {
		t.Fatalf("the last record of segment %d ends at %d of %d", n, at.body, len(g.data))
	}
}
