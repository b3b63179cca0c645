package actor

import (
	"testing"
	"testing/synctest"

	"github.com/stint-io/stint/shard"
)

// However long the queue is, requests that take units go before requests that only read, whichever came first.
func TestReadsGoBehindChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeReplica()
		a := startActor(t, r, 1000, func(c *Config) { c.MaxBatch = 1 })
		synctest.Wait()
		release := r.holdWaits(t)
		under := submit(t, a, take(""))
		synctest.Wait()
		peek := take("")
		peek.Op = shard.Peek
		look := submit(t, a, peek)
		synctest.Wait()
		check := submit(t, a, take(""))
		synctest.Wait()
		release()
		mustSay(t, <-under, "allowed")
		looked, checked := <-look, <-check
		if looked.Err != nil || checked.Err != nil || looked.Decision.Position.Seq < checked.Decision.Position.Seq {
			t.Fatalf("the look was decided at %+v, the check that came later at %+v", looked, checked)
		}
	})
}

// A room full of checks has room for requests that give units back.
func TestSettlesFindRoom(t *testing.T) {
	in := admission{most: load{requests: 8, bytes: 8000}}
	if !in.enter(load{8, 8000}, deciding) || in.enter(load{1, 10}, deciding) || in.enter(load{1, 10}, reading) {
		t.Fatal("the room is not bounded for checks and reads")
	}
	if at := classOf([]shard.Request{{Op: shard.Settle}}); at != settling || !in.enter(load{1, 10}, at) {
		t.Fatal("a settle found no room behind checks")
	}
	if in.enter(load{1, 10}, settling) {
		t.Fatal("the room is not bounded for settles")
	}
}

// The heaviest operation of a call decides its class, whatever its position in the call.
func TestTheClassOfACallIsThatOfWhatItDoes(t *testing.T) {
	for _, test := range []struct {
		ops  []shard.Op
		want queueClass
	}{
		{[]shard.Op{shard.Peek, shard.Get}, reading},
		{[]shard.Op{shard.Peek, shard.Check}, deciding},
		{[]shard.Op{shard.Settle, shard.Settle}, settling},
		{[]shard.Op{shard.Get, shard.Settle}, settling},
		{[]shard.Op{shard.Settle, shard.Check}, deciding},
		{[]shard.Op{shard.ReadTally, shard.Tally}, deciding},
	} {
		requests := make([]shard.Request, len(test.ops))
		for i, op := range test.ops {
			requests[i].Op = op
		}
		if got := classOf(requests); got != test.want {
			t.Errorf("%v goes to class %d, must go to %d", test.ops, got, test.want)
		}
	}
	for number, want := range map[uint64]queueClass{0: settling, 2: deciding} {
		lease := shard.Request{Op: shard.Lease,
			System: &shard.SystemTerms{Lease: &shard.LeaseTerms{Returned: 1, Number: number}}}
		if got := classOf([]shard.Request{lease}); got != want {
			t.Errorf("a lease that is returned, with %d asked for, goes to class %d, must go to %d", number, got, want)
		}
	}
}
