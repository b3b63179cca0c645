package node

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-io/stint/cluster/placement"
)

// twiceFor is how long a second process under an id remains a problem that the operator is told of.
const twiceFor = time.Minute

// duplicateGuard makes sure that this process is the only one that is its node: a directory may be a copy, a machine
// may wake after it was replaced. The table has the address of the process that is the node, and that changes only when
// it does not answer there any more (placement.Plan). If the table has the node of a process elsewhere, the process
// asks there, and stops if another one answers. Until it knows, it opens no replica; and it never records facts in a
// table that has its node elsewhere.
type duplicateGuard struct {
	node    string // id of this node
	alone   bool   // no other node can reach this one, nor another process under its id
	life    string // drawn by this process: another one under its id has another
	now     func() time.Time
	view    *clusterView
	peers   *peers
	tasks   *tasks
	fail    func(error)
	changed notifier

	checked atomic.Pointer[string] // the address by the table where no other process answered; nil: none
	settled atomic.Bool            // this process is the node, as far as it knows
	asked   time.Time              // when the last look began; the reconciler's

	mu    sync.Mutex
	twice map[string]time.Time // problems, and when they were seen last; guarded by mu
}

// sole reports whether this process may act as its node. Only the reconciler calls it.
func (h *duplicateGuard) sole() bool {
	sole := h.isSole()
	h.settled.Store(sole && h.view.hasTable())
	return sole
}

func (h *duplicateGuard) isSole() bool {
	t := h.view.table.now()
	own := t.value.Node(h.node)
	if own == nil || h.alone {
		return true
	}
	asked := h.peers.haveBeenAsked() // before the reports are read: none comes in between
	return h.isSoleBy(t, own.PeerAddr, h.peers.reports()) && asked
}

// isSoleBy is isSole by a table that has the process at an address, and by the reports of other nodes.
func (h *duplicateGuard) isSoleBy(t known[placement.Table], addr string, reports map[string]placement.Report) bool {
	for _, report := range reports {
		if h.yields(t, &report) { //mutant:second-process-hears-nobody
			h.ask(report.Taken)
			return false
		}
		//mutant:second-process-goes-by-an-old-table
		if !h.settled.Load() && report.TableVersion > t.version { // which may have this node elsewhere
			return false
		}
	}
	if checked := h.checked.Load(); checked == nil || *checked != addr { //mutant:second-process-takes-part
		h.ask(addr)
		return false
	}
	return true
}

// yields reports whether another process is this node by a report. It is not if the table has this one, and the
// reporter knows no newer table: it was cut off with a process that was replaced.
func (h *duplicateGuard) yields(t known[placement.Table], report *placement.Report) bool {
	return report.Taken != "" && !(h.records(t.value) && report.TableVersion <= t.version) //mutant:successor-yields
}

// ask starts a look at an address. Reports that name a process that has ended are there until their nodes have asked
// the new one, so the next look waits for the reconciler's next round: it would find the same, at once and without end.
func (h *duplicateGuard) ask(addr string) {
	if now := h.now(); now.Sub(h.asked).Abs() >= reconcileEvery {
		h.asked = now
		h.tasks.start("asking who is node "+h.node, func(ctx context.Context) { h.look(ctx, addr) })
	}
}

// look is a task: it asks at an address whether another process is this node there.
func (h *duplicateGuard) look(ctx context.Context, addr string) {
	report, err := h.peers.askAt(ctx, addr, h.identify(placement.Question{Versions: h.view.documents.versions()}))
	if ctx.Err() != nil {
		return
	}
	if err == nil && report.Life != h.life {
		h.fail(fmt.Errorf("%w: %q runs at %s and answers there: stop that one first, "+
			"or start this one with another --node-id and an empty --data-dir", ErrTwice, h.node, addr))
		return
	}
	h.checked.Store(&addr)
	h.changed.notify()
}

// identify says in a question which process asks.
func (h *duplicateGuard) identify(q placement.Question) placement.Question {
	q.Life, q.At = h.life, h.peers.ownAddr()
	return q
}

// records reports whether this process may record facts of its node in a table. A process that was replaced while its
// machine slept may not have heard of it; to the table it belongs no more.
func (h *duplicateGuard) records(t *placement.Table) bool {
	n := t.Node(h.node)
	return n != nil && n.PeerAddr == h.peers.ownAddr() //mutant:second-process-records
}

// takenBy is for a process that asks in the name of a node and is not that node: it returns where another one answers
// that is; "": none does.
func (h *duplicateGuard) takenBy(node string, q *placement.Question) (addr string) {
	life := ""
	if node == h.node && h.settled.Load() {
		life, addr = h.life, h.peers.ownAddr()
	} else if report := h.peers.reports()[node]; node != h.node && h.peers.silent()[node] == 0 {
		life, addr = report.Life, report.At
	}
	// a process that was started anew where another one was is no second
	if q.Life == "" || q.Life == life || addr == "" || addr == q.At {
		return ""
	}
	now := h.now()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.twice[fmt.Sprintf("node id %s is used twice: the process at %s has it, the one at %s is refused: stop that one, or give it "+
		"another --node-id", node, addr, q.At)] = now
	return addr
}

// problems names the ids that were used twice in the last minute.
func (h *duplicateGuard) problems() (all []string) {
	now := h.now()
	h.mu.Lock()
	defer h.mu.Unlock()
	for problem, at := range h.twice {
		if now.Sub(at).Abs() > twiceFor {
			delete(h.twice, problem)
			continue
		}
		all = append(all, problem)
	}
	slices.Sort(all)
	return all
}
