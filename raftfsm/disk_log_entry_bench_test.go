package raftfsm

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/hashicorp/raft"

	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/internal/testing/memfs"
	"github.com/stint-io/stint/shard"
)

// BenchmarkEntry measures the cost of one log entry, on a single node and on three replicas in this process. The
// replicas reach each other by TCP over loopback, and each has a directory on the real disk. Each group has one
// proposer, which, like an actor, proposes when its previous entry is installed. For comparison it runs the same with a
// bolt file for each group and replica, as raft-boltdb is usually used, and with Pebble in memory, where no write
// waits. The figures are per entry, for all replicas together:
//
//	cpu-us    processor time of this process, user and system
//	csw       voluntary context switches
//	syncs     fdatasyncs of the log (not counted for bolt, which makes two for each of its commits)
//	writes    write calls, to files and sockets
//	disk-B    bytes written to the disk
func BenchmarkEntry(b *testing.B) {
	for _, nodes := range []int{1, 3} {
		for _, groups := range []int{1, 4, 16} {
			for _, size := range []int{100, 4096} {
				for _, store := range []string{"pebble", "bolt", "memory"} {
					b.Run(fmt.Sprintf("nodes=%d/groups=%d/bytes=%d/%s", nodes, groups, size, store),
						func(b *testing.B) {
							benchmarkEntry(b, nodes, groups, size, store)
						})
				}
			}
		}
	}
}

func benchmarkEntry(b *testing.B, nodes, groups, size int, store string) {
	b.ReportAllocs()
	r := openRig(b, nodes, groups, store)
	defer r.close()
	var owners []*owner
	for _, group := range r.groups {
		await.Until(b, "an election", func() bool { return leaderOf(group) != nil })
		owners = append(owners, lead(b, leaderOf(group)))
	}
	payload := string(make([]byte, size))
	propose(b, owners, 500, payload) // leaves connections, caches and the first elections out of the measurement
	syncs, before := r.syncs.Load(), usage(b)
	b.ResetTimer()
	propose(b, owners, b.N, payload)
	b.StopTimer()
	after := usage(b)
	per := func(from, to int64) float64 { return float64(to-from) / float64(b.N) }
	b.ReportMetric(per(before.cpu, after.cpu)/1e3, "cpu-us/entry")
	b.ReportMetric(per(before.switches, after.switches), "csw/entry")
	b.ReportMetric(per(before.writes, after.writes), "writes/entry")
	b.ReportMetric(per(before.disk, after.disk), "disk-B/entry")
	if store != "bolt" {
		b.ReportMetric(per(syncs, r.syncs.Load()), "syncs/entry")
	}
}

func propose(b *testing.B, owners []*owner, n int, payload string) {
	var left atomic.Int64
	left.Store(int64(n))
	var proposers sync.WaitGroup
	for _, o := range owners {
		proposers.Go(func() {
			for i := 0; left.Add(-1) >= 0; i++ {
				if err := o.put(key(i%1000), payload); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	proposers.Wait()
}

func leaderOf(group []*Group) *Group {
	for _, g := range group {
		if g.Leading() {
			return g
		}
	}
	return nil
}

// consumed is the resources that this process has used so far.
type consumed struct{ cpu, switches, writes, disk int64 }

func usage(b *testing.B) (c consumed) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	c.cpu, c.switches = u.Utime.Nano()+u.Stime.Nano(), u.Nvcsw
	io, err := os.ReadFile("/proc/self/io")
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(io)) {
		fmt.Sscanf(line, "syscw: %d", &c.writes)
		fmt.Sscanf(line, "write_bytes: %d", &c.disk)
	}
	return c
}

// rig holds the replicas of a benchmark.
type rig struct {
	b      *testing.B
	syncs  atomic.Int64
	worlds []*world
	groups [][]*Group // by shard, then by node
	addrs  sync.Map   // of replicas, by name
}

func openRig(b *testing.B, nodes, groups int, store string) *rig {
	r := &rig{b: b, groups: make([][]*Group, groups)}
	for n := range nodes {
		dir, fs := b.TempDir(), vfs.Default
		if store == "memory" {
			fs = memfs.New(dir)
		}
		r.worlds = append(r.worlds, openWorld(b, dir, countingFS{fs, &r.syncs}, nodeName(n)))
	}
	for i := range groups {
		replica := Replica{Shard: shard.ID(i), Number: 1}
		var voters []string
		var layers []*tcpLayer
		for n := range nodes {
			voters = append(voters, replica.Name(nodeName(n)))
			layers = append(layers, r.listen(voters[n]))
		}
		for n, w := range r.worlds {
			if err := CreateGroup(w.Stores, replica, voters); err != nil {
				b.Fatal(err)
			}
			cfg := GroupConfig{Replica: replica, Lone: nodes == 1, Stream: layers[n]}
			open := w.openGroup
			if store == "bolt" {
				open = w.openBoltGroup
			}
			r.groups[i] = append(r.groups[i], open(b, cfg))
		}
	}
	return r
}

func (r *rig) close() {
	for _, group := range r.groups {
		for _, g := range group {
			g.Shutdown()
		}
	}
	for _, w := range r.worlds {
		w.close(r.b)
	}
}

// tcpLayer is a stream layer over loopback, with a port for each replica.
type tcpLayer struct {
	net.Listener
	name  string
	addrs *sync.Map
}

func (r *rig) listen(name string) *tcpLayer {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.b.Fatal(err)
	}
	r.addrs.Store(name, l.Addr().String())
	return &tcpLayer{l, name, &r.addrs}
}

func (l *tcpLayer) Addr() net.Addr { return &net.UnixAddr{Name: l.name} }

func (l *tcpLayer) Dial(name string, timeout time.Duration) (net.Conn, error) {
	addr, ok := l.addrs.Load(name)
	if !ok {
		return nil, fmt.Errorf("nobody is called %s", name)
	}
	return net.DialTimeout("tcp", addr.(string), timeout)
}

// countingFS counts fsyncs.
type countingFS struct {
	vfs.FS
	syncs *atomic.Int64
}

func (f countingFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.Create(name, category)
	return f.watch(file, err)
}

func (f countingFS) ReuseForWrite(from, to string, category vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.ReuseForWrite(from, to, category)
	return f.watch(file, err)
}

func (f countingFS) watch(file vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return countingFile{file, f.syncs}, nil
}

type countingFile struct {
	vfs.File
	syncs *atomic.Int64
}

func (f countingFile) Sync() error     { f.syncs.Add(1); return f.File.Sync() }
func (f countingFile) SyncData() error { f.syncs.Add(1); return f.File.SyncData() }

// openBoltGroup opens a group as OpenGroup does, except that its log, terms and votes have a bolt file of their own.
func (w *world) openBoltGroup(b testing.TB, cfg GroupConfig) *Group {
	b.Helper()
	name := cfg.Replica.Name(w.identity.Node)
	g := &Group{name: name, cfg: cfg, stores: w.Stores,
		guard:     &guard{fault: w.fault, watchdog: w.watchdog, group: name},
		proposals: make(chan struct{}, proposalsInFlight), closed: make(chan struct{})}
	g.fsm = &fsm{id: cfg.Replica.Shard, guard: g.guard, state: shard.NewState(cfg.Replica.Shard)}
	opened, err := openBolt(filepath.Join(w.dir, fmt.Sprint("shard", cfg.Replica.Shard, ".db")))
	if err != nil {
		b.Fatal(err)
	}
	file := opened.(bolt).BoltStore
	b.Cleanup(func() { file.Close() })
	cached, err := raft.NewLogCache(recentEntries, file)
	if err != nil {
		b.Fatal(err)
	}
	if err := g.openTransport(quiet); err != nil {
		b.Fatal(err)
	}
	var members raft.Configuration
	found, err := w.record(cfg.Replica)
	if err != nil {
		b.Fatal(err)
	}
	for _, voter := range found.Voters {
		members.Servers = append(members.Servers,
			raft.Server{ID: raft.ServerID(voter), Address: raft.ServerAddress(voter)})
	}
	conf, snapshots := raftConfig(name, g.electionTimeout(), quiet), raft.NewDiscardSnapshotStore()
	if err := raft.BootstrapCluster(conf, cached, file, snapshots, g.transport, members); err != nil {
		b.Fatal(err)
	}
	if g.raft, err = raft.NewRaft(conf, g.fsm, cached, file, snapshots, g.transport); err != nil {
		b.Fatal(err)
	}
	g.watching.Go(g.watchLeadership)
	return g
}
