//go:build chaos

package chaos

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/internal/testing/testcluster"
)

// billedKey is a key under a policy with a meter.
type billedKey struct{ policy, key string }

// deed is what a decision changes on a bill. Instants are shard time, in microseconds since 1970.
type deed struct {
	at    int64
	units uint64
	taken int64 // when the units were taken that are given back; 0: they are taken
}

// taking is what was taken and may still be given back, or exceeded: a hold that is open, or a decision.
type taking struct {
	billedKey
	id      string
	hold    bool
	units   uint64
	at      int64
	expires int64 // of a hold
	back    bool  // then its units come back
	due     int64 // when it is settled; 0 for never
	actual  uint64
	lost    bool // taken before a restore: it gives nothing back
}

// reached is a threshold of a key in a window.
type reached struct {
	policy, key string
	start       int64
	units       uint64
}

// billBook is all that a load knows to be true.
type billBook struct {
	deeds map[billedKey][]deed
	// pairs is by key of the policy pair: its deeds are counted only, because each shard has a time of its own.
	pairs map[string]uint64
	open  []taking
	fired map[reached]bool
}

// billLoad is the requests and answers of clients. It counts independently what must be on the bills.
type billLoad struct {
	t       *testing.T
	c       *testcluster.Cluster
	clients many
	ahead   time.Duration // the nodes' clocks, of this machine's

	mu   sync.Mutex
	n    int // makes ids
	book billBook
	lost map[reached]bool // thresholds that were reached in a time that was lost
	met  map[string]int

	backedUp int64    // when all was in the backup; 0: there was no restore
	restored [2]int64 // shard time went on between these instants

	// Of the lists, from here on.
	names map[string]string     // of a period, by id
	ids   map[string]string     // by name
	final map[string]billRecord // by id
}

func newBillLoad(t *testing.T) *billLoad {
	return &billLoad{t: t, met: map[string]int{}, names: map[string]string{}, ids: map[string]string{},
		final: map[string]billRecord{},
		lost:  map[reached]bool{}, book: billBook{deeds: map[billedKey][]deed{}, pairs: map[string]uint64{},
			fired: map[reached]bool{}}}
}

// now is the time of the nodes' clocks.
func (l *billLoad) now() int64 { return time.Now().Add(l.ahead).UnixMicro() }

// run lets clients ask until an instant, and settle then what was due before.
func (l *billLoad) run(random *rand.Rand, until int64) {
	var group sync.WaitGroup
	for worker := range 6 {
		mine := rand.New(rand.NewPCG(random.Uint64(), uint64(worker)))
		group.Go(func() {
			for n := worker; l.now() < until && !l.t.Failed(); n++ {
				if t, found := l.takeDue(l.now()); found {
					l.settle(mine, t)
				}
				l.one(mine, n)
				pause(l.t.Context(), time.Duration(10+mine.IntN(20))*time.Millisecond) // the machine has other work
			}
			for !l.t.Failed() {
				t, found := l.takeDue(until)
				if !found {
					return
				}
				l.settle(mine, t)
			}
		})
	}
	group.Wait()
}

// one makes a request of each kind in turn.
func (l *billLoad) one(random *rand.Rand, n int) {
	calls := billedKey{"calls", fmt.Sprint("customer-", random.IntN(8))}
	now, cost := l.now(), 1+random.Uint64N(3)
	end := now/60e6*60e6 + 60e6
	late := end + billGrace.Microseconds() + random.Int64N(3e6) // the period is final then
	switch n % 12 {
	case 0, 1:
		l.check(random, calls, cost, 0)
	case 2:
		l.check(random, calls, cost, now+random.Int64N(2e6))
	case 3:
		l.check(random, calls, cost, late)
	case 4:
		l.check(random, billedKey{"capped", fmt.Sprint("customer-", random.IntN(3))}, 1, 0)
	case 5:
		policy := []string{"moved", "renamed"}[random.IntN(2)]
		l.check(random, billedKey{policy, fmt.Sprint("customer-", random.IntN(3))}, cost,
			[]int64{0, now + random.Int64N(2e6), late}[random.IntN(3)])
	case 6:
		l.pair(random)
	case 7: // expires near the end, before or after the period is final
		l.reserve(random, calls, cost, end-now-1e6+random.Int64N(billGrace.Microseconds()+3e6), 0)
	case 8: // is settled at about the time that it expires
		ttl := 200e3 + random.Int64N(1e6)
		l.reserve(random, calls, cost, ttl, now+ttl-50e3+random.Int64N(100e3))
	case 9:
		l.reserve(random, calls, cost, 600e6, now+random.Int64N(2e6))
	case 10:
		l.reserve(random, calls, cost, 600e6, late)
	case 11: // is settled after the restore, if there is one
		l.reserve(random, calls, cost, 600e6, end+60e6+random.Int64N(3e6))
	}
}

// ask asks until there is an answer, with the same id. A cluster may be away for longer than insist is patient.
func (l *billLoad) ask(random *rand.Rand, method string, message any) (d decided, err error) {
	for range 4 {
		d, err = l.clients.insist(random.IntN(len(l.clients.nodes)), method, message)
		if err == nil || !strings.Contains(err.Error(), "no decision in") {
			break
		}
	}
	if err == nil {
		l.see(d)
	}
	return d, err
}

// see notes which thresholds a decision shows as reached.
func (l *billLoad) see(d decided) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.met["decided"]++
	for _, s := range d.Limits {
		for _, units := range billThresholds[s.Policy] {
			if uint64(s.Used) >= units {
				l.book.fired[reached{s.Policy, s.Key, windowOf(s.WindowStart), units}] = true
			}
		}
	}
}

// windowOf is 0 for a limit without a window.
func windowOf(start time.Time) int64 {
	if start.IsZero() {
		return 0
	}
	return start.UnixMicro()
}

func (l *billLoad) newID() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n++
	return fmt.Sprint("bill-", l.n)
}

// check takes units, and gives some back when they are due, if they are.
func (l *billLoad) check(random *rand.Rand, k billedKey, cost uint64, due int64) {
	d, err := l.ask(random, "Check", checkOf(k.policy, k.key, int(cost), l.newID()))
	if err != nil || !d.Allowed && k.policy != "capped" {
		l.t.Errorf("check of %v: %+v, %v", k, d, err)
		return
	}
	if !d.Allowed {
		l.count("denied")
		return
	}
	l.took(k, d, cost)
	if due != 0 {
		l.leaveOpen(random, taking{billedKey: k, id: d.DecisionID, units: cost, at: d.DecidedAt.UnixMicro(), due: due})
	}
}

func (l *billLoad) reserve(random *rand.Rand, k billedKey, cost uint64, ttl, due int64) {
	back := random.IntN(4) > 0
	message := map[string]any{"check": checkOf(k.policy, k.key, int(cost), l.newID()),
		"ttl": fmt.Sprintf("%.6fs", float64(max(ttl, 1000))/1e6)}
	if !back {
		message["onExpire"] = "ON_EXPIRE_COMMIT"
	}
	d, err := l.ask(random, "Reserve", message)
	if err != nil || !d.Allowed {
		l.t.Errorf("hold of %v: %+v, %v", k, d, err)
		return
	}
	l.took(k, d, cost)
	l.leaveOpen(random, taking{billedKey: k, id: d.HoldID, hold: true, units: cost,
		at: d.DecidedAt.UnixMicro(), due: due, expires: d.HoldExpiresAt.UnixMicro(), back: back})
}

// pair takes a unit of each of two keys, by a check or by a hold, and gives both back in one of three cases.
func (l *billLoad) pair(random *rand.Rand) {
	var entries []entryBody
	for _, n := range random.Perm(6)[:2] {
		entries = append(entries, entryBody{"pair", fmt.Sprint("customer-", n)})
	}
	check := checkBody{Entries: entries, ID: l.newID()}
	method, message, target := "Check", any(check), "decisionId"
	if random.IntN(2) == 0 {
		method, message, target = "Reserve", map[string]any{"check": check, "ttl": "600s"}, "holdId"
	}
	d, err := l.ask(random, method, message)
	id, action := d.DecisionID, [...]string{"", "commit", "cancel"}[random.IntN(3)]
	if target == "holdId" {
		id, action = d.HoldID, cmp.Or(action, "commit")
	}
	if err == nil && d.Allowed && action != "" {
		_, err = l.ask(random, "Settle", map[string]any{target: id, action: struct{}{}})
	}
	if err != nil || !d.Allowed {
		l.t.Errorf("pair %v, %s: %+v, %v", entries, action, d, err)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.met["pairs"]++
	for _, e := range entries {
		if action != "cancel" {
			l.book.pairs[e.Key]++
		}
	}
}

func (l *billLoad) count(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.met[what]++
}

func (l *billLoad) note(k billedKey, d deed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.book.deeds[k] = append(l.book.deeds[k], d)
}

func (l *billLoad) took(k billedKey, d decided, units uint64) {
	l.note(k, deed{at: d.DecidedAt.UnixMicro(), units: units})
}

// leaveOpen draws how what was taken will be settled: for nothing, for less, for all of it, or for more.
func (l *billLoad) leaveOpen(random *rand.Rand, t taking) {
	t.actual = []uint64{0, t.units - 1, t.units, t.units + 2}[random.IntN(4)]
	l.leave(t)
}

// takeDue takes what is to be settled by now.
func (l *billLoad) takeDue(now int64) (taking, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.IndexFunc(l.book.open, func(t taking) bool { return t.due != 0 && t.due <= now })
	if i < 0 {
		return taking{}, false
	}
	t := l.book.open[i]
	l.book.open = slices.Delete(l.book.open, i, i+1)
	return t, true
}

func (l *billLoad) settle(random *rand.Rand, t taking) {
	target := "decisionId"
	if t.hold {
		target = "holdId"
	}
	message := map[string]any{target: t.id, "commit": map[string]any{"actualCost": []uint64{t.actual},
		"overage": "OVERAGE_DEBT"}}
	if t.actual == 0 && random.IntN(2) == 0 {
		message = map[string]any{target: t.id, "cancel": struct{}{}}
	}
	d, err := l.ask(random, "Settle", message)
	if err != nil && t.hold && strings.Contains(err.Error(), `"failed_precondition"`) && t.expires <= l.now()+50e3 {
		l.count("settled too late")
		t.due = 0
		l.leave(t)
		return
	}
	if err != nil {
		l.t.Errorf("settlement of %+v: %v", t, err)
		return
	}
	at := d.DecidedAt.UnixMicro()
	switch {
	case t.actual > t.units:
		l.note(t.billedKey, deed{at: at, units: t.actual - t.units})
	case t.lost:
		l.count("gave nothing back after the restore")
	case t.actual < t.units:
		l.note(t.billedKey, deed{at: at, units: t.units - t.actual, taken: t.at})
	}
}

func (l *billLoad) leave(t taking) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.book.open = append(l.book.open, t)
}

// quiet reports whether no hold expires for some time.
func (l *billLoad) quiet() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	return !slices.ContainsFunc(l.book.open, func(t taking) bool {
		return t.hold && t.expires > now-500e3 && t.expires < now+15e6
	})
}

// touch decides on every key.
func (l *billLoad) touch() {
	random := rand.New(rand.NewPCG(1, 1))
	for _, k := range slices.Collect(maps.Keys(l.book.deeds)) {
		if k.policy != "capped" {
			l.check(random, k, 1, 0)
		}
	}
}

// snapshot is what a backup knows.
func (l *billLoad) snapshot() billBook {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := billBook{deeds: map[billedKey][]deed{}, pairs: maps.Clone(l.book.pairs), open: slices.Clone(l.book.open),
		fired: maps.Clone(l.book.fired)}
	for k, deeds := range l.book.deeds {
		known.deeds[k] = slices.Clone(deeds)
	}
	return known
}

// goBack forgets what a backup does not know. Units taken before the restore give nothing back, unless they had before
// the backup.
func (l *billLoad) goBack(known billBook) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for r := range l.book.fired {
		l.lost[r] = true
	}
	l.book = known
	for i := range l.book.open {
		t := &l.book.open[i]
		t.lost = !t.hold || t.expires > l.backedUp
	}
	for id, r := range l.final {
		if r.End.Add(billGrace).UnixMicro() > l.backedUp {
			delete(l.final, id)
		}
	}
}

// billRecord is a period in a list or a message.
type billRecord struct {
	ID, Policy, Meter, Key, State string
	Start, End                    time.Time
	Units, Credits, Revision      number
	Recovered                     bool
}

func (r *billRecord) name() string {
	return fmt.Sprintf("%s/%s of %s from %s", r.Policy, r.Meter, r.Key, r.Start.Format(time.TimeOnly))
}

// list reads all periods through one node: each id once.
func (l *billLoad) list(node int) (all map[string]billRecord, through time.Time, err error) {
	all = map[string]billRecord{}
	for token := ""; ; {
		var page struct {
			Records         []billRecord
			NextPageToken   string
			CompleteThrough time.Time
		}
		status, err := l.clients.nodes[node].callService("ObserveService/ListUsage",
			map[string]any{"pageSize": 50, "pageToken": token}, &page)
		if err != nil || status != http.StatusOK {
			return nil, through, fmt.Errorf("status %d, %w", status, err)
		}
		for _, r := range page.Records {
			if before, twice := all[r.ID]; !twice || before.Revision <= r.Revision {
				all[r.ID] = r
			}
		}
		if token = page.NextPageToken; token == "" {
			return all, page.CompleteThrough, nil
		}
	}
}

// watch reads lists, through one node after the other, until stop is called.
func (l *billLoad) watch() (stop func()) {
	ctx, cancel := context.WithCancel(l.t.Context())
	var reading sync.WaitGroup
	reading.Go(func() {
		for n := 0; pause(ctx, 200*time.Millisecond) == nil; n++ {
			if all, _, err := l.list(n % len(l.clients.nodes)); err == nil {
				l.count("lists")
				l.compare(all)
			}
		}
	})
	return func() {
		cancel()
		reading.Wait()
	}
}

// compare compares a list with those before: an id is one period's, and a final period does not change.
func (l *billLoad) compare(all map[string]billRecord) {
	for id, r := range all {
		name := r.name()
		if before, known := l.names[id]; known && before != name {
			l.t.Errorf("%s is %s and was %s", id, name, before)
		}
		if before, known := l.ids[name]; known && before != id {
			l.t.Errorf("%s is %s and was %s", name, id, before)
		}
		l.names[id], l.ids[name] = name, id
		before, was := l.final[id]
		if was && (before.Units != r.Units || before.Credits != r.Credits || r.State != before.State ||
			!r.End.Equal(before.End)) {
			l.t.Errorf("a final period changes: %+v was %+v", r, before)
		}
		if r.State == "USAGE_STATE_FINAL" {
			l.final[id] = r
		}
	}
}

// judge compares all bills with what was done, and returns them.
func (l *billLoad) judge() map[string]billRecord {
	l.t.Helper()
	var all map[string]billRecord
	var through time.Time
	from := l.now()
	await.Until(l.t, "a list is complete, and no operation on several shards is undecided", func() bool {
		var err error
		if all, through, err = l.list(0); err != nil || through.UnixMicro() < from {
			return false
		}
		return maps.Equal(l.book.pairs, pairsOf(all))
	}, &all, &l.book.pairs)
	l.compare(all)
	periods := map[billedKey][]*period{}
	for _, r := range all {
		k := billedKey{r.Policy, r.Key}
		l.judgeRecovered(&r)
		i := slices.IndexFunc(periods[k], func(p *period) bool { return p.Start.Equal(r.Start) })
		// two meters share the admitted units, and it is unknown when the new one began
		if r.Policy == "renamed" && i >= 0 {
			p := periods[k][i]
			p.Units, p.Credits = p.Units+r.Units, p.Credits+r.Credits
			l.met["two meters in a period"]++
			continue
		}
		periods[k] = append(periods[k], &period{billRecord: r})
	}
	var admitted, back, units, credits uint64
	for k, deeds := range l.everyDeed(through.UnixMicro()) {
		for _, d := range deeds {
			if d.taken == 0 {
				admitted += d.units
			} else {
				back += d.units
			}
		}
		l.judgeKey(k, periods[k], deeds)
		for _, p := range periods[k] {
			units, credits = units+uint64(p.Units), credits+uint64(p.Credits)
		}
		delete(periods, k)
	}
	for k := range periods {
		if k.policy != "pair" {
			l.t.Errorf("%v is billed and has done nothing", k)
		}
	}
	l.t.Logf("admitted %d, given back %d; billed %d, credited %d, in %d periods; %v",
		admitted, back, units, credits, len(all), l.met)
	if admitted-back != units-credits {
		l.t.Errorf("admitted %d less %d given back, billed %d less %d", admitted, back, units, credits)
	}
	return all
}

// judgeRecovered: a restore has lost a part of what was not final and had begun.
func (l *billLoad) judgeRecovered(r *billRecord) {
	l.t.Helper()
	start, final := r.Start.UnixMicro(), r.End.Add(billGrace).UnixMicro()
	may := l.backedUp != 0 && final > l.backedUp && start < l.restored[1]
	if must := may && start < l.restored[0]; r.Recovered && !may || !r.Recovered && must {
		l.t.Errorf("%+v: recovered after a backup at %d and a restore at %d", r, l.backedUp, l.restored)
	}
}

// pairsOf is what the keys of the policy pair are to pay, over all periods.
func pairsOf(all map[string]billRecord) map[string]uint64 {
	sums := map[string]uint64{}
	for _, r := range all {
		if r.Policy == "pair" {
			sums[r.Key] += uint64(r.Units - r.Credits)
		}
	}
	return sums
}

// everyDeed is what was done, and what holds have done that have expired by an instant.
func (l *billLoad) everyDeed(through int64) map[billedKey][]deed {
	known := l.snapshot()
	for _, t := range known.open {
		if t.hold && t.back && !t.lost && t.expires <= through {
			known.deeds[t.billedKey] = append(known.deeds[t.billedKey],
				deed{at: t.expires, units: t.units, taken: t.at})
			if t.expires/60e6 > t.at/60e6 {
				l.met["expired behind a boundary"]++
			}
		}
	}
	return known.deeds
}

// period is one of a bill, and what must be on it.
type period struct {
	billRecord
	units, credits uint64
}

func (p *period) has(at int64) bool { return p.Start.UnixMicro() <= at && at < p.End.UnixMicro() }

func (l *billLoad) judgeKey(k billedKey, bill []*period, deeds []deed) {
	slices.SortFunc(bill, func(a, b *period) int { return a.Start.Compare(b.Start) })
	for i := 1; i < len(bill); i++ {
		if bill[i].Start.Before(bill[i-1].End) {
			l.t.Errorf("%v: the period from %s to %s, and that from %s",
				k, bill[i-1].Start, bill[i-1].End, bill[i].Start)
		}
	}
	at := func(at int64) *period {
		if i := slices.IndexFunc(bill, func(p *period) bool { return p.has(at) }); i >= 0 {
			return bill[i]
		}
		l.t.Errorf("%v: something was done at %s, and no period has it", k, time.UnixMicro(at).UTC())
		return &period{}
	}
	slices.SortFunc(deeds, func(a, b deed) int { return int(min(1, max(-1, a.taken-b.taken))) }) // takings first
	for _, d := range deeds {
		if d.taken == 0 {
			at(d.at).units += d.units
			continue
		}
		if p := at(d.taken); d.at < p.End.Add(billGrace).UnixMicro() {
			p.units -= d.units
			l.met["given back in time"]++
			if !p.has(d.at) {
				l.met["given back to a closed period"]++
			}
		} else {
			at(d.at).credits += d.units
			l.met["given back late"]++
		}
	}
	for _, p := range bill {
		if p.units != uint64(p.Units) || p.credits != uint64(p.Credits) {
			l.t.Errorf("%s has %d units and %d credits, must have %d and %d",
				p.name(), p.Units, p.Credits, p.units, p.credits)
		}
	}
}

// judgeVariety fails a run in which something did not happen that it is to judge.
func (l *billLoad) judgeVariety(r *billReceiver) {
	for _, what := range []string{"decided", "denied", "pairs", "lists", "given back in time",
		"given back to a closed period", "given back late",
		"expired behind a boundary", "gave nothing back after the restore", "two meters in a period", "events", "bills",
		"recovered"} {
		if l.met[what] == 0 {
			l.t.Errorf("the run has none of: %s", what)
		}
	}
	l.t.Logf("%v; %d messages, %d of them taken again", l.met, r.messages, r.again)
}
