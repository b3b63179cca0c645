package raftfsm

import (
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// errHungDisk is what peers get to feel as silence.
var errHungDisk = errors.New("raftfsm: the disk hangs, sending nothing")

// transport is raft's own network transport without two dangers, and without pipelines.
//
// Heartbeats. raft offers a transport to handle heartbeats past its main goroutine. A heartbeat of a newer term then
// changes the term between two steps of a leader that does not know it is deposed, and the leader writes its next entry
// under a term that is another's: two different entries with the same index and term, which raft takes for the same
// (hashicorp/raft issue 695). So nobody may set that handler, and heartbeats wait their turn like everything else.
//
// Hung disks. raft's heartbeats go on while its main goroutine waits for the disk, and keep a leader that can do
// nothing in office. While hung reports so, nothing is sent to a follower.
//
// Pipelines. A follower is sent its next request when it has answered the one before, with all that was written
// meanwhile. Actors have one entry under way, or two, so a pipeline would bring none forward; it would cost two more
// goroutines that hand each response on, and has a trap: raft stops to take the responses of a pipeline at the first that
// is an error or a refusal, and if it is about to send just then, it waits for ever for a place that nobody makes.
//
// It embeds the concrete type: wrapped as the interface, raft would not see that it can pre-vote, and go without.
type transport struct {
	*raft.NetworkTransport
	hung      func() bool
	onOwnDisk func(index uint64) bool // waits for this replica's own fsync (ahead); false: there will be none

	mu       sync.Mutex
	contacts map[string]contact // by replica name
}

// contact is what a follower said last.
type contact struct {
	at      time.Time
	lastLog uint64
}

// heard tells what a follower said last, if that is not longer ago than a time. raft sends heartbeats to each member,
// about ten in a heartbeat time-out, while this replica leads.
func (t *transport) heard(name string, within time.Duration) (contact, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c, found := t.contacts[name]
	return c, found && time.Since(c.at) <= within
}

func (t *transport) note(name string, lastLog uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.contacts[name] = contact{time.Now(), lastLog}
}

func newTransport(layer StreamLayer, logger raftLogger, hung func() bool) *transport {
	return &transport{
		hung:      hung,
		onOwnDisk: func(uint64) bool { return true },
		contacts:  make(map[string]contact),
		NetworkTransport: raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
			Stream:          newStreams(layer),
			Logger:          logger,
			MaxPool:         2,
			MaxRPCsInFlight: 1, // no pipelines
			Timeout:         rpcTimeout,
		}),
	}
}

// SetHeartbeatHandler implements raft.Transport by doing nothing.
func (t *transport) SetHeartbeatHandler(func(raft.RPC)) {}

// AppendEntries implements raft.Transport. Entries and heartbeats come this way.
func (t *transport) AppendEntries(id raft.ServerID, target raft.ServerAddress, args *raft.AppendEntriesRequest,
	resp *raft.AppendEntriesResponse) error {
	if t.hung() {
		return errHungDisk
	}
	err := t.NetworkTransport.AppendEntries(id, target, args, resp)
	if err != nil || resp.Term > args.Term {
		return err
	}
	if len(args.Entries) == 0 || !resp.Success {
		t.note(string(target), resp.LastLog)
		return nil
	}
	last := args.Entries[len(args.Entries)-1].Index
	t.note(string(target), max(resp.LastLog, last)) // it answers with what it had before
	if !t.onOwnDisk(last) {
		return errOwnDisk
	}
	return nil
}

// Close implements raft.WithClose. Connections to peers end too, or the peers' ends would wait for ever.
func (t *transport) Close() error {
	err := t.NetworkTransport.Close()
	t.CloseStreams()
	return err
}

// rpcTimeout bounds one exchange with a peer; a snapshot gets it for every 256 KiB.
const rpcTimeout = 2 * time.Second
