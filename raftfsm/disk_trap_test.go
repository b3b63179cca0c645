package raftfsm

import (
	"errors"
	"io"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/hashicorp/raft"

	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/internal/testing/memnet"
	"github.com/stint-io/stint/shard"
)

// rival is a group member played by the test: it grants every vote and sends what the test tells it to send.
type rival struct {
	*raft.NetworkTransport
	name string
}

func newRival(t *testing.T, net *memnet.Net, name string) *rival {
	r := &rival{name: name, NetworkTransport: raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: newStreams(net.Listen(name)), Logger: quiet, MaxPool: 1, Timeout: time.Minute})}
	done := make(chan struct{})
	go func() {
		for {
			select {
			case rpc := <-r.Consumer():
				rpc.Respond(r.answer(rpc.Command))
			case <-done:
				return
			}
		}
	}()
	t.Cleanup(func() {
		close(done)
		r.Close()
		r.CloseStreams()
	})
	return r
}

var quiet = newRaftLogger(slog.New(slog.DiscardHandler), nil)

func (r *rival) answer(command any) (any, error) {
	switch c := command.(type) {
	case *raft.RequestPreVoteRequest:
		return &raft.RequestPreVoteResponse{RPCHeader: r.header(), Term: c.Term, Granted: true}, nil
	case *raft.RequestVoteRequest:
		return &raft.RequestVoteResponse{RPCHeader: r.header(), Term: c.Term, Granted: true}, nil
	case *raft.AppendEntriesRequest:
		last := c.PrevLogEntry + uint64(len(c.Entries))
		return &raft.AppendEntriesResponse{RPCHeader: r.header(), Term: c.Term, LastLog: last, Success: true}, nil
	}
	return nil, errors.New("unexpected")
}

func (r *rival) header() raft.RPCHeader {
	return raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(r.name), Addr: []byte(r.name)}
}

// lead sends a leader's AppendEntries of a given term.
func (r *rival) lead(to string, term uint64, prev *raft.Log, entries []*raft.Log, commit uint64) error {
	req := &raft.AppendEntriesRequest{RPCHeader: r.header(), Term: term, Entries: entries, LeaderCommitIndex: commit}
	if prev != nil {
		req.PrevLogEntry, req.PrevLogTerm = prev.Index, prev.Term
	}
	return r.AppendEntries(raft.ServerID(to), raft.ServerAddress(to), req, new(raft.AppendEntriesResponse))
}

// words is a state machine that records the entries that it is given.
type words struct{ said []string }

func (w *words) Apply(log *raft.Log) any             { w.said = append(w.said, string(log.Data)); return nil }
func (w *words) Snapshot() (raft.FSMSnapshot, error) { return nil, errors.New("no") }
func (w *words) Restore(io.ReadCloser) error         { return errors.New("no") }

// The trap of hashicorp/raft issue 695. Node a leads term 2 and is idle. Node b was elected in term 3. Its heartbeat
// reaches a, and then a client's proposal does. Handled beside the main goroutine, the heartbeat raises a's term while
// a's leader loop sleeps. The proposal that wakes the loop is written under term 3, at the index of an entry that b
// wrote in term 3. raft takes the two for the same entry, and a applies an entry that the group never agreed on. On
// this package's transport the heartbeat is handled completely before or after the proposal.
//
// The bare transport must fork here; otherwise the test could not detect the loss of the guard.
func TestHeartbeatsDoNotOvertakeTheMainGoroutine(t *testing.T) {
	const forged, agreed = "a's, deposed", "b's"
	for _, c := range []struct {
		what  string
		guard func(*transport) raft.Transport
		want  []string
	}{
		{"bare transport", func(t *transport) raft.Transport { return t.NetworkTransport }, []string{forged, agreed}},
		{"our transport", func(t *transport) raft.Transport { return t }, []string{agreed}},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				net, fsm := memnet.New(), &words{}
				b := newRival(t, net, "b")
				newRival(t, net, "c")
				trans := newTransport(net.Listen("a"), quiet, func() bool { return false })
				a := trapped(t, c.guard(trans), fsm)
				defer trans.Close()
				defer func() { a.Shutdown().Error() }()
				await.Until(t, "election of a", func() bool { return a.State() == raft.Leader })
				synctest.Wait() // its first entry is written and answered
				last, term := a.LastIndex(), a.CurrentTerm()

				heartbeat := make(chan error, 1)
				go func() { heartbeat <- b.lead("a", term+1, nil, nil, 0) }()
				synctest.Wait()
				deposed := a.Apply([]byte(forged), time.Minute)
				if err := <-heartbeat; err != nil {
					t.Fatal(err)
				}
				if err := deposed.Error(); err == nil {
					t.Error("a deposed leader's proposal was acknowledged")
				}
				err := b.lead("a", term+1, &raft.Log{Index: last, Term: term}, []*raft.Log{
					{Index: last + 1, Term: term + 1, Type: raft.LogNoop},
					{Index: last + 2, Term: term + 1, Type: raft.LogCommand, Data: []byte(agreed)},
				}, last+2)
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if !slices.Equal(fsm.said, c.want) {
					t.Errorf("a applied %q, want %q", fsm.said, c.want)
				}
			})
		})
	}
}

// trapped starts a bare raft member "a" of the group a, b, c.
func trapped(t *testing.T, trans raft.Transport, fsm raft.FSM) *raft.Raft {
	t.Helper()
	store, conf := raft.NewInmemStore(), raftConfig("a", heartbeatTimeout, quiet)
	var members raft.Configuration
	for _, name := range []string{"a", "b", "c"} {
		members.Servers = append(members.Servers,
			raft.Server{ID: raft.ServerID(name), Address: raft.ServerAddress(name)})
	}
	if err := raft.BootstrapCluster(conf, store, store, raft.NewDiscardSnapshotStore(), trans, members); err != nil {
		t.Fatal(err)
	}
	a, err := raft.NewRaft(conf, fsm, store, store, raft.NewDiscardSnapshotStore(), trans)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// The same through OpenGroup: the transport that it gives to raft must handle heartbeats in order.
func TestGroupsKeepHeartbeatsInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := memnet.New()
		w := openWorld(t, t.TempDir(), vfs.NewMem(), "n1")
		me, other := lone.Name("n1"), lone.Name("n2")
		b := newRival(t, net, other)
		newRival(t, net, lone.Name("n3"))
		if err := CreateGroup(w.Stores, lone, []string{me, other, lone.Name("n3")}); err != nil {
			t.Fatal(err)
		}
		g := w.openGroup(t, GroupConfig{Replica: lone, Stream: net.Listen(me)})
		lead(t, g)
		synctest.Wait()
		last, term := g.raft.LastIndex(), g.raft.CurrentTerm()
		heartbeat := make(chan error, 1)
		go func() { heartbeat <- b.lead(me, term+1, nil, nil, 0) }()
		synctest.Wait()
		_, err := g.Propose(shard.EncodeEpochOpen(lone.Shard, 2, shard.LevelNewest))()
		var refused *shard.Error
		if !errors.As(err, &refused) || refused.Code != shard.NotOwner {
			t.Errorf("a deposed leader's proposal ended with %v", err)
		}
		if err := <-heartbeat; err != nil {
			t.Fatal(err)
		}
		if got := g.raft.LastIndex(); got != last {
			t.Errorf("a deposed leader wrote entry %d", got)
		}
		g.Shutdown()
		w.close(t)
	})
}

// Wrapped as an interface, the transport would lose pre-vote, and a member that was cut off would depose a healthy
// leader.
func TestTransportCanPreVote(t *testing.T) {
	var trans raft.Transport = &transport{}
	if _, ok := trans.(raft.WithPreVote); !ok {
		t.Error("raft would go without pre-votes")
	}
	if _, ok := trans.(raft.WithClose); !ok {
		t.Error("raft would not close the transport")
	}
	if raftConfig("a", heartbeatTimeout, quiet).PreVoteDisabled {
		t.Error("pre-votes are switched off")
	}
}

// raft stops reading a pipeline's responses at the first refusal, and may then wait forever to send on it.
func TestTransportHasNoPipelines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := memnet.New()
		newRival(t, net, "b")
		trans := newTransport(net.Listen("a"), quiet, func() bool { return false })
		defer trans.Close()
		if _, err := trans.AppendEntriesPipeline("b", "b"); err != raft.ErrPipelineReplicationNotSupported {
			t.Errorf("asked for a pipeline, it answers %v", err)
		}
	})
}

// A leader with a hanging disk must not stay leader by its heartbeats.
func TestHungReplicaIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := memnet.New()
		newRival(t, net, "b")
		hung := false
		trans := newTransport(net.Listen("a"), quiet, func() bool { return hung })
		defer trans.Close()
		beat := func() error {
			return trans.AppendEntries("b", "b", &raft.AppendEntriesRequest{Term: 1}, new(raft.AppendEntriesResponse))
		}
		if err := beat(); err != nil {
			t.Fatal(err)
		}
		hung = true
		if err := beat(); !errors.Is(err, errHungDisk) {
			t.Errorf("heartbeat with a hung disk: %v", err)
		}
	})
}

// A voter that was restarted since this replica last talked to it grants its vote at the first call.
func TestAVoteIsAskedForOnAnyConnection(t *testing.T) {
	for what, ask := range map[string]func(*transport) error{
		"vote": func(a *transport) error {
			return a.RequestVote("b", "b", &raft.RequestVoteRequest{Term: 2}, new(raft.RequestVoteResponse))
		},
		"pre-vote": func(a *transport) error {
			return a.RequestPreVote("b", "b", &raft.RequestPreVoteRequest{Term: 2}, new(raft.RequestPreVoteResponse))
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				net := memnet.New()
				a := newTransport(net.Listen("a"), quiet, func() bool { return false })
				defer a.Close()
				b := newTransport(net.Listen("b"), quiet, func() bool { return false })
				var beats sync.WaitGroup
				for range keptConnections {
					beats.Go(func() {
						a.AppendEntries("b", "b", &raft.AppendEntriesRequest{Term: 1}, new(raft.AppendEntriesResponse))
					})
				}
				var calls []raft.RPC
				for range keptConnections {
					calls = append(calls, <-b.Consumer())
				}
				for _, call := range calls { // at the same time, each on a connection of its own
					call.Respond(&raft.AppendEntriesResponse{}, nil)
				}
				beats.Wait()
				b.Close()

				b = newTransport(net.Listen("b"), quiet, func() bool { return false })
				defer b.Close()
				asked := make(chan error)
				go func() { asked <- ask(a) }()
				select {
				case call := <-b.Consumer():
					if _, pre := call.Command.(*raft.RequestPreVoteRequest); pre {
						call.Respond(&raft.RequestPreVoteResponse{Granted: true}, nil)
					} else {
						call.Respond(&raft.RequestVoteResponse{Granted: true}, nil)
					}
					if err := <-asked; err != nil {
						t.Error(err)
					}
				case err := <-asked:
					t.Errorf("it was not asked: %v", err)
				}
			})
		})
	}
}
