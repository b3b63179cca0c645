package raftfsm

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/hashicorp/raft"
)

// countedLog is a log store in memory that counts what is read from it.
type countedLog struct {
	*raft.InmemStore
	reads int
	fails error
}

func (c *countedLog) GetLog(index uint64, log *raft.Log) error {
	c.reads++
	return c.InmemStore.GetLog(index, log)
}

func (c *countedLog) StoreLogs(logs []*raft.Log) error {
	if c.fails != nil {
		return c.fails
	}
	return c.InmemStore.StoreLogs(logs)
}

// TestRecentEntriesAreThoseOfTheStore compares what is read through the memory with what the store has, while entries
// of all sizes are appended, cut off and replaced. What is kept is bounded, and the newest entry always is.
func TestRecentEntriesAreThoseOfTheStore(t *testing.T) {
	store := &countedLog{InmemStore: raft.NewInmemStore()}
	log := &recentLog{LogStore: store}
	random := rand.New(rand.NewPCG(1, 0))
	next, term, bounded := uint64(1), uint64(1), false
	for step := range 400 {
		var batch []*raft.Log
		for range 1 + random.IntN(3) {
			data := fmt.Appendf(make([]byte, []int{10, 1000, 100_000, recentBytes + 1}[random.IntN(4)]),
				"%d in term %d", next, term)
			batch = append(batch, &raft.Log{Index: next, Term: term, Data: data})
			next++
		}
		if err := log.StoreLogs(batch); err != nil {
			t.Fatal(err)
		}
		kept, bytes := 0, 0
		for _, e := range log.entries {
			if e != nil {
				kept, bytes = kept+1, bytes+len(e.Data)
			}
		}
		if bytes != log.bytes || bytes > recentBytes && kept > 1 {
			t.Fatalf("step %d: %d entries with %d bytes are kept, counted as %d", step, kept, bytes, log.bytes)
		}
		bounded = bounded || kept < recentEntries && next > recentEntries
		store.reads = 0
		for _, index := range []uint64{next - 1, next - 1 - random.Uint64N(min(next-1, 2*recentEntries))} {
			var got, want raft.Log
			errGot, errWant := log.GetLog(index, &got), store.InmemStore.GetLog(index, &want)
			if errGot != errWant || got.Term != want.Term || string(got.Data) != string(want.Data) {
				t.Fatalf("step %d, entry %d: %v, term %d; the store says %v, term %d",
					step, index, errGot, got.Term, errWant, want.Term)
			}
			if index == next-1 && store.reads > 0 {
				t.Fatalf("step %d: the newest entry was read from the store", step)
			}
		}
		if from := next - min(next-1, 1+random.Uint64N(5)); step%20 == 0 { // another leader's log replaces the end
			if err := log.DeleteRange(from, next-1); err != nil {
				t.Fatal(err)
			}
			if err := log.GetLog(from, new(raft.Log)); err != raft.ErrLogNotFound {
				t.Fatalf("entry %d was deleted: %v", from, err)
			}
			next, term = from, term+1
		}
	}
	if !bounded {
		t.Error("the bound on bytes was never met")
	}
	store.fails = errors.New("full")
	if err := log.StoreLog(&raft.Log{Index: next}); err != store.fails {
		t.Fatalf("got %v", err)
	}
	if err := log.GetLog(next, new(raft.Log)); err != raft.ErrLogNotFound {
		t.Errorf("an entry that was not stored is there: %v", err)
	}
}
