package raftfsm

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/raft"

	"github.com/stint-io/stint/internal/sleep"
	"github.com/stint-io/stint/shard"
)

// errHungDisk stops a message to a peer, which then hears nothing.
var errHungDisk = errors.New("raftfsm: the disk hangs, sending nothing")

// transport is raft's own network transport with the following changes.
//
// Heartbeats. raft lets a transport handle heartbeats beside its main goroutine. A heartbeat with a newer term then
// changes the term between two steps of a leader that does not know it is deposed. That leader writes its next entry
// under another leader's term: two different entries have the same index and term, and raft takes them for the same
// entry (hashicorp/raft issue 695). So that handler cannot be set, and heartbeats are handled in order like all other
// messages.
//
// Hung disks. raft keeps sending heartbeats while its main goroutine waits for the disk, so a leader that can do
// nothing stays leader. While hung returns true, nothing is sent to a follower.
//
// Pipelines. A follower is sent its next request when it has answered the previous one, with all entries written in the
// meantime. An actor has one entry under way (X9), so a pipeline would not speed it up. It would cost two more
// goroutines that pass each response on, and it has a trap: raft stops reading a pipeline's responses at the first
// error or refusal, and if it is about to send just then, it waits forever for a place that never becomes free.
//
// Rest. A follower that no commit waits for is sent fewer and larger messages (rest).
//
// Beat. The heartbeats of all groups leave at the same time (beatEvery), and say what is committed (heartbeat).
//
// Slow links. raft sends up to 64 entries at once, however long they are: 16 MiB, which a link slower than 8 MB/s does
// not transfer before the timeout, and then they are sent again. So a message carries at most messageBytes of entries,
// or one entry. raft reads from the request which entries were sent, and sends the rest next. So a follower can catch
// up over a link of 128 KiB/s; snapshots need no more.
//
// Votes for a candidate that this replica does not know as a voter. raft refuses its vote to a candidate that is not a
// voter in the newest configuration that it knows. It must not: a voter that missed a membership change would never
// vote for a voter added since, nor would a voter that does not know yet that it is one. If other voters are lost, a
// majority can then have every committed entry and still elect no leader (Ongaro's dissertation, section 4.2.2: a
// server grants votes without consulting its configuration). raft checks only the candidate's name. So a goroutine that
// passes incoming requests to raft changes that name: it removes the name from a vote request, and in a pre-vote
// request, which must have one, it puts the name of some voter that this replica knows. The candidate's address stays,
// and a replica that has a leader still refuses.
//
// Entries that were lost are sent again as soon as the follower answers (replicate).
//
// Connections that ended unnoticed. raft keeps connections for later use, and learns only by using one that its peer
// has been restarted since. raft asks for a vote only once in an election. So a former leader that was handed the
// leadership back could lose its election to such connections when the others had been restarted one by one, and the
// shard was without an owner for another election timeout. Therefore a vote request is repeated on another connection,
// and a voter answers it as before.
//
// transport embeds the concrete type: behind the interface, raft would not see that it supports pre-vote, and would not
// use it.
type transport struct {
	*raft.NetworkTransport
	hung      func() bool
	onOwnDisk func(index uint64) bool // waits for this replica's own fsync (unsyncedWrites); false: it failed
	voter     func() raft.ServerID    // a voter of the newest configuration that this replica knows; "": none known yet

	// progress returns the indices of the newest entry that is committed, and of the newest that is written; 0: not
	// known yet.
	progress func() (committed, newest uint64)

	// committed returns the index of the newest committed entry as known while this replica was in that term; 0: it no
	// longer is.
	committed func(term uint64) uint64

	calls     chan raft.RPC // incoming requests, for raft
	campaigns chan campaign // orders to stand for election
	relay     sync.Once     // starts relaying
	relaying  sync.WaitGroup
	closed    chan struct{}
	closing   sync.Once
	waiting   context.Context    // of rests, beats, resending and repeated pre-votes
	end       context.CancelFunc // of waiting, before raft is shut down: raft waits for its goroutines, which wait here

	mu       sync.Mutex
	contacts map[string]contact // by replica name
	exchange time.Duration      // moving average of the time from a message with entries to its answer
}

// contact is the last response of a follower, to this replica as a leader of any term.
type contact struct {
	at      time.Time
	lastLog uint64 // index of its newest entry, which the leader's log need not have
	match   match
}

// heard returns the last response of a follower, and whether it is no older than within. While this replica leads, raft
// sends three to five heartbeats to each member in a heartbeat timeout.
func (t *transport) heard(name string, within time.Duration) (contact, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c, found := t.contacts[name]
	return c, found && time.Since(c.at) <= within
}

// note notes that a follower has just responded.
func (t *transport) note(name string, lastLog uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.contacts[name] = contact{time.Now(), lastLog, t.contacts[name].match}
}

// accepted notes that a follower has just accepted a request. lastLog is the index of its newest entry before that.
func (t *transport) accepted(name string, lastLog uint64, args *raft.AppendEntriesRequest) {
	t.mu.Lock()
	defer t.mu.Unlock()
	m := matching(args)
	t.contacts[name] = contact{time.Now(), max(lastLog, m.index), m}
}

// unmatch forgets what a follower has in common with the leader.
func (t *transport) unmatch(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.contacts[name]
	c.match = match{}
	t.contacts[name] = c
}

func newTransport(layer StreamLayer, logger raftLogger, hung func() bool) *transport {
	waiting, end := context.WithCancel(context.Background())
	return &transport{
		hung:      hung,
		onOwnDisk: func(uint64) bool { return true },
		voter:     func() raft.ServerID { return "" },
		progress:  func() (uint64, uint64) { return 0, 0 },
		committed: func(uint64) uint64 { return 0 },
		calls:     make(chan raft.RPC),
		campaigns: make(chan campaign),
		closed:    make(chan struct{}),
		waiting:   waiting,
		end:       end,
		contacts:  make(map[string]contact),
		NetworkTransport: raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
			Stream:  newStreams(layer),
			Logger:  logger,
			MaxPool: keptConnections,
			//mutant:raft-pipelines
			MaxRPCsInFlight: 1, // no pipelines
			Timeout:         rpcTimeout,
		}),
	}
}

// SetHeartbeatHandler implements raft.Transport by doing nothing.
//
//mutant:heartbeats-have-no-handler //mutant:heartbeats-overtake
func (t *transport) SetHeartbeatHandler(func(raft.RPC)) {}

// AppendEntries implements raft.Transport. Both entries and heartbeats are sent by it.
func (t *transport) AppendEntries(id raft.ServerID, target raft.ServerAddress, args *raft.AppendEntriesRequest,
	resp *raft.AppendEntriesResponse) error {
	beats := isHeartbeat(args)
	if beats {
		if !t.isLate(string(target)) { //mutant:late-heartbeat-waits-for-a-beat
			sleep.For(t.waiting, untilBeat(time.Now())) //mutant:heartbeats-leave-one-by-one
		}
		return t.heartbeat(id, target, args, resp)
	}
	all := len(args.Entries)
	args.Entries = fitting(args.Entries)
	took, err := t.replicate(id, target, args, resp)
	if err != nil || resp.Term > args.Term {
		return err
	}
	if !resp.Success {
		t.note(string(target), resp.LastLog)
		return nil
	}
	t.accepted(string(target), resp.LastLog, args)
	if len(args.Entries) == 0 {
		return nil
	}
	last := args.Entries[len(args.Entries)-1].Index
	if !t.onOwnDisk(last) { //mutant:leader-counts-before-its-disk
		return errOwnDisk
	}
	t.exchanged(took)
	if len(args.Entries) == all { // else it lacks what the message had no room for, and may be needed soon
		t.rest(last)
	}
	return nil
}

// RequestVote implements raft.Transport.
func (t *transport) RequestVote(id raft.ServerID, target raft.ServerAddress, args *raft.RequestVoteRequest,
	resp *raft.RequestVoteResponse) error {
	return onAnyConnection(func() error { return t.NetworkTransport.RequestVote(id, target, args, resp) })
}

// onAnyConnection makes a call that may safely be repeated. It repeats the call while the error may come from a kept
// connection that has ended, at whichever end. A peer that does not answer is not asked again.
func onAnyConnection(call func() error) (err error) {
	ended := func(as error) bool { return errors.Is(err, as) }
	for range keptConnections + 1 { //mutant:vote-asked-on-one-connection
		if err = call(); !slices.ContainsFunc([]error{io.EOF, syscall.EPIPE, syscall.ECONNRESET, net.ErrClosed},
			ended) {
			return err
		}
	}
	return err
}

// Consumer implements raft.Transport. The first call starts the relay of incoming requests.
func (t *transport) Consumer() <-chan raft.RPC {
	t.relay.Do(func() { t.relaying.Go(t.relayCalls) })
	return t.calls
}

// relayCalls passes incoming requests, and orders to stand for election, to raft in order. The goroutines that wait
// for an answer end when the transport closes.
func (t *transport) relayCalls() {
	for {
		select {
		case call := <-t.NetworkTransport.Consumer():
			t.unname(call.Command)
			select {
			case t.calls <- call:
			case <-t.closed:
				return
			}
		case c := <-t.campaigns:
			t.begin(c)
		case <-t.closed:
			return
		}
	}
}

// unname removes or replaces the candidate's name in a vote request, by which raft would refuse it.
func (t *transport) unname(command any) {
	switch request := command.(type) {
	case *raft.RequestVoteRequest:
		request.ID = nil //mutant:voter-refuses-later-replicas
	case *raft.RequestPreVoteRequest:
		if voter := t.voter(); voter != "" { //mutant:voter-refuses-before-its-own-vote
			request.ID = []byte(voter)
		}
	}
}

// messageBytes bounds the bytes of a message's entries, unless it has only one.
const messageBytes = shard.MaxEntryBytes

// fitting returns as many of the first entries as one message may carry.
func fitting(entries []*raft.Log) []*raft.Log {
	bytes := 0
	for i, entry := range entries {
		if bytes += len(entry.Data); bytes > messageBytes && i > 0 { //mutant:message-of-any-length
			return entries[:i]
		}
	}
	return entries
}

// Close implements raft.WithClose. It also closes the connections to peers; otherwise the peers' ends would wait
// forever.
func (t *transport) Close() error {
	t.end()
	err := t.NetworkTransport.Close()
	t.closing.Do(func() { close(t.closed) })
	t.relaying.Wait()
	t.CloseStreams()
	return err
}

// keptConnections is the number of unused connections to a peer that are kept for later use.
const keptConnections = 2

// rpcTimeout bounds one exchange with a peer; a snapshot gets that much time for every 256 KiB.
const rpcTimeout = 2 * time.Second
