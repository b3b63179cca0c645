package raftfsm

import (
	"time"

	"github.com/stint-io/stint/internal/sleep"
)

// Rest. A commit needs the disks of a majority. Each copy beyond that costs as much as one that is needed: a message,
// an fsync, an answer, and the threads that wake for them. So a follower rests if its answer finds its entries
// committed without it: its answer is withheld from raft for a moment, and raft's next message to it carries all
// entries written in the meantime. raft has not counted that answer yet, so the commit did not need it; an answer that
// a commit may wait for is never withheld.
//
// While a follower rests, the others are needed, and one of them may hang or die. So a rest ends at the next look at
// which nothing more has been committed, and the follower is sent what it lacks. It also ends when nothing is proposed
// any more, so the followers of an idle group lack nothing.
const (
	restMost    = 50 * time.Millisecond // longer rests save no more (docs/benchmarks/log.md)
	restLook    = 5 * time.Millisecond  // the shortest time between two looks
	restLooks   = 4                     // how many exchanges a look takes, where they take longer
	restEntries = recentEntries / 2     // a follower that lacks more is sent entries that may no longer be in memory
)

// rest withholds a follower's answer, which says that it has all entries up to index last.
func (t *transport) rest(last uint64) {
	committed, newest := t.progress()
	//mutant:rests-without-bound //mutant:withheld-answer-blocks-a-commit
	for until := time.Now().Add(restMost); committed >= last && newest < last+restEntries && time.Now().Before(until); {
		if !sleep.For(t.waiting, t.look()) {
			return
		}
		before := committed
		if committed, newest = t.progress(); committed == before { //mutant:rests-while-others-are-silent
			return
		}
	}
}

// look returns how long a follower rests before the next look at the others.
func (t *transport) look() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return min(max(restLooks*t.exchange, restLook), restMost)
}

// exchanged counts the time from a message with entries to its answer.
func (t *transport) exchanged(took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.exchange = (t.exchange*7 + took) / 8
}
