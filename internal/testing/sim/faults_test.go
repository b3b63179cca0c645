package sim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stint-io/stint/api"
	"github.com/stint-io/stint/internal/testing/memfs"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// victim is the machine of a fault.
func (w *world) victim(n int) *machine {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.machines[n%len(w.machines)]
}

// pair is the two machines of a fault.
func (w *world) pair(f fault) (one, other *machine) {
	one, other = w.victim(f.whom), w.victim(f.other)
	if one == other {
		other = w.victim(f.whom + 1)
	}
	return one, other
}

func (w *world) doCrash(f fault) { w.crash(w.victim(f.whom), f.long) }

// crash kills a process and starts another one after a while.
func (w *world) crash(m *machine, long time.Duration) {
	m.hold()
	defer m.release()
	if m.gone.Load() || m.life.Load() == nil {
		return
	}
	m.crash(w.chance.IntN(2) == 0)
	w.pause(long)
	m.restart()
}

func (w *world) doCrashTwo(f fault) {
	one, other := w.pair(f)
	w.all([]*machine{one, other}, func(m *machine) { w.crash(m, f.long) })
}

func (w *world) doCrashAll(f fault) {
	w.all(w.everybody(), func(m *machine) { w.crash(m, f.long/4) })
}

// doRestart stops a node in order and starts it again.
func (w *world) doRestart(f fault) {
	m := w.victim(f.whom)
	m.hold()
	defer m.release()
	if m.gone.Load() {
		return
	}
	m.stop()
	w.pause(f.long / 8)
	m.restart()
}

func (w *world) doIsolate(f fault) {
	m := w.victim(f.whom)
	for _, other := range w.everybody() {
		if other != m {
			w.cut(m, other, f.size < 0.3)
			defer w.mend(m, other)
			w.cut(other, m, f.size < 0.3)
			defer w.mend(other, m)
		}
	}
	w.pause(f.long)
}

// cut lets nothing pass from one to the other, not even gossip; with a reset, connections end.
func (w *world) cut(one, other *machine, reset bool) {
	if reset {
		w.net.Break(one.addr, other.addr)
	} else {
		w.net.Cut(one.addr, other.addr)
	}
	w.town.Deafen(other.addr, one.addr, 1)
}

func (w *world) mend(one, other *machine) {
	w.net.Mend(one.addr, other.addr)
	w.town.Deafen(other.addr, one.addr, -1)
}

func (w *world) doCut(f fault) {
	one, other := w.pair(f)
	w.cut(one, other, false)
	defer w.mend(one, other)
	w.cut(other, one, false)
	defer w.mend(other, one)
	w.pause(f.long)
}

func (w *world) doCutOneWay(f fault) {
	one, other := w.pair(f)
	w.cut(one, other, false)
	defer w.mend(one, other)
	if f.size < 0.4 { // from all machines
		for _, third := range w.everybody() {
			if third != one && third != other {
				w.cut(third, other, false)
				defer w.mend(third, other)
			}
		}
	}
	w.pause(f.long)
}

// doBreak resets the connections of a pair, only for a moment.
func (w *world) doBreak(f fault) {
	one, other := w.pair(f)
	w.cut(one, other, true)
	defer w.mend(one, other)
	w.pause(f.long / 20)
}

func (w *world) doDelay(f fault) {
	one, other := w.pair(f)
	by := time.Duration(f.size * f.size * float64(800*time.Millisecond))
	w.net.Delay(one.addr, other.addr, by)
	w.pause(f.long)
	w.net.Delay(one.addr, other.addr, w.plan.delay)
}

func (w *world) doLoss(f fault) {
	one, other := w.pair(f)
	w.net.Lose(one.addr, other.addr, int(f.size*40))
	w.pause(f.long)
	w.net.Lose(one.addr, other.addr, 0)
}

// doSlowDisk makes a disk slow that a node must live with. Where Pebble begins a new log, a write waits for up to four
// fsyncs, one after the other; together they must stay below the time after which a disk counts as hung.
func (w *world) doSlowDisk(f fault) {
	w.ail(w.victim(f.whom), f.long, func(d *memfs.Disk) {
		d.Slow(time.Duration(f.size * f.size * float64(450*time.Millisecond)))
	})
}

// ail makes a disk slow for a while, in the given way. It spares a process that is starting or stopping: Pebble holds a
// lock while it opens and closes its log, and virtual time does not pass while a goroutine waits for a lock.
func (w *world) ail(m *machine, long time.Duration, with func(*memfs.Disk)) {
	m.hold()
	l, disk := m.life.Load(), m.disk
	ails := l != nil && l.Ready() == nil
	if ails {
		with(disk)
	}
	m.release()
	if ails {
		w.pause(long)
		disk.Recover()
	}
}

// doHungDisk makes a disk hang: the node stops itself when that takes too long.
func (w *world) doHungDisk(f fault) {
	m := w.victim(f.whom)
	w.ail(m, f.long, func(d *memfs.Disk) {
		m.hurt.Store(true)
		d.Hang()
	})
}

// doFailingDisk is one of the faults after which replicas are rebuilt: it must not overlap with another.
func (w *world) doFailingDisk(f fault) {
	m := w.victim(f.whom)
	m.hold()
	defer m.release()
	if m.gone.Load() || m.life.Load() == nil || !w.mayDestroy(m) {
		return
	}
	m.hurt.Store(true)
	m.disk.Fail()
}

func (w *world) doWipe(f fault) {
	m := w.victim(f.whom)
	m.hold()
	defer m.release()
	if m.gone.Load() || m.life.Load() == nil || !w.mayDestroy(m) {
		return
	}
	m.crash(false)
	w.pause(f.long)
	m.wipe()
	m.alone = false // otherwise it would found its own cluster: its operator names the nodes to join
	w.story.tell(m.id, "has an empty disk")
	m.restart()
}

// doPause stops a process, and perhaps its machine with it: nothing reaches it or leaves it, it does nothing, and wakes
// in its old state. Its monotonic clock may or may not have run meanwhile.
func (w *world) doPause(f fault) {
	m := w.victim(f.whom)
	resume := m.clock.Pause()
	defer resume()
	if f.size < 0.5 {
		m.clock.Suspend()
		defer m.clock.Wake()
	}
	f.size = 1
	w.doIsolate(f)
}

func (w *world) doStep(f fault) {
	m := w.victim(f.whom)
	most := 3 * time.Second
	if w.plan.moves() { // and settleSlots waits until the times of shards agree
		most = 600 * time.Millisecond
	}
	by := time.Duration((f.size - 0.5) * 2 * float64(most))
	m.clock.Step(by)
	w.pause(3 * f.long)
	m.clock.Step(-by)
}

// doFarOff sets a clock so wrong that the node stops itself. If other clocks are wrong too, it stops the other nodes.
func (w *world) doFarOff(f fault) {
	for _, m := range w.everybody() {
		m.hurt.Store(true)
	}
	m := w.victim(f.whom)
	m.clock.Step(time.Duration((f.size - 0.5) * 100 * float64(time.Second)))
	w.pause(2 * f.long)
	m.clock.Set(0)
}

func (w *world) doSuspend(f fault) {
	m := w.victim(f.whom)
	m.clock.Suspend()
	w.pause(f.long / 2)
	m.clock.Wake()
}

func (w *world) doGossipCut(f fault) {
	one, other := w.pair(f)
	w.town.Deafen(one.addr, other.addr, 1)
	w.pause(3 * f.long)
	w.town.Deafen(one.addr, other.addr, -1)
}

// doJoin adds a machine. There are never more than 5.
func (w *world) doJoin(fault) {
	w.mu.Lock()
	if len(w.machines) >= 5 {
		w.mu.Unlock()
		return
	}
	m := w.newMachine(len(w.machines) + 1)
	w.machines = append(w.machines, m)
	w.mu.Unlock()
	m.hold()
	defer m.release()
	m.restart()
}

// doDrain drains a node for a while. The drain's outcome may be unknown; the call that ends it must succeed.
func (w *world) doDrain(f fault) {
	m := w.victim(f.whom)
	if isRefused(w.drain(m, true)) {
		return
	}
	w.pause(f.long)
	for range 30 {
		if err := w.drain(m, false); err == nil || isRefused(err) {
			return
		}
		time.Sleep(time.Second)
	}
	w.fail(fmt.Errorf("%s could not be undrained", m.id))
}

func (w *world) drain(m *machine, on bool) error {
	err := w.admin(func(ctx context.Context, a api.ClusterAdmin) error {
		_, err := a.Drain(ctx, m.id, on, false)
		return err
	})
	w.story.tell(m.id, "draining %v: %v", on, err)
	return err
}

// isRefused reports whether the table knows no such node.
func isRefused(err error) bool {
	var e *shard.Error
	return errors.As(err, &e) && e.Code == shard.Invalid
}

// doRemove removes a node from the cluster for good, if enough others are left. The node is stopped when it has no
// replicas left.
func (w *world) doRemove(f fault) {
	m := w.victim(f.whom)
	m.hold()
	defer m.release()
	if m.gone.Load() || w.present() < 4 || !w.mayDestroy(m) {
		return
	}
	m.gone.Store(true)
	err := w.admin(func(ctx context.Context, a api.ClusterAdmin) error { return a.RemoveNode(ctx, m.id) })
	w.story.tell(m.id, "is to be removed: %v", err)
	for range 120 {
		time.Sleep(time.Second)
		if s, err := w.status(); err == nil {
			for _, n := range s.Nodes {
				if n.Id == m.id && n.State == "removed" {
					m.crash(true)
					return
				}
				if n.Id == m.id && n.State == "active" { // the removal did not take effect
					err := w.admin(func(ctx context.Context, a api.ClusterAdmin) error {
						return a.RemoveNode(ctx, m.id)
					})
					w.story.tell(m.id, "is to be removed: %v", err)
				}
			}
		}
	}
	w.fail(fmt.Errorf("%s was to be removed and is not after 120 s", m.id))
}

func (w *world) doPolicies(fault) {
	w.applying <- struct{}{}
	defer func() { <-w.applying }()
	w.applied++
	set, err := policy.Parse("policies", policiesText(w.applied))
	if err != nil {
		w.fail(err)
		return
	}
	err = w.admin(func(ctx context.Context, a api.ClusterAdmin) error {
		_, _, err := a.Apply(ctx, set, nil, false, "sim", "simulated")
		return err
	})
	w.story.tell("world", "policies %d: %v", w.applied, err)
}
