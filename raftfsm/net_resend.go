package raftfsm

import (
	"time"

	"github.com/hashicorp/raft"

	"github.com/stint-io/stint/internal/sleep"
)

// Resending. raft does not hurry after a message that failed. It sends the entries again with the next ones that are
// written, or when its commit timeout is over, which is long here (commitTimeout). But an actor writes no more while it
// waits for its last entries: a commit that needs that follower would wait for a second or two. The rotation of the
// cluster key does that to all followers at once, when it ends their connections. And after a dozen failures raft sends
// nothing to a follower for 10 s, although it may be back. Therefore a message that failed is sent again: at once if a
// kept connection had ended, and otherwise when the follower answers heartbeats again. raft learns of the failure after
// resendWithin.
//
// Meanwhile raft's goroutine for that follower waits. It does so as well when this replica leads no longer, or when the
// follower was removed; both are harmless, and resendWithin bounds them.
const resendWithin = 10 * time.Second

// replicate sends entries to a follower, until it answers. raft's messages may be sent any number of times.
func (t *transport) replicate(id raft.ServerID, target raft.ServerAddress, args *raft.AppendEntriesRequest,
	resp *raft.AppendEntriesResponse) (took time.Duration, err error) {
	for until := time.Now().Add(resendWithin); ; {
		began := time.Now()
		err = errHungDisk
		if !t.hung() {
			err = onAnyConnection(func() error { //mutant:entries-lost-with-a-kept-connection
				*resp = raft.AppendEntriesResponse{}
				return t.NetworkTransport.AppendEntries(id, target, args, resp)
			})
		}
		if err == nil || !t.answersAgain(string(target), until) {
			return time.Since(began), err
		}
	}
}

// answersAgain waits until a follower has answered another message from now on. It looks when heartbeats leave, so that
// waiting for a node that is down wakes no thread more. It returns false if that takes too long, or if the group is
// shut down.
func (t *transport) answersAgain(name string, until time.Time) bool {
	for failed := time.Now(); time.Now().Before(until) && sleep.For(t.waiting, untilBeat(time.Now())); {
		if c, found := t.heard(name, resendWithin); found && c.at.After(failed) { //mutant:lost-entries-wait
			return true
		}
	}
	return false
}
