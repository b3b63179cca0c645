package raftfsm

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"github.com/stint-io/stint/shard"
)

// fsm installs committed entries into a shard's state; it never decides anything and does no I/O.
//
// It relies on raft to call Apply, Snapshot and Restore from one goroutine, in the order of the log, and never after
// that goroutine has ended. raft reports a proposal as done regardless of what Apply did, so the only valid answer is
// the Outcome that Apply returns.
type fsm struct {
	id       shard.ID
	guard    *guard
	applied  func(shard.Outcome) // Observer.Applied; may be nil
	diverged func(error)         // Observer.Diverged; may be nil

	index   atomic.Uint64 // of the newest installed entry or configuration; a restored snapshot does not set it
	entries atomic.Uint64 // installed since the newest snapshot
	bytes   atomic.Uint64 // of those entries
	records atomic.Int64  // the bytes of the state's records, for readers without mu

	mu    sync.RWMutex // Apply, Snapshot and Restore write; View reads
	state *shard.State
}

// Apply implements raft.FSM. An entry that cannot be installed ends this replica: a replica that skips an entry that
// the others install has forked.
func (f *fsm) Apply(log *raft.Log) any {
	outcome, err := f.install(log)
	if err != nil {
		f.guard.fault.halt(fmt.Errorf("%s: installing entry %d: %w", f.guard.group, log.Index, err))
	}
	f.index.Store(log.Index)
	f.entries.Add(1)
	f.bytes.Add(uint64(len(log.Data)))
	if f.applied != nil {
		f.applied(outcome)
	}
	return outcome
}

func (f *fsm) install(log *raft.Log) (shard.Outcome, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	outcome, err := f.state.Install(log.Data, log.Index, log.Term)
	f.records.Store(int64(f.state.Bytes()))
	return outcome, err
}

// StoreConfiguration implements raft.ConfigurationStore. There is nothing to store, but without this method raft does
// not count a membership change as applied, and an idle shard could not be snapshotted after a move.
//
//mutant:no-configuration-store
func (f *fsm) StoreConfiguration(index uint64, _ raft.Configuration) { f.index.Store(index) }

// Snapshot implements raft.FSM.
func (f *fsm) Snapshot() (raft.FSMSnapshot, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.entries.Store(0)
	f.bytes.Store(0)
	return picture{f.state.Snapshot(), f.diverged}, nil
}

// picture returns a picture of the state once it has installed an entry of an epoch, or a later one. look is called
// with the state as it is pictured.
func (f *fsm) picture(epoch, seq uint64, look func(*shard.State)) (*shard.Snapshot, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.state.Epoch() < epoch || f.state.Epoch() == epoch && f.state.Seq() < seq {
		return nil, false
	}
	look(f.state)
	return f.state.Snapshot(), true
}

// A snapshot is due when replaying the entries after the last snapshot would take about three times as long as
// restoring it: replaying one entry takes as long as restoring about a hundred records (measured: 20 and 0.2
// microseconds). So the cost of snapshots stays proportional to the work done, however many records there are. The
// log's bytes are bounded in the same way.
const (
	snapshotEntriesMin      = 8192
	snapshotRecordsPerEntry = 32
	snapshotBytesMin        = 64 << 20
	snapshotBytesPerRecord  = 100
)

func (f *fsm) snapshotDue() bool {
	var records uint64
	f.view(func(s *shard.State) { records = uint64(s.Records()) })
	return f.entries.Load() >= max(snapshotEntriesMin, records/snapshotRecordsPerEntry) ||
		f.bytes.Load() >= max(snapshotBytesMin, records*snapshotBytesPerRecord)
}

// Restore implements raft.FSM: it verifies the whole snapshot into a fresh state before it swaps the states.
func (f *fsm) Restore(from io.ReadCloser) error {
	state, err := shard.Restore(f.id, from)
	if err != nil {
		f.guard.fault.halt(fmt.Errorf("%s: restoring a snapshot: %w", f.guard.group, err))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state = state
	f.records.Store(int64(state.Bytes()))
	return nil
}

func (f *fsm) view(read func(*shard.State)) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	read(f.state)
}

// picture is a shard's snapshot that raft writes while entries continue to be installed.
type picture struct {
	*shard.Snapshot
	diverged func(error)
}

// Persist implements raft.FSMSnapshot. It cancels the snapshot and reports a divergence if the records differ from
// those installed.
func (p picture) Persist(sink raft.SnapshotSink) error {
	if _, err := p.WriteTo(sink); err != nil {
		sink.Cancel()
		if errors.Is(err, shard.ErrDiverged) && p.diverged != nil {
			p.diverged(err)
		}
		return err
	}
	return sink.Close()
}

// Release implements raft.FSMSnapshot. A picture holds no resources.
func (picture) Release() {}
