package top

import (
	"testing"
	"time"
)

func TestTrafficOfNodesIsAddedUp(t *testing.T) {
	took := func(at int, calls uint64) []uint64 {
		all := make([]uint64, TookBuckets+1)
		all[at] = calls
		return all
	}
	whole := Join(&Query{Count: 1}, []Counts{
		{Traffic: []Traffic{{Start: 10, Admitted: 5, Denied: 1, Took: took(3, 99)}, {Start: 20, Admitted: 7}}},
		{Traffic: []Traffic{{Start: 10, Admitted: 2, Denied: 3, Took: took(9, 1)}}}, {}})
	if len(whole.Traffic) != 2 || whole.Traffic[0].Admitted != 7 || whole.Traffic[0].Denied != 4 ||
		whole.Traffic[1].Admitted != 7 {
		t.Fatalf("joined: %+v", whole.Traffic)
	}
	if p99 := whole.Traffic[0].SlowestBut(100); p99 != TookWithin(3) {
		t.Errorf("99 of 100 calls took %v", p99)
	}
	if all := whole.Traffic[0].SlowestBut(1000); all != TookWithin(9) {
		t.Errorf("999 of 1000 calls took %v", all)
	}
	slow := Traffic{Took: took(TookBuckets, 1)}
	if told, none := slow.SlowestBut(100), (&Traffic{}).SlowestBut(100); told != TookWithin(TookBuckets-1) ||
		none != 0 {
		t.Errorf("beyond the last bound: %v; no calls: %v", told, none)
	}
	if TookWithin(0) != 50*time.Microsecond || TookWithin(8) != 12800*time.Microsecond {
		t.Error("the bounds are", TookWithin(0), TookWithin(8))
	}
}
