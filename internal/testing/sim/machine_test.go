package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/stint-io/stint/cluster/gossip"
	"github.com/stint-io/stint/internal/testing/bubble"
	"github.com/stint-io/stint/internal/testing/memfs"
	"github.com/stint-io/stint/internal/testing/memnet"
	"github.com/stint-io/stint/node"
)

// machine is what a node runs on: it outlives its processes.
type machine struct {
	w         *world
	id        string
	addr      string
	clock     *bubble.Clock
	disk      *memfs.Disk
	dir       string        // on the disk
	dirs      int           // directories created so far
	held      chan struct{} // capacity 1: held while its process is started or stopped
	life      atomic.Pointer[life]
	unwatched bool        // nothing restarts its process
	alone     bool        // it founds its cluster alone
	gone      atomic.Bool // for good: removed from the cluster
	hurt      atomic.Bool
}

// life is one process.
type life struct {
	*node.Node
	machine *machine
	dead    atomic.Bool     // set when it is killed: its answers no longer count
	ctx     context.Context // ends when it is killed
	kill    context.CancelFunc
	closing atomic.Bool
	layer   atomic.Pointer[memnet.Layer]
}

func (w *world) newMachine(i int) *machine {
	m := &machine{w: w, id: fmt.Sprint("n", i), addr: fmt.Sprintf("n%d:7401", i), held: make(chan struct{}, 1)}
	m.clock = bubble.NewClock(time.Duration(w.chance.IntN(60)-30) * time.Millisecond)
	m.wipe()
	return m
}

func (m *machine) hold()    { m.held <- struct{}{} }
func (m *machine) release() { <-m.held }

// newDir names a directory that no process has used.
func (m *machine) newDir() string {
	m.dirs++
	return fmt.Sprintf("/%s-%d", m.id, m.dirs)
}

// wipe gives the machine an empty disk.
func (m *machine) wipe() {
	m.dir = m.newDir()
	m.disk = memfs.NewDisk(memfs.New(m.dir))
}

// start starts a process on the contents of the disk. The caller holds the machine.
func (m *machine) start() error {
	l := &life{machine: m}
	l.ctx, l.kill = context.WithCancel(context.Background())
	n, err := node.Start(l.ctx, m.config(l))
	if err != nil {
		l.dead.Store(true)
		l.kill()
		m.w.town.Die(m.id, m.addr)
		if layer := l.layer.Load(); layer != nil {
			layer.Close()
		}
		return err
	}
	l.Node = n
	m.life.Store(l)
	m.w.story.tell(m.id, "started")
	if !m.unwatched {
		m.w.running.Go(func() { m.watch(l) })
	}
	return nil
}

func (m *machine) config(l *life) node.Config {
	c := node.Config{
		DataDir:         m.dir,
		NodeID:          m.id,
		PeerAddr:        m.addr,
		GossipAddr:      m.addr,
		ClientPorts:     node.ClientPorts{APIAddr: m.addr},
		BootstrapExpect: m.w.plan.founders,
		Join:            []string{"seed:7402"},
		Shards:          m.w.plan.shards,
		Replicas:        m.w.plan.replicas,
		PoliciesFile:    m.w.policies,
		ReplaceAfter:    m.w.plan.replaceAfter,
		InsecureAPI:     true,
		InsecurePeers:   true,
		Logger:          slog.New(scribe{world: m.w, clock: m.clock, story: m.w.story, who: m.id, level: m.w.level}),
		World: node.World{
			Now:    m.clock.Now,
			Slept:  m.clock.Slept,
			FS:     m.disk,
			Listen: l.listen,
			Dial:   l.dial,
			Gossip: func(c gossip.Config) (node.Membership, error) {
				return m.w.town.MoveIn(c, 300*time.Millisecond), nil
			},
			NoAPI: true,

			SnapshotEvery: m.w.plan.snapshotEvery,
		},
	}
	if c.BootstrapExpect == 1 && m.alone {
		c.Join = nil
	}
	return c
}

func (l *life) listen(string) (net.Listener, error) {
	layer := l.machine.w.net.Listen(l.machine.addr)
	l.layer.Store(layer)
	return layer, nil
}

// dial connects to another node, as long as the process lives.
func (l *life) dial(ctx context.Context, addr string) (net.Conn, error) {
	layer := l.layer.Load()
	if l.dead.Load() || layer == nil {
		return nil, errors.New("this process was killed")
	}
	patience := 2 * time.Second
	if deadline, ok := ctx.Deadline(); ok {
		patience = time.Until(deadline)
	}
	conn, err := layer.Dial(addr, patience)
	if err == nil && l.dead.Load() {
		conn.Close()
		return nil, errors.New("this process was killed")
	}
	return conn, err
}

// watch restarts a process that stopped itself.
func (m *machine) watch(l *life) {
	var reason error
	select {
	case reason = <-l.Done():
	case <-l.ctx.Done():
		return
	}
	m.w.story.tell(m.id, "stopped itself: %v", reason)
	m.w.tally.note("a node stopped itself")
	if errors.Is(reason, node.ErrTwice) {
		m.w.tally.note("a second process ended by itself")
	}
	if err := m.mayStop(reason); err != nil {
		m.w.fail(err)
	}
	m.hold()
	defer m.release()
	if m.life.Load() != l {
		return
	}
	m.crash(errors.Is(reason, node.ErrDisk))
	m.w.pause(time.Second)
	m.clock.Set(0)
	m.restart()
}

// mayStop returns nil if a fault of the machine explains why the process stopped itself.
func (m *machine) mayStop(reason error) error {
	if m.hurt.Load() || m.gone.Load() { // a removed node stops
		return nil
	}
	return fmt.Errorf("%s stopped itself, and nothing was done to it: %w", m.id, reason)
}

// crash ends the process immediately: its network is cut, and all or part of what it wrote without fsync is lost. The
// caller holds the machine. The old process then shuts down on its old disk, which no other process sees. A process
// that ended itself leaves its writes in the cache.
func (m *machine) crash(keep bool) {
	l := m.life.Swap(nil)
	if l == nil {
		return
	}
	l.dead.Store(true)
	m.w.net.Isolate(m.addr)
	m.w.town.Die(m.id, m.addr)
	l.kill()
	if layer := l.layer.Load(); layer != nil {
		layer.Close()
	}
	m.takeDisk(keep)
	m.w.story.tell(m.id, "crashed")
	m.w.running.Go(func() {
		over, cancel := context.WithCancel(context.Background())
		cancel()
		l.Close(over)
	})
}

// takeDisk replaces the disk by what a crash leaves of it.
func (m *machine) takeDisk(keep bool) {
	to, percent := m.newDir(), m.w.unsynced()
	if keep {
		percent = 100
	}
	old := m.disk
	clone := memfs.CrashClone(old, percent, int64(m.dirs))
	if err := memfs.Move(clone, m.dir, to); err != nil {
		panic(err)
	}
	m.disk, m.dir = memfs.NewDisk(clone), to
	old.Recover()
}

// restart starts a process if none runs, and retries until one starts. The caller holds the machine.
func (m *machine) restart() {
	if m.gone.Load() || m.life.Load() != nil {
		return
	}
	for {
		m.w.net.Rejoin(m.addr)
		err := m.start()
		if err == nil {
			return
		}
		m.w.story.tell(m.id, "does not start: %v", err)
		if !m.hurt.Load() || m.w.over.Load() || errors.Is(err, node.ErrConfig) {
			m.w.fail(fmt.Errorf("%s does not start: %w", m.id, err))
			return
		}
		time.Sleep(time.Second)
		m.clock.Set(0)
		if errors.Is(err, node.ErrDisk) {
			m.takeDisk(true) // it failed before the process noticed: from here on it works, with what it holds
		}
	}
}

// stop stops the process in order. The caller holds the machine.
func (m *machine) stop() {
	l := m.life.Load()
	if l == nil {
		return
	}
	m.w.story.tell(m.id, "stopping")
	l.closing.Store(true)
	m.disk.Recover()
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	err := l.Close(ctx)
	l.dead.Store(true)
	l.kill()
	m.life.Store(nil)
	m.w.story.tell(m.id, "stopped: %v", err)
}
