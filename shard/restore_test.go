package shard

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stint-io/stint/internal/testing/model"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard/slot"
)

// backup returns a copy of the state, as a backup has it.
func (w *world) backup() *State {
	w.Helper()
	var file bytes.Buffer
	if _, err := w.state.Snapshot().WriteTo(&file); err != nil {
		w.Fatal(err)
	}
	state, err := Restore(w.state.id, &file)
	if err != nil {
		w.Fatal(err)
	}
	return state
}

// epochsAhead is how far the epochs of a restored shard are ahead of the lost ones.
const epochsAhead = 1 << 40

// allOn is the map of a cluster in which a shard has all slots.
func allOn(id ID) *slot.Map {
	m := new(slot.Map)
	for i := range m {
		m[i] = uint32(id)
	}
	return m
}

// goBack makes the world continue from a backup.
func (w *world) goBack(backup *State, at limit.Time, keep ...Kept) Restored {
	w.Helper()
	states, counts, err := Continue([]*State{backup},
		Restoration{Slots: allOn(backup.id), At: at, Before: w.index + epochsAhead,
			Policies: w.policies, Keep: keep, Actor: "ann", Note: "disk"})
	if err != nil {
		w.Fatal(err)
	}
	state := states[backup.id]
	w.state, w.index, w.term = state, w.index+epochsAhead, w.term+1
	audit(w, state)
	w.append(EncodeEpochOpen(w.state.id, at, LevelNewest))
	return counts
}

func TestARestoredShardAdmitsNothingTwice(t *testing.T) {
	t.Parallel()
	rnd, met := seeded(t), map[string]int{}
	for range 300 {
		h := newLostHistory(t, rnd, met)
		h.live(rnd.IntN(60))
		backup := h.backup()
		known := len(h.takings)
		h.lost, h.lostFrom = true, h.now
		h.live(rnd.IntN(60))
		h.now += limit.Time(rnd.Int64N(int64(20 * second)))
		h.goBack(backup, h.now)
		h.restored, h.at, h.known = true, h.now, known
		for range 3 {
			h.live(20)
			switch rnd.IntN(4) {
			case 0:
				h.now += limit.Time(MaxHoldTTL)
			case 1:
				h.now += limit.Time(rnd.Int64N(int64(2 * minute)))
			case 2: // back to a backup of the restored shard, which loses again
				backup, h.known = h.backup(), len(h.takings)
				h.live(20)
				h.now++
				h.goBack(backup, h.now)
				h.at = h.now
			}
		}
		audit(t, h.state)
	}
	t.Log(met)
	for _, what := range []string{"admitted before", "lost", "admitted after", "denied after", "lost handle refused",
		"old handle without effect", "hold after"} {
		if met[what] < 100 {
			t.Errorf("%q was met %d times", what, met[what])
		}
	}
}

// lostHistory is a shard beside a twin of each of its limits, which remembers what the shard loses.
type lostHistory struct {
	*world
	rnd      *rand.Rand
	met      map[string]int
	now      limit.Time
	twins    map[string]*model.Model
	takings  []taking
	lost     bool // the backup was made
	restored bool
	lostFrom limit.Time
	at       limit.Time // of the newest restore
	known    int        // takings that its backup knows; those after are lost if they were made before at
}

// taking is units that were taken, and may come back.
type taking struct {
	request Request
	d       Decision
	expires limit.Time // 0: a decision
	ended   bool
}

func newLostHistory(t *testing.T, rnd *rand.Rand, met map[string]int) *lostHistory {
	var policies []*policy.Policy
	for i := range 4 {
		l := randomLimit(rnd)
		for l.Algorithm == limit.Lifetime || l.Algorithm == limit.Unlimited {
			l = randomLimit(rnd)
		}
		p := onePolicy(l)
		p.Name = fmt.Sprint("p", i)
		p.OnExpire = policy.OnExpireCancel
		policies = append(policies, p)
	}
	return &lostHistory{world: newWorld(t, policies...), rnd: rnd, met: met, now: origin,
		twins: map[string]*model.Model{}}
}

func (h *lostHistory) limitOf(e *Entry) limit.Limit {
	p, _ := h.policies.Lookup(e.Policy)
	return p.Limits[0].Limit
}

func (h *lostHistory) twin(e *Entry) *model.Model {
	name := e.Policy + "/" + e.Key
	if h.twins[name] == nil {
		h.twins[name] = model.New(h.limitOf(e))
	}
	return h.twins[name]
}

func (h *lostHistory) live(requests int) {
	for range requests {
		next := h.now + randomStep(h.rnd)
		h.expire(next)
		h.now = next
		if len(h.takings) > 0 && h.rnd.IntN(3) == 0 {
			h.giveBack(len(h.takings) - 1 - h.rnd.IntN(min(len(h.takings), 20)))
			continue
		}
		e := Entry{Policy: fmt.Sprint("p", h.rnd.IntN(4)), Key: fmt.Sprint("k", h.rnd.IntN(2)),
			Cost: 1 + h.rnd.Uint64N(6)}
		r := Request{Op: Check, Namespace: "default", Entries: []Entry{e}}
		if h.limitOf(&e).Algorithm == limit.Concurrency || h.rnd.IntN(3) == 0 {
			r.Op, r.Hold = Reserve, &HoldTerms{TTL: limit.Span(1 + h.rnd.Int64N(int64(20*second)))}
		}
		h.take(r)
	}
}

func (h *lostHistory) take(r Request) {
	e := &r.Entries[0]
	d := h.must(h.now, r)
	when := map[bool]string{false: "before", true: "after"}[h.restored]
	if !d.Allowed {
		h.met["denied "+when]++
		return
	}
	h.met["admitted "+when]++
	if h.lost && !h.restored {
		h.met["lost"]++
	}
	if !h.twin(e).Admits(e.Cost, h.now) {
		h.Fatalf("%s: %s/%s admits %d of %+v, and with what was lost %+v",
			clock(h.now), e.Policy, e.Key, e.Cost, h.limitOf(e), h.twin(e).Status(h.now))
	}
	h.twin(e).Add(e.Cost, h.now)
	h.takings = append(h.takings, taking{request: r, d: d, expires: d.HoldExpires})
	if d.HoldExpires != 0 {
		h.met["hold "+when]++
	}
}

// ofOldTime reports whether units do not come back any more, except those of a concurrency limit.
func (h *lostHistory) ofOldTime(k *taking) bool { return h.restored && k.d.DecidedAt < h.at }

// expire makes the twins end the holds that are over, in order. Units taken before a restore do not come back.
func (h *lostHistory) expire(now limit.Time) {
	var due []*taking
	for i := range h.takings {
		if k := &h.takings[i]; k.expires != 0 && !k.ended && k.expires <= now {
			due = append(due, k)
		}
	}
	slices.SortFunc(due, func(a, b *taking) int { return int(a.expires - b.expires) })
	for _, k := range due {
		k.ended = true
		e := &k.request.Entries[0]
		if !h.ofOldTime(k) || k.expires < h.at && !h.restored || h.limitOf(e).Algorithm == limit.Concurrency {
			h.twin(e).Refund(e.Cost, k.d.DecidedAt, k.expires)
		}
	}
}

// giveBack cancels a hold or refunds a decision.
func (h *lostHistory) giveBack(i int) {
	k := &h.takings[i]
	e := &k.request.Entries[0]
	old := h.ofOldTime(k)
	results, _ := h.batch(h.now, settleOf(k.request, k.d, Settlement{Action: ActionCancel}))
	if err := results[0].Err; err != nil && err.Code != HoldEnded {
		h.Fatal(err)
	}
	if old && i >= h.known {
		if results[0].Err == nil {
			h.Fatalf("%s: what was taken at %s and lost is settled", clock(h.now), clock(k.d.DecidedAt))
		}
		h.met["lost handle refused"]++
		return
	}
	if results[0].Err != nil || results[0].Decision.Replayed || k.ended {
		return
	}
	k.ended = true
	if old {
		h.met["old handle without effect"]++
	}
	if !old || h.limitOf(e).Algorithm == limit.Concurrency {
		h.twin(e).Refund(e.Cost, k.d.DecidedAt, h.now)
	}
}

// everyWindow returns a policy of one limit of each algorithm that resets.
func everyWindow() *policy.Policy {
	zone, _ := limit.LoadZone("")
	return onePolicy(
		limit.Limit{Algorithm: limit.FixedWindow, Quota: 5, Period: hour},
		limit.Limit{Algorithm: limit.FixedWindowFirstHit, Quota: 5, Period: hour},
		limit.Limit{Algorithm: limit.SlidingWindow, Quota: 5, Period: hour},
		limit.Limit{Algorithm: limit.SlidingBuckets, Quota: 5, Period: hour, Bucket: minute},
		limit.Limit{Algorithm: limit.SlidingLog, Quota: 5, Period: hour},
		limit.Limit{Algorithm: limit.TokenBucket, Quota: 5, Count: 5, Period: hour, Initial: 5},
		limit.Limit{Algorithm: limit.GCRA, Quota: 5, Count: 5, Period: hour},
		limit.Limit{Algorithm: limit.Calendar, Quota: 5, Cycle: &limit.Cycle{Unit: limit.Hour, Every: 1, Zone: zone}})
}

// TestAnUnknownKeyIsFullUntilItsWindowsRoll: two hours later it is like any other.
func TestAnUnknownKeyIsFullUntilItsWindowsRoll(t *testing.T) {
	w := newWorld(t, everyWindow())
	backup, at := w.backup(), origin+limit.Time(minute)
	w.goBack(backup, at)
	w.wantUsed(at, "p", "unknown", 5, 5, 5, 5, 5, 5, 5, 5)
	if d := w.must(at, checkOf("p", "unknown", 1)); d.Allowed || d.RetryAfter <= 0 || d.RetryAfter > 2*hour {
		t.Errorf("%+v", d)
	} else if again := w.must(at+limit.Time(d.RetryAfter), checkOf("p", "unknown", 1)); !again.Allowed {
		t.Errorf("denied at the instant that was told: %+v", again)
	}
	w.wantUsed(at+limit.Time(2*hour), "p", "other", 0, 0, 0, 0, 0, 0, 0, 0)
	if records := w.state.Records(); records > 4 { // the mark, the audit log and its head, one key
		t.Errorf("reading leaves %d records", records)
	}
}

// TestAPersonClearsAKeyThatIsFull, and it stays cleared, although it then has no state.
func TestAPersonClearsAKeyThatIsFull(t *testing.T) {
	for name, clear := range map[string]Request{
		"reset": {Op: Reset, Adjustment: &Adjustment{Actor: "ann"}},
		"set":   {Op: SetUsed, Adjustment: &Adjustment{Amount: 0}},
		"add":   {Op: AddUsed, Adjustment: &Adjustment{Amount: -5}},
	} {
		w := newWorld(t, everyWindow())
		at := origin + limit.Time(minute)
		w.goBack(w.backup(), at)
		clear.Namespace, clear.Entries = "default", []Entry{{Policy: "p", Key: "k"}}
		w.must(at, clear)
		w.must(at+limit.Time(second), Request{Op: Unblock, Namespace: "default", Entries: clear.Entries,
			Adjustment: &Adjustment{}})
		for _, later := range []limit.Time{at + limit.Time(second), at + limit.Time(2*second),
			at + limit.Time(30*minute)} {
			if used := w.usedOf(later, "p", "k"); slices.Max(used) != 0 {
				t.Errorf("%s: at %s %v are used", name, clock(later), used)
			}
		}
		if d := w.must(at+limit.Time(30*minute), checkOf("p", "k", 5)); !d.Allowed {
			t.Errorf("%s: %+v", name, d)
		}
		w.wantUsed(at+limit.Time(30*minute), "p", "k", 5, 5, 5, 5, 5, 5, 5, 5)
		w.wantUsed(at+limit.Time(31*minute), "p", "other", 5, 5, 5, 5, 5, 3, 3, 5)
		w.append(EncodeSum(w.next(at + limit.Time(4*hour))))
		if _, found := w.state.Lookup(string(appendCounterKey(nil, "default", "p", "k"))); found {
			t.Errorf("%s: the key is remembered for ever", name)
		}
	}
}

// TestALimitThatKeepsContinuesWithTheBackup: by its policy, or because the operator of the restore says so.
func TestALimitThatKeepsContinuesWithTheBackup(t *testing.T) {
	p := everyWindow()
	p.Limits[0].OnRecovery = policy.RecoverKeep
	w := newWorld(t, p)
	w.must(origin, checkOf("p", "k", 2))
	r := checkOf("p", "k", 1)
	d := w.must(origin, r)
	backup, at := w.backup(), origin+limit.Time(minute)
	w.goBack(backup, at, Kept{"p", "b"}, Kept{"p", "e"}, Kept{"q", "c"})
	w.wantUsed(at, "p", "k", 3, 3, 5, 5, 3, 5, 5, 5)
	w.wantUsed(at, "p", "unknown", 0, 0, 5, 5, 0, 5, 5, 5)
	w.must(at, settleOf(r, d, Settlement{Action: ActionCancel}))
	w.wantUsed(at, "p", "k", 3, 3, 5, 5, 3, 5, 5, 5) // what was taken before does not come back
	audit := w.must(at, Request{Op: ReadAudit, Namespace: "default"})
	records := audit.Answer().Audit
	if len(records) != 1 || records[0].Deed != "restore" || records[0].Actor != "ann" ||
		records[0].After != "keep: p/b, p/e, q/c" {
		t.Errorf("the audit log has %+v", records)
	}
	w = newWorld(t, p)
	w.goBack(w.backup(), at, Kept{"p", ""})
	w.wantUsed(at, "p", "unknown", 0, 0, 0, 0, 0, 0, 0, 0)
}

// TestWhatNeverResetsContinuesWithTheBackup, but refunds of what was taken before have no effect.
func TestWhatNeverResetsContinuesWithTheBackup(t *testing.T) {
	w := newWorld(t, onePolicy(lifetimeOf(10), limit.Limit{Algorithm: limit.Unlimited}))
	r := checkOf("p", "k", 4)
	d := w.must(origin, r)
	tally := Request{Op: Tally, Namespace: "default",
		Entries: []Entry{{Policy: "redis", Key: "n", Limits: TallyLimits}},
		Tally:   &TallyTerms{Verb: TallyAdd, Amount: -7}}
	w.must(origin, tally)
	at := origin + limit.Time(minute)
	w.goBack(w.backup(), at)
	w.wantUsed(at, "p", "k", 4, 4)
	w.must(at, settleOf(r, d, Settlement{Action: ActionCancel}))
	w.wantUsed(at, "p", "k", 4, 4)
	w.wantUsed(at, "p", "unknown", 0, 0)
	tally.Op = ReadTally
	if got := w.must(at, tally).Tallied; got == nil || got.Value != -7 {
		t.Errorf("the tally is %+v", got)
	}
}

// TestHoldsThatNobodyKnowsCountForAsLongAsAHoldMayLast, and those that the backup knows still end.
func TestHoldsThatNobodyKnowsCountForAsLongAsAHoldMayLast(t *testing.T) {
	w := newWorld(t, onePolicy(limit.Limit{Algorithm: limit.Concurrency, Quota: 3}))
	r := reserveOf(Entry{Policy: "p", Key: "k", Cost: 1})
	r.Hold.TTL = MaxHoldTTL
	known, expired := w.must(origin, r), w.must(origin, r)
	backup := w.backup()
	lost := w.must(origin+1, r)
	at := origin + limit.Time(minute)
	if counts := w.goBack(backup, at); counts.Holds != 2 || counts.Full != 1 {
		t.Errorf("%+v", counts)
	}
	w.wantUsed(at, "p", "k", 5)
	if err := w.refused(at, settleOf(r, lost, Settlement{Action: ActionExtend, TTL: MaxHoldTTL})); err.Code !=
		HoldEnded {
		t.Errorf("%+v", err)
	}
	w.must(at, settleOf(r, known, Settlement{Action: ActionCommit}))
	w.wantUsed(at, "p", "k", 4)
	if d := w.must(at, r); d.Allowed || d.RetryAfter != MaxHoldTTL {
		t.Errorf("%+v", d)
	}
	if d := w.must(at+limit.Time(MaxHoldTTL), r); !d.Allowed || d.Limits[0].Used != 1 {
		t.Errorf("%+v", d)
	}
	if err := w.refused(at+limit.Time(MaxHoldTTL),
		settleOf(r, expired, Settlement{Action: ActionCommit})); err.Code != HoldEnded {
		t.Errorf("%+v", err)
	}
}

// TestALadderAfterARestore: what the backup knows continues; an unknown key is blocked for the longest block.
func TestALadderAfterARestore(t *testing.T) {
	p := onePolicy(limit.Limit{Algorithm: limit.SlidingLog, Quota: 5, Period: minute})
	p.Lockout = &policy.Lockout{After: 2, Base: minute, Factor: 2, Max: hour, ForgiveAfter: day}
	w := newWorld(t, p)
	fail := func(now limit.Time, key string) {
		r := reserveOf(Entry{Policy: "p", Key: key, Cost: 1})
		w.must(now, settleOf(r, w.must(now, r), Settlement{Action: ActionFailed}))
	}
	fail(origin, "failed")
	w.must(origin, checkOf("p", "quiet", 1))
	at := origin + limit.Time(2*minute)
	w.goBack(w.backup(), at)
	until := func(now limit.Time, key string) limit.Time {
		return w.must(now, Request{Op: Get, Namespace: "default", Entries: []Entry{{Policy: "p", Key: key}}}).
			Limits[0].BlockedUntil
	}
	now := at + limit.Time(2*minute)
	if until(now, "failed") != 0 || until(now, "quiet") != 0 || until(now, "unknown") != at+limit.Time(hour) {
		t.Errorf("blocked until %s, %s, %s", clock(until(now, "failed")), clock(until(now, "quiet")),
			clock(until(now, "unknown")))
	}
	if d := w.must(now, checkOf("p", "unknown", 1)); d.Allowed || d.RetryAfter != hour-2*minute {
		t.Errorf("an unknown key: %+v", d)
	}
	fail(now, "failed")
	if got := until(now, "failed"); got != now+limit.Time(minute) {
		t.Errorf("after the second failure: blocked until %s", clock(got))
	}
	unblock := adjustOf(Unblock, "p", "unknown", Adjustment{})
	w.must(now, unblock)
	if d := w.must(now+1, checkOf("p", "unknown", 1)); !d.Allowed {
		t.Errorf("an unblocked key: %+v", d)
	}
	if got := until(now+limit.Time(10*minute), "unknown"); got != 0 {
		t.Errorf("it is blocked again until %s", clock(got))
	}
	w.append(EncodeSum(w.next(at + limit.Time(2*day))))
	if records := w.state.Records(); records > 4 {
		t.Errorf("%d records are left", records)
	}
	w = newWorld(t, p)
	w.goBack(w.backup(), at, Kept{"p", ""})
	if got := until(at, "unknown"); got != 0 {
		t.Errorf("with all of the policy kept: blocked until %s", clock(got))
	}
}

// TestIDsAfterARestore: a known id is answered again; an unknown one that was made before may have run, and is refused.
func TestIDsAfterARestore(t *testing.T) {
	w := newWorld(t, onePolicy(lifetimeOf(10)))
	with := func(id string) Request {
		r := checkOf("p", "k", 1)
		r.ID = id
		return r
	}
	w.must(origin+1, with(identity("v7@0s/a")))
	backup := w.backup()
	w.must(origin+2, with("lost"))
	at := origin + limit.Time(minute)
	w.goBack(backup, at)
	if d := w.must(at, with(identity("v7@0s/a"))); !d.Replayed {
		t.Errorf("the known id: %+v", d)
	}
	if err := w.refused(at, with(identity("v7@59s/b"))); err.Code != IDExpired ||
		!strings.Contains(err.Message, "restored") {
		t.Errorf("an unknown one of before: %+v", err)
	}
	if d := w.must(at, with(identity("v7@60s/c"))); d.Replayed || !d.Allowed {
		t.Errorf("a new one: %+v", d)
	}
	if d := w.must(at, with("lost")); d.Replayed || !d.Allowed {
		t.Errorf("one without a time: %+v", d)
	}
}

func TestSessionsDoNotSurviveARestore(t *testing.T) {
	w := newWorld(t, onePolicy(lifetimeOf(10)))
	d := w.must(origin, Request{Op: OpenSession})
	r := checkOf("p", "k", 1)
	r.Session, r.Number = d.Answer().Session, 1
	w.must(origin, r)
	if counts := w.goBack(w.backup(), origin+limit.Time(minute)); counts.Sessions != 1 || counts.Keys != 1 ||
		counts.Full != 0 {
		t.Errorf("%+v", counts)
	}
	r.Retry = true
	if err := w.refused(origin+limit.Time(minute), r); err.Code != SessionGone {
		t.Errorf("%+v", err)
	}
}

// TestAHigherTierIsFullToo: the mark is applied to the numbers of the request, whichever they are.
func TestAHigherTierIsFullToo(t *testing.T) {
	p := onePolicy(limit.Limit{Algorithm: limit.FixedWindow, Quota: 5, Period: hour})
	quota := uint64(100)
	p.Tiers = map[string]policy.Tier{"gold": {Limits: map[string]policy.TierLimit{"a": {Quota: &quota}}}}
	w := newWorld(t, p)
	w.must(origin, checkOf("p", "k", 3))
	at := origin + limit.Time(minute)
	w.goBack(w.backup(), at)
	gold, count := checkOf("p", "k", 1), checkOf("p", "k", 1)
	gold.Entries[0].Tier, count.Op = "gold", Count
	w.wantUsed(at, "p", "k", 5)
	if d := w.must(at, gold); d.Allowed || d.Limits[0].Used != 100 || d.RetryAfter != hour-minute {
		t.Errorf("without a state: %+v", d)
	}
	w.must(at, count) // now the key has a state, of the lower tier
	if d := w.must(at, gold); d.Allowed || d.Limits[0].Used != 106 || d.RetryAfter != hour-minute {
		t.Errorf("with the state of another tier: %+v", d)
	}
	w.wantUsed(at, "p", "k", 6)
}

// TestAMarkThatCannotBeReadRefuses: a shard that does not know whether its keys are full must not decide.
func TestAMarkThatCannotBeReadRefuses(t *testing.T) {
	w := newWorld(t, everyWindow())
	at := origin + limit.Time(minute)
	w.goBack(w.backup(), at)
	mark, _ := w.state.Lookup(string(restoreRecord))
	w.append(EncodeBatch(w.next(at),
		[]Put{{Key: string(restoreRecord), Record: Record{Value: append([]byte{9}, mark.Value[1:]...),
			ForgetAt: limit.Forever}}}))
	if err := w.refused(at, checkOf("p", "k", 1)); err.Code != Unreadable {
		t.Errorf("%+v", err)
	}
	if _, _, err := Continue([]*State{w.state},
		Restoration{Slots: allOn(3), At: at + 1, Policies: w.policies}); err == nil {
		t.Error("it is restored again")
	}
}

func TestABackupOfTheFutureIsRefused(t *testing.T) {
	w := newWorld(t, everyWindow())
	if _, _, err := Continue([]*State{w.state},
		Restoration{Slots: allOn(3), At: w.state.Time(), Policies: w.policies}); err == nil {
		t.Error("the shard's time stands still")
	}
}

func everyMark() *restoreMark {
	return &restoreMark{full: limit.Full{At: origin, Hold: MaxHoldTTL},
		keep: []Kept{{"login", "account-30d"}, {"api", ""}},
		gaps: []historyGap{{3, 3, 70_000, epochsAhead}, {0, epochsAhead + 5, 1, 2*epochsAhead + 5}}}
}

// These bytes are stored in users' logs and snapshots: a change needs a new format number, and a reader for the old
// one.
func TestGoldenBytesOfARestore(t *testing.T) {
	mark := everyMark()
	cleared := everyExtra()
	cleared.mark, cleared.ladderKnown = mark, true
	cleared.limits[0].cleared = true
	bare := &counter{mark: mark, policy: cleared.policy, ladderKnown: true}
	text := fmt.Sprintf("mark\n%x\ncounter\n%x\ncounter of which only the ladder is known\n%x\n",
		mark.encode(), cleared.encode(origin).Value, bare.encode(origin).Value)
	golden(t, "testdata/restore.golden", text)

	got, err := decodeRestoreMark(mark.encode())
	if err != nil || !reflect.DeepEqual(got, mark) {
		t.Errorf("the mark came back as %+v, %v", got, err)
	}
	for n := range mark.encode() {
		if _, err := decodeRestoreMark(mark.encode()[:n]); err == nil {
			t.Errorf("%d bytes of the mark are enough", n)
		}
	}
	for _, want := range []*counter{cleared, bare} {
		c := counter{mark: mark, policy: want.policy}
		value := want.encode(origin).Value
		if err := c.decode(value, nil); err != nil || !bytes.Equal(c.encode(origin).Value, value) || !c.ladderKnown {
			t.Errorf("%x came back as %+v, %v", value, c, err)
		}
		for n := range value {
			if (&counter{policy: inlinePolicy}).decode(value[:n], nil) == nil {
				t.Errorf("%d of %d bytes are enough", n, len(value))
			}
		}
	}
}

func FuzzRestoreMark(f *testing.F) {
	f.Add(everyMark().encode())
	f.Fuzz(func(t *testing.T, value []byte) {
		m, err := decodeRestoreMark(value)
		if err != nil {
			return
		}
		again, err := decodeRestoreMark(m.encode())
		if err != nil || !reflect.DeepEqual(again, m) {
			t.Fatalf("%x came back as %+v, %v", value, again, err)
		}
	})
}

// TestLegsEndAsTakenAfterARestore: a leg asks home as always. The units that it has taken do not come back, whatever
// home says.
func TestLegsEndAsTakenAfterARestore(t *testing.T) {
	c := newCrossing(t)
	charged := c.charge(origin + 1).Decision
	at := origin + limit.Time(minute)
	if counts := c.goBack(c.backup(), at); counts.Operations != 1 || counts.Holds != 1 {
		t.Errorf("%+v", counts)
	}
	duties := c.state.Duties(at, 10)
	if len(duties) != 1 || duties[0].Request.Op != ResolveHome {
		t.Fatalf("the leg asks %+v", duties)
	}
	home := newCrossing(t)
	home.goBack(home.backup(), at)
	results, _ := home.batch(at, duties[0].Request)
	if v := results[0].Decision.Operation; v == nil || v.State != OperationAborted {
		t.Fatalf("home, which lost it, says %+v", results[0])
	}
	if result := c.finish(at, OperationAborted, &charged); result.Err != nil || c.state.OpenLegs() != 0 {
		t.Errorf("%+v, %d open legs", result, c.state.OpenLegs())
	}
	c.want(at, 3, "a leg that was aborted")
}

// TestALostLegIsAcknowledged: home goes on telling the leg what it committed, and the leg must not stand in its way.
func TestALostLegIsAcknowledged(t *testing.T) {
	c := newCrossing(t)
	backup := c.backup()
	charged := c.charge(origin + 1).Decision
	at := origin + limit.Time(minute)
	c.goBack(backup, at)
	for _, state := range []OperationState{OperationCommitted, OperationHeld, OperationAborted} {
		if result := c.finish(at, state, &charged); result.Err != nil {
			t.Errorf("state %v: %v", state, result.Err)
		}
	}
	c.want(at, 0, "a lifetime quota, which continues with the backup")
}

// TestADecisionOnSeveralShardsThatWasLostIsNotRefunded, nor is a hold if home lost its record.
func TestADecisionOnSeveralShardsThatWasLostIsNotRefunded(t *testing.T) {
	c := newCrossing(t)
	backup := c.backup()
	c.conclude(origin+1, true, 0)
	at := origin + limit.Time(minute)
	c.goBack(backup, at)
	for _, hold := range []bool{true, false} {
		result := c.tell(at, Settle, func(r *Request) {
			r.Entries = []Entry{{Policy: "p", Key: "k", Cost: 3}, {Policy: "p", Key: "elsewhere", Cost: 1}}
			r.Settlement = &Settlement{Action: ActionCancel,
				Target: Target{Hold: hold, Operation: "x", Home: mine, DecidedAt: origin + 1}}
			r.Operation.Home = mine
			r.Operation.Legs = []Leg{{Slot: 4,
				Decision: Decision{Limits: []LimitStatus{{Policy: "p", Key: "elsewhere"}}}}}
		})
		if result.Err == nil || result.Err.Code != HoldEnded {
			t.Errorf("hold %v: %+v", hold, result)
		}
	}
}

// TestAnExactRestoreLosesNothing: counts, holds, answers to ids and time go on, what an earlier restore did not know is
// still unknown, and only sessions are gone.
func TestAnExactRestoreLosesNothing(t *testing.T) {
	t.Parallel()
	rnd, met := seeded(t), map[string]int{}
	for range 100 {
		h := newLostHistory(t, rnd, met)
		h.live(rnd.IntN(60))
		if rnd.IntN(2) == 0 { // a restore that loses comes first
			backup, known := h.backup(), len(h.takings)
			h.lost, h.lostFrom = true, h.now
			h.live(rnd.IntN(30))
			h.now += limit.Time(rnd.Int64N(int64(20 * second)))
			h.goBack(backup, h.now)
			h.restored, h.at, h.known = true, h.now, known
			h.live(rnd.IntN(30))
		}
		before := h.backup()
		states, counts, err := Continue([]*State{before},
			Restoration{Slots: allOn(3), Exact: true, At: 1, Before: h.index + epochsAhead,
				Policies: h.policies, Actor: "ann", From: "recovered"})
		if err != nil {
			t.Fatal(err)
		}
		state := states[3]
		if state.Time() != before.Time() || counts.Full != 0 {
			t.Fatal(state.Time(), counts)
		}
		for key, r := range allRecords(before) {
			got, found := state.Lookup(key)
			gone := key[0] == sessionRecord || key[0] == sessionAnswerRecord
			if found == gone && r.ForgetAt > before.Time() && key[0] != auditHeadRecord {
				t.Errorf("record %q is there: %v", key, found)
			}
			if found && key[0] != auditRecord && key[0] != auditHeadRecord && !reflect.DeepEqual(got, r) {
				t.Errorf("record %q is %v, and was %v", key, got, r)
			}
		}
		h.state, h.index, h.term = state, h.index+epochsAhead, h.term+1
		h.append(EncodeEpochOpen(h.state.id, h.now, LevelNewest))
		h.live(60)
		audit(t, h.state)
	}
	t.Log(met)
	for _, what := range []string{"admitted before", "admitted after"} {
		if met[what] < 100 {
			t.Errorf("%q was met %d times", what, met[what])
		}
	}
}
