package sim

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/stint-io/stint/cluster"
	"github.com/stint-io/stint/node"
	"github.com/stint-io/stint/raftfsm/memfs"
	"github.com/stint-io/stint/raftfsm/memnet"
)

// machine is what a node runs on: it outlives its processes.
type machine struct {
	w     *world
	id    string
	addr  string
	clock *clock
	disk  *memfs.Disk
	dir   string        // on the disk, and of the small file on the real one
	dirs  int           // made so far
	held  chan struct{} // of capacity 1: by whoever starts or ends its process
	life  atomic.Pointer[life]
	alone bool        // it founds its cluster alone
	gone  atomic.Bool // for good: removed from the cluster
	hurt  atomic.Bool
}

// life is one process.
type life struct {
	*node.Node
	machine *machine
	dead    atomic.Bool     // from the moment at which it was killed: nothing it says counts
	ctx     context.Context // ends then
	kill    context.CancelFunc
	closing atomic.Bool
	layer   atomic.Pointer[memnet.Layer]
}

func (w *world) newMachine(i int) *machine {
	m := &machine{w: w, id: fmt.Sprint("n", i), addr: fmt.Sprintf("n%d:7401", i), held: make(chan struct{}, 1)}
	m.clock = newClock(time.Duration(w.chance.IntN(60)-30) * time.Millisecond)
	m.wipe()
	return m
}

func (m *machine) hold()    { m.held <- struct{}{} }
func (m *machine) release() { <-m.held }

// newDir names a directory that no process has used.
func (m *machine) newDir() string {
	m.dirs++
	return filepath.Join(m.w.dir, fmt.Sprintf("%s-%d", m.id, m.dirs))
}

// wipe puts an empty disk into the machine.
func (m *machine) wipe() {
	m.dir = m.newDir()
	m.disk = memfs.NewDisk(memfs.New(m.dir))
}

// start starts a process on what the disk holds. The caller holds the machine.
func (m *machine) start() error {
	l := &life{machine: m}
	l.ctx, l.kill = context.WithCancel(context.Background())
	n, err := node.Start(l.ctx, m.config(l))
	if err != nil {
		l.dead.Store(true)
		l.kill()
		m.w.town.die(m.id)
		return err
	}
	l.Node = n
	m.life.Store(l)
	m.w.story.tell(m.id, "started")
	m.w.running.Go(func() { m.watch(l) })
	return nil
}

func (m *machine) config(l *life) node.Config {
	c := node.Config{
		DataDir:         m.dir,
		NodeID:          m.id,
		PeerAddr:        m.addr,
		GossipAddr:      m.addr,
		APIAddr:         m.addr,
		BootstrapExpect: m.w.plan.founders,
		Join:            []string{"seed:7402"},
		Shards:          m.w.plan.shards,
		Replicas:        m.w.plan.replicas,
		PoliciesFile:    m.w.policies,
		ReplaceAfter:    m.w.plan.replaceAfter,
		Logger:          slog.New(scribe{story: m.w.story, who: m.id, level: m.w.level}),
		World: node.World{
			Now:    m.clock.now,
			FS:     m.disk,
			Listen: l.listen,
			Dial:   l.dial,
			Gossip: func(c cluster.GossipConfig) (node.Membership, error) {
				return m.w.town.moveIn(c, 300*time.Millisecond)
			},
			NoAPI: true,
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

// dial reaches another node, as long as the process lives.
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

// watch has a process that stopped itself started again.
func (m *machine) watch(l *life) {
	var reason error
	select {
	case reason = <-l.Done():
	case <-l.ctx.Done():
		return
	}
	m.w.story.tell(m.id, "stopped itself: %v", reason)
	m.w.tally.note("a node stopped itself")
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
	m.clock.set(0)
	m.restart()
}

// mayStop tells whether something was done to the machine that is a reason.
func (m *machine) mayStop(reason error) error {
	if m.hurt.Load() {
		return nil
	}
	return fmt.Errorf("%s stopped itself, and nothing was done to it: %w", m.id, reason)
}

// crash ends the process at this moment: its network is cut, and what it wrote and did not fsync is lost, or some of
// it. The caller holds the machine. The old process is ended in peace, on its old disk, which nobody sees any more.
// A process that ended itself leaves what it wrote in the cache.
func (m *machine) crash(keep bool) {
	l := m.life.Swap(nil)
	if l == nil {
		return
	}
	l.dead.Store(true)
	m.w.net.Isolate(m.addr)
	m.w.town.die(m.id)
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

// takeDisk takes what a crash leaves of the disk. The log's database and the small file are copied at one moment: until
// the small file was the same before and after.
func (m *machine) takeDisk(keep bool) {
	to, percent := m.newDir(), m.w.unsynced()
	if keep {
		percent = 100
	}
	old := m.disk
	for attempt := 0; ; attempt++ {
		before := readDir(m.dir)
		clone := memfs.CrashClone(old, percent, int64(m.dirs))
		if after := readDir(m.dir); !sameFiles(before, after) && attempt < 1000 {
			time.Sleep(time.Microsecond)
			continue
		}
		if err := errors.Join(writeDir(to, before), memfs.Move(clone, m.dir, to)); err != nil {
			panic(err)
		}
		m.disk, m.dir = memfs.NewDisk(clone), to
		break
	}
	old.Recover()
}

// readDir reads the files of a data directory on the real disk.
func readDir(dir string) map[string]string {
	files := make(map[string]string)
	filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && d.Name() != "LOCK" {
			if b, err := os.ReadFile(path); err == nil {
				files[path[len(dir):]] = string(b)
			}
		}
		return nil
	})
	return files
}

func sameFiles(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for name, bytes := range a {
		if b[name] != bytes {
			return false
		}
	}
	return true
}

func writeDir(dir string, files map[string]string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for name, bytes := range files {
		path := dir + name
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(bytes), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// restart starts a process where none is, again and again until one starts. The caller holds the machine.
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
		if !m.hurt.Load() || m.w.over.Load() {
			m.w.fail(fmt.Errorf("%s does not start: %w", m.id, err))
			return
		}
		m.w.pause(time.Second)
		m.clock.set(0)
	}
}

// stop ends the process in order. The caller holds the machine.
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
