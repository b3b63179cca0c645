package routing

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stint-io/stint/cluster/gossip"
	"github.com/stint-io/stint/internal/sleep"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

// archipelago is three real shards without log replication, and nodes that coordinate operations on them. The fate of
// each message is drawn from a seed: it is late, lost before or after execution, duplicated, or repeated minutes later.
// Owners change between any two messages, and coordinators vanish between any two steps. Slots may move meanwhile
// (mover).
type archipelago struct {
	testing.TB
	seed     uint64
	shards   [3]*islet
	policies *policy.Set
	late     sync.WaitGroup // copies in flight
	drivers  sync.WaitGroup
	stop     chan struct{}
	ashore   chan struct{} // closed when all clients have their answers

	mu       sync.Mutex
	rnd      *rand.Rand
	calm     bool                       // nothing fails from now on
	table    *slot.Map                  // the newest one: immutable
	truth    map[string]*ruledAs        // every operation that home has ruled on, by id
	byKey    map[string]*ruledAs        // the same operations, by their keys, which other operations may have too
	byPlace  map[decisionPlace]*ruledAs // those that one shard has decided
	history  map[string][]string        // messages to the shards about each operation, by id
	sessions bool
	heard    tally
	private  bool     // no two operations have the same key of policy "own"
	moving   bool     // slots move, and some operations begin on one shard
	keys     []string // guarded by mu: of all operations
	exceeded int      // settlements with an excess on the legs that fitted
	rejected int      // settlements that did not fit and were rejected
	leasing  *marina  // nil: its policies have no leases
}

// ruledAs is home's ruling, as its log shows it.
type ruledAs struct {
	id    string
	state shard.OperationState
	times int               // number of commits
	how   *shard.Settlement // nil: it has expired
	ended map[string]ending // of one that one shard has decided: its keys that were settled; nil: several have decided
}

// decisionPlace identifies a decision of one shard.
type decisionPlace struct {
	shard.Position
	index uint32
}

// ending is the settlement of one key of an operation that one shard has decided.
type ending struct {
	action  shard.Action
	actual  *uint64
	overage shard.Overage
}

// islet is one shard: the state that its replicas would have.
type islet struct {
	world  *archipelago
	id     shard.ID
	mu     sync.Mutex
	state  *shard.State
	index  uint64
	notice bool // a broken invariant was reported
	down   bool // it has no owner
	asked  map[shard.Op]int
	ahead  limit.Time // of shard time, since the latest failover
	shown  limit.Time // the latest shard time that was told
}

const (
	sharedQuota  = 10
	sharedKeys   = 2
	operationTTL = 5 * time.Second
)

// islets is where the slots of an archipelago are at first.
var islets = slot.Even(3)

func newArchipelago(t testing.TB, seed uint64) *archipelago { return newArchipelagoOf(t, seed, nil) }

func newArchipelagoOf(t testing.TB, seed uint64, leasing *marina) *archipelago {
	lifetime := func(name string, quota uint64) *policy.Policy {
		return &policy.Policy{Name: name, Retention: policy.DefaultRetention, OnExpire: policy.OnExpireCancel,
			Limits: []policy.Limit{{Name: "all", Limit: limit.Limit{Algorithm: limit.Lifetime, Quota: quota}}}}
	}
	seats := lifetime("seats", 3)
	seats.Limits[0].Algorithm = limit.Concurrency
	w := &archipelago{TB: t, seed: seed, leasing: leasing, table: islets, rnd: rand.New(rand.NewPCG(seed, 1)),
		stop: make(chan struct{}), ashore: make(chan struct{}),
		truth: make(map[string]*ruledAs), byKey: make(map[string]*ruledAs), byPlace: make(map[decisionPlace]*ruledAs),
		history:  make(map[string][]string),
		policies: policy.NewSet([]*policy.Policy{lifetime("shared", sharedQuota), lifetime("own", 1000), seats})}
	w.sessions = w.draw(2) == 0
	for i := range w.shards {
		w.shards[i] = &islet{world: w, id: shard.ID(i), state: shard.NewState(shard.ID(i)),
			asked: make(map[shard.Op]int)}
		w.shards[i].open()
	}
	for _, s := range w.shards {
		w.drivers.Go(s.drive)
		if leasing == nil || leasing.ahead > 0 {
			w.drivers.Go(s.suffer)
		}
	}
	return w
}

func (w *archipelago) draw(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rnd.IntN(n)
}

func (w *archipelago) troubled() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.calm
}

func now() limit.Time { return limit.Time(time.Now().UnixMicro()) }

// open begins an epoch, as a new owner does.
func (s *islet) open() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.append(shard.EncodeEpochOpen(s.id, s.time(), shard.LevelNewest))
	if l := s.world.leasing; l != nil && l.ahead > 0 {
		s.ahead = limit.Time(s.world.draw(2) * s.world.draw(s.world.leasing.ahead))
	}
}

// time returns what the clock of the shard shows. The caller holds mu.
func (s *islet) time() limit.Time {
	s.shown = max(s.state.Time()+1, now()+s.ahead, s.shown)
	return s.shown
}

func (s *islet) append(payload []byte) {
	s.index++
	if o, err := s.state.Install(payload, s.index, 1); err != nil || o.Dropped != shard.NotDropped {
		s.world.Errorf("shard %v: install: %v, %v", s.id, o.Dropped, err)
	}
}

// commit decides requests in one log entry.
func (s *islet) commit(requests []shard.Request) []shard.Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := shard.Stamp{Position: shard.Position{Shard: s.id, Epoch: s.state.Epoch(), Seq: s.state.Seq() + 1},
		Now: s.time(), Slots: s.world.anyTable()}
	results, puts := shard.Evaluate(roomy{s.state}, s.world.policies, requests, at)
	s.append(shard.EncodeBatch(at, puts))
	for i := range results {
		s.asked[requests[i].Op]++
		o := requests[i].Operation
		if requests[i].Op == shard.FinishLeg && len(requests[i].Entries) == 0 &&
			o.Verdict.State == shard.OperationAborted { // giving back to one key ends no denial of other keys
			s.world.Errorf("seed %d: a verdict names no keys: %+v", s.world.seed, *o)
		}
		if r := &requests[i]; s.world.sessions && r.Operation != nil && r.Number == 0 && !r.CountsOnce() {
			s.world.Errorf("seed %d: nothing tells a copy of this: %+v", s.world.seed, r)
		} else if !r.Op.Changes() && r.Number != 0 {
			s.world.Errorf("seed %d: a read takes a number of a session: %+v", s.world.seed, r)
		}
		s.world.remember(at, &requests[i], &results[i])
		s.world.note(&requests[i], &results[i])
		if s.world.leasing != nil {
			s.world.leasing.committed(s, &requests[i], &results[i])
		}
	}
	if s.world.leasing != nil {
		return results
	}
	for id := range s.world.shards {
		for k := range sharedKeys {
			used, _ := s.used("shared", keyOn(shard.ID(id), fmt.Sprint("shared", k)))
			if used > sharedQuota && !s.notice {
				s.notice = true
				s.world.Errorf("seed %d: shard %v admitted %d of %d", s.world.seed, s.id, used, sharedQuota)
			}
		}
	}
	return results
}

type roomy struct{ *shard.State }

func (roomy) Room() shard.Room { return shard.Room{} }

// used returns the usage of a key in the committed state, and whether the shard owns the key. The caller holds mu,
// because background work may still change it.
func (s *islet) used(policy, key string) (used uint64, owned bool) {
	get := shard.Request{Op: shard.Get, Namespace: "n", Entries: []shard.Entry{{Policy: policy, Key: key, Cost: 1}}}
	results, _ := shard.Evaluate(roomy{s.state}, s.world.policies, []shard.Request{get}, shard.Stamp{
		Position: shard.Position{Shard: s.id}, Now: max(s.state.Time(), now()), Slots: islets})
	if results[0].Err != nil {
		return 0, false
	}
	return results[0].Decision.Limits[0].Used, true
}

// usedAt returns the usage of a key on the one shard that owns it.
func (w *archipelago) usedAt(policy, key string) (used uint64) {
	owners := 0
	for _, s := range w.shards {
		s.mu.Lock()
		if n, owned := s.used(policy, key); owned {
			owners++
			used = n
		}
		s.mu.Unlock()
	}
	if owners != 1 {
		w.Errorf("seed %d: slot %d of %q is owned by %d shards", w.seed, slot.Of("n", key), key, owners)
	}
	return used
}

// remember adds to the history of an operation.
func (w *archipelago) remember(at shard.Stamp, r *shard.Request, result *shard.Result) {
	o := r.Operation
	if o == nil && r.ID != "" {
		o = &shard.Operation{ID: r.ID}
	}
	if o == nil {
		return
	}
	line := fmt.Sprintf("%v shard %v.%d op %d verdict %d", time.UnixMicro(int64(at.Now)).Format("15:04:05.000000"),
		at.Shard, at.Seq, r.Op, o.Verdict.State)
	for _, l := range o.Legs {
		line += fmt.Sprintf(" [%v.%d]", l.Slot, l.Decision.Position.Seq)
	}
	if d := &result.Decision; result.Err != nil {
		line += " " + result.Err.Error()
	} else {
		line += fmt.Sprintf(" allowed %v replayed %v index %d at %d", d.Allowed, d.Replayed, d.Index, d.Position.Seq)
		if d.Operation != nil {
			line += fmt.Sprintf(" says %d", d.Operation.State)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.history[o.ID] = append(w.history[o.ID], line)
}

// note records home's ruling.
func (w *archipelago) note(r *shard.Request, result *shard.Result) {
	if result.Err == nil && r.Operation == nil && result.Decision.Operation == nil {
		w.noteAlone(r, &result.Decision)
	}
	if result.Err != nil || r.Operation == nil || result.Decision.Operation == nil {
		return
	}
	v := result.Decision.Operation
	if !v.Known || r.Op == shard.FinishLeg || r.Op == shard.AskHome ||
		r.Op == shard.ResolveHome && r.Operation.Leg != r.Operation.Home &&
			v.State == shard.OperationAborted { // the answer to a charge that the ruling does not cover
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.truth[v.ID]
	if f == nil {
		f = &ruledAs{id: v.ID}
		w.truth[v.ID] = f
	}
	committed := v.State != shard.OperationAborted
	if (r.Op == shard.ResolveHome || result.Decision.Replayed) && !committed && f.state > shard.OperationAborted {
		return // a copy that came after all was done and forgotten: it can release nothing
	}
	switch {
	case r.Op == shard.Conclude && !result.Decision.Replayed:
		if committed {
			w.once(r)
		}
		for i := range r.Entries {
			w.byKey[r.Entries[i].Key] = f
		}
		for i := range r.Operation.Legs {
			for _, s := range r.Operation.Legs[i].Decision.Limits {
				w.byKey[s.Key] = f
			}
		}
		if committed {
			f.times++
		}
	case r.Op == shard.Settle && !result.Decision.Replayed && v.State == shard.OperationSettled:
		if f.how != nil {
			w.Errorf("seed %d: home has settled %q twice", w.seed, v.ID)
		}
		f.how = r.Settlement
		if r.Operation.Excess != nil {
			w.exceeded++
		}
	}
	if f.state == shard.OperationAborted && committed || committed == false && f.state > shard.OperationAborted ||
		f.times > 1 {
		w.Errorf("seed %d: home has ruled %q %d after %d, committed %d times", w.seed, v.ID, v.State, f.state, f.times)
	}
	f.state = v.State
}

// noteAlone records what one shard has decided alone.
func (w *archipelago) noteAlone(r *shard.Request, d *shard.Decision) {
	if d.Replayed {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch r.Op {
	case shard.Check, shard.Count, shard.Partial, shard.Reserve:
		if len(r.Entries) < 2 || !d.Allowed {
			return
		}
		w.once(r)
		f := &ruledAs{id: r.ID, state: shard.OperationCommitted, times: 1, ended: map[string]ending{}}
		w.byPlace[decisionPlace{d.Position, d.Index}] = f
		for i := range r.Entries {
			w.byKey[r.Entries[i].Key] = f
		}
	case shard.Settle:
		s := r.Settlement
		f := w.byPlace[decisionPlace{s.Target.Position, s.Target.Index}]
		if f == nil || s.Action == shard.ActionExtend {
			return
		}
		for i := range r.Entries {
			e := ending{action: s.Action, overage: s.Overage}
			if s.Actual != nil {
				e.actual = &s.Actual[i]
			}
			if _, twice := f.ended[r.Entries[i].Key]; twice {
				w.Errorf("seed %d: %q is settled twice", w.seed, r.Entries[i].Key)
			}
			f.ended[r.Entries[i].Key] = e
		}
	}
}

// once checks that a request that is counted now was not counted before: no other request has its private keys.
func (w *archipelago) once(r *shard.Request) {
	for i := range r.Entries {
		before := w.byKey[r.Entries[i].Key]
		if r.Entries[i].Policy == "own" && w.private && before != nil && before.state != shard.OperationAborted {
			w.Errorf("seed %d: %q is counted again, after %+v:%s",
				w.seed, r.Entries[i].Key, before, w.historyOf(before))
		}
	}
}

// keyOn returns a key that lives on a shard.
func keyOn(id shard.ID, name string) string {
	for i := 0; ; i++ {
		if key := fmt.Sprint(name, ".", i); shard.Of(islets, "n", key) == id {
			return key
		}
	}
}

// drive has the shard's duties discharged, as the node of its owner does.
func (s *islet) drive() {
	node := s.world.node(1 << 30)
	for {
		select {
		case <-s.world.stop:
			return
		case <-time.After(50 * time.Millisecond):
		}
		s.mu.Lock()
		duties := s.state.Duties(max(now(), s.state.Time()), 1000)
		s.mu.Unlock()
		toward := make(map[shard.ID][]shard.Duty)
		for _, duty := range duties {
			to := shard.ID(islets[duty.To])
			toward[to] = append(toward[to], duty)
		}
		var group sync.WaitGroup
		for _, duties := range toward {
			group.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
				defer cancel()
				node.Discharge(ctx, duties)
			})
		}
		group.Wait()
	}
}

// suffer takes the shard's owner away now and then, briefly or for longer than anything is remembered.
func (s *islet) suffer() {
	for {
		up, down := time.Duration(s.world.draw(40_000)), time.Duration(s.world.draw(9_000))
		if s.world.draw(4) == 0 {
			down = 150_000
		}
		if s.world.leasing != nil {
			up, down = up/4, min(down, 1000) // leases are held longer
		}
		for _, gone := range []bool{false, true} {
			s.mu.Lock()
			s.down = gone && s.world.troubled()
			s.mu.Unlock()
			select {
			case <-s.world.stop:
				return
			case <-time.After(up * time.Millisecond):
				up = down
			}
		}
		s.open()
	}
}

func (s *islet) isDown() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.down && s.world.troubled()
}

// node makes a node that vanishes with its life-th message: no later message arrives.
func (w *archipelago) node(life int) *mortal {
	n := &mortal{world: w, life: life}
	table := w.anyTable() // it may be an old one, and stay so
	slots := func() (*slot.Map, uint32) { return table, 3 }
	if w.draw(2) == 0 {
		slots = func() (*slot.Map, uint32) { return w.newestTable(), 3 }
	}
	n.Router = New(Config{
		Node:     "n",
		Slots:    slots,
		Places:   func(shard.ID) []string { return []string{"n"} },
		Local:    func(id shard.ID) (Owner, bool) { return ferry{n, w.shards[id]}, true },
		Leader:   func(shard.ID) string { return "" },
		Hints:    gossip.NewHints(3),
		Sessions: func(shard.ID) bool { return w.sessions },
	})
	return n
}

type mortal struct {
	*Router
	world *archipelago
	mu    sync.Mutex
	life  int
}

// lives counts a message and reports whether it still goes out.
func (n *mortal) lives() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.life--
	return n.life > 0
}

// dead reports whether the node has vanished.
func (n *mortal) dead() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.life <= 0
}

// ferry carries messages from a node to a shard.
type ferry struct {
	node *mortal
	to   *islet
}

func (f ferry) Submit(ctx context.Context, requests []shard.Request) []shard.Result {
	w := f.to.world
	if !f.node.lives() {
		<-ctx.Done()
		return shard.RefuseAll(len(requests), failure(shard.Unavailable))
	}
	sent := cloneRequests(requests)
	switch {
	case !w.troubled():
		time.Sleep(time.Millisecond)
		return f.to.commit(sent)
	case f.to.isDown():
		time.Sleep(time.Millisecond)
		return shard.RefuseAll(len(requests), failure(shard.Unavailable))
	}
	copied := w.draw(8) == 0 && !slices.ContainsFunc(sent, func(r shard.Request) bool { return !repeatable(&r) })
	if copied { // a late copy: after other messages, or after everything was forgotten
		ages := 5
		if sent[0].Operation == nil && sent[0].Number == 0 {
			ages = 4 // an id protects as long as it is remembered
		}
		after := time.Duration([]int{100, 3000, 8000, 70_000, 700_000}[w.draw(ages)]) * time.Duration(w.draw(1000)) *
			time.Microsecond
		w.late.Go(func() {
			time.Sleep(after)
			f.to.commit(cloneRequests(sent))
		})
	}
	time.Sleep(time.Duration(w.draw(4)) * time.Millisecond)
	what := w.draw(14)
	if copied && what == 0 {
		what = 1 // lost: an answer that nothing was done would have to hold for every copy
	}
	switch what {
	case 0:
		return shard.RefuseAll(len(requests),
			failure([]shard.Code{shard.Unavailable, shard.NotOwner, shard.Overloaded}[w.draw(3)]))
	case 1: // lost
		return shard.RefuseAll(len(requests), failure(shard.UnknownOutcome))
	case 2: // the answer is lost
		f.to.commit(sent)
		return shard.RefuseAll(len(requests), failure(shard.UnknownOutcome))
	case 3:
		f.to.open()
	case 4:
		if !sleep.For(ctx, time.Duration(w.draw(12_000))*time.Millisecond) {
			w.late.Go(func() { f.to.commit(sent) }) // its caller has given up
			return shard.RefuseAll(len(requests), failure(shard.UnknownOutcome))
		}
	}
	results := f.to.commit(sent)
	for i := range results {
		if copied && isNo(&results[i]) && !sent[i].Retry {
			results[i] = shard.Result{Err: failure(shard.UnknownOutcome)}
		}
	}
	time.Sleep(time.Duration(w.draw(4)) * time.Millisecond)
	return results
}

// isNo reports whether an answer says that nothing was counted. It is true of that copy of the request. Only with Retry
// is it believed for others, or not at all (fate), so there is none of a message that has heard it for the first time.
func isNo(r *shard.Result) bool {
	if r.Err != nil {
		return !r.Err.MaybeApplied()
	}
	return !r.Decision.Allowed && r.Decision.Index == 0
}

// cloneRequests copies requests as a wire would: nothing is shared with the sender.
func cloneRequests(requests []shard.Request) []shard.Request {
	sent := slices.Clone(requests)
	for i := range sent {
		r := &sent[i]
		r.Entries = slices.Clone(r.Entries)
		if r.Operation != nil {
			r.Operation = new(*r.Operation)
			r.Operation.Legs = slices.Clone(r.Operation.Legs)
			if x := r.Operation.Excess; x != nil {
				r.Operation.Excess = &shard.Excess{ID: x.ID, Legs: slices.Clone(x.Legs)}
			}
		}
	}
	return sent
}

// settleDown lets everything arrive, ends the failures, and waits until the shards have discharged their duties.
func (w *archipelago) settleDown() {
	w.mu.Lock()
	w.calm = true
	w.mu.Unlock()
	close(w.ashore)
	w.late.Wait()
	time.Sleep(60 * time.Second)
	for _, s := range w.shards {
		s.mu.Lock()
		if legs, duties := s.state.OpenLegs(), s.state.Duties(limit.Forever, 1000); legs > 0 || len(duties) > 0 {
			w.Errorf("seed %d: shard %v has %d open legs, and owes %d messages", w.seed, s.id, legs, len(duties))
		}
		s.mu.Unlock()
	}
}

func (w *archipelago) close() {
	close(w.stop)
	w.drivers.Wait()
}
