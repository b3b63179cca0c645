package shard

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/stint-io/stint/limit"
)

// TestTableIsAMap compares a table with a map under random puts, forgets and sweeps, with values that change their size,
// while pictures are taken.
func TestTableIsAMap(t *testing.T) {
	t.Parallel()
	rnd := seeded(t)
	for range 10 {
		compareWithMap(t, rnd, 1+rnd.IntN(2000))
	}
}

func compareWithMap(t *testing.T, rnd *rand.Rand, keys int) {
	table, want := newTable(), map[string]Record{}
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
			table.put(key, r)
			want[key] = r
		case what < 80:
			table.forget(key)
			delete(want, key)
		case what < 81:
			table.segments.share()
		default:
			now++
			table.sweep(1+rnd.IntN(8), math.MaxInt, now)
			forgetSwept(t, table, want, now)
		}
		if got, found := table.lookup(key); found != (want[key].Value != nil) || found && !reflect.DeepEqual(got, want[key]) {
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

// forgetSwept removes from the map the records that the table dropped, all of which must have ended.
func forgetSwept(t *testing.T, table *table, want map[string]Record, now limit.Time) {
	t.Helper()
	if table.records == len(want) {
		return
	}
	for key, r := range want {
		if _, found := table.lookup(key); !found {
			if r.ForgetAt > now {
				t.Fatalf("%q was forgotten at %d and lives until %d", key, now, r.ForgetAt)
			}
			delete(want, key)
		}
	}
}

// Sweeping all segments leaves no dead record, and returns the memory of a flood of keys. While the table shrinks, records
// move to segments that were already searched, and wait there for the next round.
func TestSweepForgetsAllThatEndedAndNothingElse(t *testing.T) {
	table := newTable()
	const keys = 50_000
	for i := range keys {
		forgetAt := limit.Time(100)
		if i%1000 == 0 {
			forgetAt = 101
		}
		table.put(fmt.Sprint("key ", i), Record{[]byte("value"), forgetAt})
	}
	segments, bytes := table.segments.length, table.bytes
	table.sweep(segments, math.MaxInt, 99)
	if table.records != keys {
		t.Fatalf("%d records ended early", keys-table.records)
	}
	for swept := 0; table.records > keys/1000 && swept < 2*segments; swept += 10 {
		table.sweep(10, math.MaxInt, 100)
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
	table := newTable()
	const keys = 5000
	for i := range keys {
		table.put(fmt.Sprint("key ", i), Record{[]byte("value"), 100})
	}
	for swept := 0; table.records > 0; {
		before := table.records
		table.sweep(table.segments.length, 300, 100)
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
	table, rnd := newTable(), seeded(t)
	type picture struct {
		directory
		records map[string]Record
	}
	var pictures []picture
	for step := range 12 {
		if step%4 != 3 {
			for range 3 * chunkSegments * segmentRecords / 2 {
				table.put(fmt.Sprint("key ", rnd.IntN(4*chunkSegments*segmentRecords)), Record{[]byte{byte(step)}, limit.Time(step + 1)})
			}
		} else {
			table.sweep(table.segments.length, math.MaxInt, limit.Time(step))
		}
		audit(t, table)
		pictures = append(pictures, picture{table.segments.share(), allRecords(table)})
	}
	for i, p := range pictures {
		table.segments = p.directory
		if got := allRecords(table); !reflect.DeepEqual(got, p.records) {
			t.Fatalf("picture %d shows %d records, there were %d", i, len(got), len(p.records))
		}
	}
}

// Heads come and go with the records that have them, more of them than there are numbers, and values of all lengths are
// replaced. Pictures show the keys of their instant although the numbers are used again.
func TestHeadsAreUsedAgain(t *testing.T) {
	table, want, rnd := newTable(), map[string]Record{}, seeded(t)
	key := func(from, to int) string {
		namespace, policy := fmt.Sprint("namespace ", from+rnd.IntN(to-from)), fmt.Sprint("policy ", rnd.IntN(3))
		return string(appendCounterKey(nil, namespace, policy, fmt.Sprint("key ", rnd.IntN(20))))
	}
	numbered := 0
	for step, spread := range []int{5, 200, 50, 400} {
		for range 5000 {
			k, r := key(step*50, step*50+spread), Record{make([]byte, []int{0, 10, 127, 128, 300, 20_000}[rnd.IntN(6)]), limit.Time(step + 1)}
			r.Value = append(r.Value, byte(rnd.Uint32()))
			table.put(k, r)
			want[k] = r
		}
		numbered = max(numbered, len(table.heads.numbers))
		audit(t, table)
		pictured, before := *table, allRecords(table)
		pictured.segments = table.segments.share()
		if !reflect.DeepEqual(before, want) {
			t.Fatalf("step %d: the table has %d records, the map %d", step, len(before), len(want))
		}
		for k := range want {
			if rnd.IntN(10) > 0 {
				table.forget(k)
				delete(want, k)
			}
		}
		for range 300 { // others get their numbers
			k := key(10_000*(step+1), 10_000*(step+1)+100)
			table.put(k, Record{[]byte{1}, 100})
			want[k] = Record{[]byte{1}, 100}
		}
		audit(t, table)
		if got := allRecords(&pictured); !reflect.DeepEqual(got, before) {
			t.Fatalf("step %d: the picture shows %d records, there were %d", step, len(got), len(before))
		}
		for k := range want {
			if rnd.IntN(2) == 0 {
				table.forget(k)
				delete(want, k)
			}
		}
	}
	if numbered != 255 {
		t.Errorf("%d heads had numbers at most, which is too few for this test", numbered)
	}
	for k := range want {
		table.forget(k)
	}
	if audit(t, table); len(table.heads.numbers) != 0 {
		t.Errorf("no record is left, and %d heads have numbers", len(table.heads.numbers))
	}
}
