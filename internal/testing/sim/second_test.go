package sim

import (
	"errors"
	"fmt"
	"time"

	"github.com/stint-io/stint/internal/testing/bubble"
	"github.com/stint-io/stint/internal/testing/memfs"
	"github.com/stint-io/stint/node"
)

// These faults are not drawn: a second process runs under the id of a node. In calm worlds the node runs, and the
// second process, with an empty directory or a copy of the node's, ends by itself. In every other world the second
// process has an empty directory, and the node may have been replaced by it when it answers again: it wakes after a
// pause, or after whatever else happens. Then it is the one that ends, as often as it starts, until the second process
// is gone.
const (
	secondProcess = "second process"
	secondByCopy  = "second process, by a copy"
	secondOfAHalt = "second process, of a paused machine"
)

// planSecond adds one of them to the plan. It draws nothing, so that the other faults stay as they were.
func (p *plan) planSecond() {
	kind := []string{secondProcess, secondByCopy}[p.seed/2%2]
	if !p.calm {
		kind = []string{secondProcess, secondOfAHalt}[p.seed/2%2]
	}
	f := fault{at: time.Duration(20+p.seed/4%40) * time.Second, kind: kind, whom: int(p.seed / 4 % 8),
		long: 12 * time.Second, size: 1}
	p.insert(f)
}

// second makes a machine under the id of another one, with a disk or an empty one. It is none of the world's machines.
func (w *world) second(m *machine, disk *memfs.Disk, dir string) *machine {
	other := &machine{w: w, id: m.id, addr: m.id + "-second:7401", held: make(chan struct{}, 1),
		clock: bubble.NewClock(0), disk: disk, dir: dir}
	if disk == nil {
		other.wipe()
	}
	return other
}

func (w *world) doSecond(f fault) {
	if w.plan.calm {
		w.besideTheFirst(f, func(m *machine) *machine { return w.second(m, nil, "") })
		return
	}
	w.insteadOfTheFirst(f, func() { w.pause(f.long) })
}

// doSecondByCopy is for calm worlds: a copy that takes over from a node which does not answer votes with less memory
// than the node had, as any old backup of a disk does.
func (w *world) doSecondByCopy(f fault) {
	w.besideTheFirst(f, func(m *machine) *machine {
		clone, dir := memfs.CrashClone(m.disk, 100, 1), m.newDir()
		if err := memfs.Move(clone, m.dir, dir); err != nil {
			panic(err)
		}
		return w.second(m, memfs.NewDisk(clone), dir)
	})
}

// besideTheFirst runs a second process while nothing happens to the first one.
func (w *world) besideTheFirst(f fault, second func(*machine) *machine) {
	m := w.victim(f.whom)
	m.hold()
	defer m.release()
	if l := m.life.Load(); m.gone.Load() || l == nil || l.Ready() != nil {
		return
	}
	other := second(m)
	other.unwatched = true
	if err := other.start(); err != nil {
		w.fail(fmt.Errorf("a second %s does not start: %w", m.id, err))
		return
	}
	select {
	case reason := <-other.life.Load().Done():
		if !errors.Is(reason, node.ErrTwice) {
			w.fail(fmt.Errorf("a second %s ended with: %w", m.id, reason))
		}
		w.tally.note("a second process ended by itself")
	case <-time.After(30 * time.Second):
		w.fail(fmt.Errorf("a second %s runs on", m.id))
	}
	other.crash(true)
}

// doSecondOfAHalt pauses a machine for longer than a second process needs to take its place, and lets it wake beside
// that one.
func (w *world) doSecondOfAHalt(f fault) {
	w.insteadOfTheFirst(f, func() {
		w.doPause(f)
		w.pause(f.long / 2)
	})
}

// insteadOfTheFirst runs a second process with an empty directory while something happens to the first one. Either of
// them may be the node; the other one ends as often as it starts. In the end the first one is. Its replicas are
// replaced up to twice, and no others meanwhile.
func (w *world) insteadOfTheFirst(f fault, during func()) {
	m := w.victim(f.whom)
	s, err := w.status()
	if m.gone.Load() || err != nil || w.unsettled(s) != nil || len(s.Nodes) < 3 ||
		!w.destroying.CompareAndSwap(false, true) {
		return
	}
	m.hurt.Store(true)
	other := w.second(m, nil, "")
	other.hurt.Store(true)
	w.running.Go(func() {
		w.pause(f.long / 4)
		other.hold()
		defer other.release()
		other.restart()
	})
	during()
	other.gone.Store(true)
	other.hold()
	other.crash(true)
	other.release()
	w.running.Go(func() {
		defer w.destroying.Store(false)
		// A status may still be about the second process: the first one has to be the node for a while.
		for settled := 0; settled < 20 && !w.over.Load(); settled++ {
			time.Sleep(500 * time.Millisecond)
			s, err := w.status()
			if l := m.life.Load(); err != nil || w.unsettled(s) != nil || l == nil || l.Ready() != nil {
				settled = 0
			}
		}
	})
}
