package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-io/stint/api"
	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/internal/testing/bubble"
	"github.com/stint-io/stint/internal/testing/memnet"
	"github.com/stint-io/stint/shard"
)

// world is one cluster with its machines, its network, its clients and its faults, inside a bubble.
type world struct {
	plan       *plan
	dir        string
	policies   string // file
	level      slog.Level
	story      *story
	net        *memnet.Net
	town       *bubble.Town
	chance     *chance
	tally      *tally
	began      time.Time
	destroying atomic.Bool   // a node's replicas are being replaced
	healing    chan struct{} // closed: no more faults
	over       atomic.Bool   // from here on a process may fail to start
	applying   chan struct{} // held while policies are applied
	applied    int
	running    sync.WaitGroup // processes that end, and their watchers
	sums       sums
	ledger     ledger
	growth     growth
	quiet      time.Duration // from healing until everything was answered again
	lasted     time.Duration
	settled    time.Duration // from healing until no replica moved
	even       time.Duration // from the end of the load until no slot moved
	gone       time.Duration // from the end until units of failed operations were given back

	mu       sync.Mutex
	machines []*machine
	errs     []error
	clients  []*client
	runners  []*runner
	spender  *spender
	claims   []*op // decisions that any client may settle
}

// chance is a random source that goroutines share.
type chance struct {
	mu sync.Mutex
	r  *rand.Rand
}

func (c *chance) IntN(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.r.IntN(n)
}

// stockQuota is the quota of the lifetime limit, hitsQuota that of a window.
const (
	stockQuota = 150
	hitsQuota  = 7
	hitsPeriod = 3 * time.Second
	grownBase  = 1_000_000
)

func policiesText(version int) []byte {
	return fmt.Appendf(nil, `policies:
  stock:
    limits:
      - {name: total, quota: %d, lifetime: {}}
  hits:
    limits:
      - {name: window, quota: %d, fixed_window: {period: %v, anchor: first_hit}}
  grown:
    limits:
      - {name: version, quota: %d, lifetime: {}}
  seats:
    limits:
      - {name: total, quota: %d, lifetime: {}}
  leases:
    limits:
      - {name: open, quota: %d, concurrency: {}}
  spent_log:
    lease: {units: 40, for: 2s}
    limits:
      - {name: log, quota: %[7]d, sliding_log: {period: %[8]v}}
  spent_window:
    lease: {units: 40, for: 2s}
    limits:
      - {name: window, quota: %[7]d, fixed_window: {period: %[8]v}}
%[9]s`, stockQuota, hitsQuota, hitsPeriod, grownBase+version, seatsQuota, leasesQuota, spentQuota, spentPeriod,
		errandPolicies(version))
}

// fail records an error. The world continues.
func (w *world) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.errs = append(w.errs, err)
	w.story.tell("world", "WRONG: %v", err)
}

// pause waits, but only until healing begins.
func (w *world) pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-w.healing:
	}
}

func (w *world) everybody() []*machine {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.machines)
}

func (w *world) all(machines []*machine, do func(*machine)) {
	var group sync.WaitGroup
	for _, m := range machines {
		group.Go(func() { do(m) })
	}
	group.Wait()
}

// unsynced is the percentage of unsynced data that survives a crash.
func (w *world) unsynced() int { return []int{0, 0, 50, 100}[w.chance.IntN(4)] }

// lives lists the processes that can be asked.
func (w *world) lives() (all []*life) {
	for _, m := range w.everybody() {
		if l := m.life.Load(); l != nil && !l.closing.Load() {
			all = append(all, l)
		}
	}
	return all
}

// present counts the machines that are not being removed.
func (w *world) present() (n int) {
	for _, m := range w.everybody() {
		if !m.gone.Load() {
			n++
		}
	}
	return n
}

// admin calls any node's administration interface.
func (w *world) admin(ask func(context.Context, api.ClusterAdmin) error) error {
	lives := w.lives()
	if len(lives) == 0 {
		return errors.New("no node runs")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return ask(ctx, lives[w.chance.IntN(len(lives))].Admin())
}

// status is the newest status of all nodes.
func (w *world) status() (newest *stintv1.StatusResponse, err error) {
	err = errors.New("no node runs")
	for _, l := range w.lives() {
		s, e := l.Admin().Status(context.Background())
		if e == nil && s.TableVersion >= newest.GetTableVersion() {
			newest, err = s, nil
		}
	}
	return newest, err
}

// mayDestroy reports whether a node may lose its disk, or be removed, without risk to a majority: everything is as it
// should be, and no other node is being destroyed. It permits the next one once the node's replicas are replaced.
func (w *world) mayDestroy(m *machine) bool {
	s, err := w.status()
	if err != nil || w.unsettled(s) != nil || len(s.Nodes) < 3 || !w.destroying.CompareAndSwap(false, true) {
		return false
	}
	had := w.numbers(s, m.id)
	w.running.Go(func() {
		defer w.destroying.Store(false)
		for !w.over.Load() {
			time.Sleep(500 * time.Millisecond)
			s, err := w.status()
			replaced := !slices.ContainsFunc(w.numbers(s, m.id), func(n uint64) bool {
				return slices.Contains(had, n)
			})
			if err == nil && replaced && w.unsettled(s) == nil {
				return
			}
		}
	})
	return true
}

// numbers lists the numbers of a node's replicas, combined with their shards.
func (w *world) numbers(s *stintv1.StatusResponse, node string) (all []uint64) {
	for _, one := range s.GetShards() {
		for _, r := range one.Replicas {
			if r.Node == node {
				all = append(all, uint64(one.Id)<<32|r.Number)
			}
		}
	}
	return all
}

// unsettled says which nodes and replicas are not yet as the table should be in the end.
func (w *world) unsettled(s *stintv1.StatusResponse) error {
	active := 0
	for _, n := range s.Nodes {
		switch n.State {
		case "active":
			active++
		case "removed":
		default:
			return fmt.Errorf("node %s is %s", n.Id, n.State)
		}
	}
	want := min(w.plan.replicas, active-1+active%2)
	for _, one := range s.Shards {
		voters := 0
		for _, r := range one.Replicas {
			if r.Lost || r.Role != "voter" {
				return fmt.Errorf("shard %s: the replica %d on %s is a %s, lost: %v",
					one.Name, r.Number, r.Node, r.Role, r.Lost)
			}
			voters++
		}
		if voters != want {
			return fmt.Errorf("shard %s has %d voters, must have %d of %d active nodes", one.Name, voters, want, active)
		}
		if one.Owner == "" {
			return fmt.Errorf("shard %s has no owner", one.Name)
		}
	}
	return nil
}

// begin starts the first machines.
func (w *world) begin() {
	w.net.Delay("", "", w.plan.delay)
	for i := range w.plan.nodes {
		m := w.newMachine(i + 1)
		m.alone = i == 0
		w.machines = append(w.machines, m)
		m.hold()
		if err := m.start(); err != nil {
			w.fail(err)
		}
		m.release()
	}
}

// play plays a world from beginning to end.
func (w *world) play() {
	w.begin()
	if !w.awaitReady(60 * time.Second) {
		close(w.healing)
		w.end()
		return
	}
	w.story.tell("world", "founded")
	stop := make(chan struct{})
	var clients sync.WaitGroup
	for i := range w.plan.clients {
		c := newClient(w, i)
		w.clients = append(w.clients, c)
		clients.Go(func() { c.run(stop) })
	}
	for i := range 2 {
		r := newRunner(w, i)
		w.runners = append(w.runners, r)
		clients.Go(func() { r.run(stop) })
	}
	w.spender = newSpender(w)
	clients.Go(func() { w.spender.run(stop) })
	clients.Go(func() { w.compareSums(stop) })
	clients.Go(func() { w.ledger.watch(w, stop) })
	w.suffer()
	w.heal()
	if rest := whole - time.Since(w.began); rest > 0 {
		time.Sleep(rest)
	}
	close(stop)
	clients.Wait()
	w.conclude()
}

func (w *world) awaitReady(within time.Duration) bool {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	for _, l := range w.lives() {
		if err := l.AwaitReady(ctx); err != nil {
			w.fail(fmt.Errorf("%s: the cluster was not founded within %v: %w", l.machine.id, within, err))
			return false
		}
	}
	return true
}

// suffer applies the plan's faults.
func (w *world) suffer() {
	began := time.Now()
	var group sync.WaitGroup
	for _, f := range w.plan.faults {
		time.Sleep(f.at - time.Since(began))
		i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == f.kind })
		w.story.tell("world", "fault: %v", f)
		w.tally.note(f.kind)
		group.Go(func() { kinds[i].do(w, f) })
	}
	time.Sleep(troubled - time.Since(began))
	close(w.healing)
	w.story.tell("world", "healing")
	group.Wait()
}

// heal checks that the cluster recovers once all obstacles are gone.
func (w *world) heal() {
	for _, m := range w.everybody() {
		m.hold()
		m.clock.Set(0)
		m.disk.Recover()
		m.restart()
		m.release()
	}
	w.story.tell("world", "healed")
	healed := time.Now()
	w.live(healed)
	w.quiet = time.Since(healed)
	w.settle(healed)
	w.settled = time.Since(healed)
}

// live waits until every shard answers, through every node.
func (w *world) live(healed time.Time) {
	const within = 10 * time.Second
	for _, l := range w.lives() {
		for {
			missing := w.unanswered(l)
			if missing == nil {
				break
			}
			if time.Since(healed) > within {
				w.fail(fmt.Errorf("%v after everything healed %s does not get an answer: %w",
					within, l.machine.id, missing))
				return
			}
			time.Sleep(100 * time.Millisecond)
			if l = l.machine.life.Load(); l == nil {
				return // it is being restarted
			}
		}
	}
}

func (w *world) unanswered(l *life) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	for _, key := range everyKey() {
		r := l.Decide(ctx, []shard.Request{{Op: shard.Get, Namespace: shard.DefaultNamespace,
			Entries: []shard.Entry{{Policy: key.policy, Key: key.name, Cost: 1}}}})[0]
		if r.Err != nil {
			return fmt.Errorf("%s: %w", key.name, r.Err)
		}
	}
	return nil
}

// settle waits until no replica moves.
func (w *world) settle(healed time.Time) {
	const within = 90 * time.Second
	if err := w.awaitStatus(healed.Add(within), w.unsettled); err != nil {
		w.fail(fmt.Errorf("%v after everything healed the table is not what it should be: %w", within, err))
	}
}

// awaitStatus waits until a status of the cluster has no fault. The error is the last one before the deadline.
func (w *world) awaitStatus(deadline time.Time, fault func(*stintv1.StatusResponse) error) error {
	for {
		s, err := w.status()
		if err == nil {
			err = fault(s)
		}
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(500 * time.Millisecond)
	}
}

// compareSums repeatedly checks that replicas of a shard at the same place are equal, and whether slots move.
func (w *world) compareSums(stop chan struct{}) {
	for {
		w.seeSums()
		w.seeRest()
		select {
		case <-stop:
			return
		case <-time.After(1500 * time.Millisecond):
		}
	}
}

func (w *world) seeSums() {
	for _, l := range w.lives() {
		standings := l.Standings()
		if l.dead.Load() { // whatever it did since then does not count
			continue
		}
		for _, s := range standings {
			if err := w.sums.see(s, l.machine.id); err != nil {
				w.fail(err)
			}
		}
	}
}

// conclude resolves the open fates, reads the results, waits until all replicas are at the same place, and stops
// everything.
func (w *world) conclude() {
	for _, c := range w.clients {
		c.resolve()
	}
	for _, r := range w.runners {
		r.resolve()
	}
	w.settleSlots()
	time.Sleep(4 * time.Duration(leaseTTL) * time.Microsecond)
	w.readFinal()
	w.awaitFinal()
	w.ledger.judge(w)
	w.judgeForgotten()
	w.awaitEqual()
	w.end()
}

// end stops everything that still runs.
func (w *world) end() {
	w.over.Store(true)
	w.all(w.everybody(), func(m *machine) {
		m.hold()
		defer m.release()
		m.gone.Store(true)
		m.crash(true)
	})
	w.running.Wait()
	w.lasted = time.Since(w.began)
}

// awaitEqual checks that in the end all voters of a shard are at one place. It retries, because entries still come:
// fingerprints.
func (w *world) awaitEqual() {
	var behind error
	for range 40 {
		w.seeSums()
		s, err := w.status()
		if err != nil {
			behind = err
		} else if behind = w.apart(s); behind == nil {
			return
		}
		time.Sleep(250 * time.Millisecond)
	}
	w.fail(fmt.Errorf("the replicas do not come together: %w", behind))
}

func (w *world) apart(s *stintv1.StatusResponse) error {
	at := make(map[string]map[shard.ID][2]uint64)
	for _, l := range w.lives() {
		at[l.machine.id] = make(map[shard.ID][2]uint64)
		for _, standing := range l.Standings() {
			at[l.machine.id][standing.Shard] = [2]uint64{standing.Epoch, standing.Seq}
		}
	}
	for _, one := range s.Shards {
		var first [2]uint64
		for i, r := range one.Replicas {
			stands := at[r.Node][shard.ID(one.Id)]
			if i == 0 {
				first = stands
			} else if stands != first {
				return fmt.Errorf("shard %s stands at %v on %s and at %v on %s",
					one.Name, first, one.Replicas[0].Node, stands, r.Node)
			}
		}
	}
	return nil
}

// newWorld creates a world, inside the bubble.
func newWorld(p *plan, dir string, tally *tally, level slog.Level) (*world, error) {
	w := &world{plan: p, dir: dir, policies: filepath.Join(dir, "policies.yaml"), level: level, tally: tally,
		net: memnet.New(), town: bubble.NewTown(), chance: &chance{r: rand.New(rand.NewPCG(p.seed, 1))},
		began: time.Now(), healing: make(chan struct{}), applying: make(chan struct{}, 1), growth: newGrowth(p)}
	w.story = &story{began: w.began}
	return w, os.WriteFile(w.policies, policiesText(0), 0o600)
}
