package node

import (
	"context"
	"fmt"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/internal/notify"
	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

// want asks for a number of shards.
func (c *trio) want(shards uint32) {
	c.t.Helper()
	err := c.nodes[0].view.changeTable(c.t.Context(), func(t *placement.Table) *placement.Table {
		return t.ApplyWanted(shards)
	})
	if err != nil {
		c.t.Fatal(err)
	}
}

// scraped is the value of a series in the metrics of each node.
func (c *trio) scraped(series string) (values []int) {
	for _, n := range c.nodes {
		w := httptest.NewRecorder()
		n.metrics.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		_, after, _ := strings.Cut(w.Body.String(), "\n"+series+" ")
		text, _, _ := strings.Cut(after, "\n")
		value, err := strconv.Atoi(text)
		if err != nil {
			c.t.Errorf("%s: %v", series, err)
		}
		values = append(values, value)
	}
	return values
}

// TestANumberOfShardsThatComesLateIsRefused: the caller that asked for another number meanwhile has seen none of it.
func TestANumberOfShardsThatComesLateIsRefused(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		n := start(t, testConfig(t))
		defer stop(t, n)
		for _, c := range []struct {
			shards   uint32
			expected uint64
			refused  bool
		}{
			{shards: 3, expected: 0}, {shards: 3, expected: 0}, // a copy
			{shards: 2, expected: 0, refused: true},
			{shards: 1, expected: 1},
			{shards: 3, expected: 0, refused: true},
			{shards: 1, expected: 2}, // as it was; what was asked for by then comes too late
			{shards: 3, expected: 2, refused: true},
			{shards: 1, expected: 7, refused: true},
		} {
			err := n.admin.SetShards(t.Context(), c.shards, &c.expected)
			if c.refused != isConflict(err) || !c.refused && err != nil {
				t.Errorf("%d shards by revision %d: %v", c.shards, c.expected, err)
			}
		}
		if s, err := n.admin.Status(t.Context()); err != nil || s.WantedShards != 1 || s.ShardsRevision != 3 {
			t.Errorf("%d shards by revision %d: %v", s.WantedShards, s.ShardsRevision, err)
		}
		if err := n.admin.SetShards(t.Context(), 2, nil); err != nil {
			t.Errorf("whatever is in force: %v", err)
		}
	})
}

// evenOver awaits that as many shards share all slots, as each node knows. It waits as long as slots move.
func (c *trio) evenOver(shards uint32) {
	c.t.Helper()
	for what := fmt.Sprint("slots on ", shards, " shards"); !c.isEvenOver(shards); {
		before := c.nodes[0].view.newestTable()
		await.Until(c.t, what, func() bool { return c.isEvenOver(shards) || c.nodes[0].view.newestTable() != before })
	}
}

func (c *trio) isEvenOver(shards uint32) bool {
	for _, n := range c.nodes {
		t := n.view.newestTable()
		if t.Shards < shards || t.WantedShards() != shards {
			return false
		}
		for id := range t.Shards {
			if owned := t.Slots.Owned(id); len(t.Moves) > 0 || id < shards && owned < slot.Count/int(shards) ||
				id >= shards && owned > 0 {
				return false
			}
		}
	}
	return true
}

// TestALaterGroupIsFoundedByItsNodes: it has an owner on each of its nodes' say, and all of its replicas are in it.
func TestALaterGroupIsFoundedByItsNodes(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := newTrio(t, 1)
		c.want(3)
		c.await("three shards with three voters each", func(s *stintv1.StatusResponse) bool {
			return len(s.Shards) == 4 && atRestOf(3, s.Shards)
		})
	})
}

func atRestOf(voters int, shards []*stintv1.Shard) bool {
	for _, s := range shards {
		if s.Owner == "" || len(s.Replicas) != voters {
			return false
		}
		for _, r := range s.Replicas {
			if !r.Known || r.Role != "voter" || r.Lost {
				return false
			}
		}
	}
	return true
}

// TestASlotIsTakenInTime: the time of the slot does not jump ahead by more than a failover may let it.
func TestASlotIsTakenInTime(t *testing.T) {
	var asked shard.Request
	v := &mover{submit: func(_ context.Context, _ shard.ID, requests []shard.Request) []shard.Result {
		asked = requests[0]
		return shard.RefuseAll(1, &shard.Error{Code: shard.TooLate})
	}}
	d := &moveDrive{mover: v, from: &shard.SlotStatus{State: shard.SlotFrozen}, to: &shard.SlotStatus{Ended: true},
		fromTime: 5_000_000}
	waits, err := d.take(t.Context(), moverStep{step: shard.MoveTake})
	if waits != timesApart || err != nil || asked.NotAfter != 5_400_000 {
		t.Errorf("%+v, waits for %q, error %v", asked, waits, err)
	}
}

// TestAPageIsPutWithTheStatusOfItsRead: the shard that stores it needs the policies that the other had adopted by then,
// since they may have changed leased keys.
func TestAPageIsPutWithTheStatusOfItsRead(t *testing.T) {
	var put *shard.MoveTerms
	v := &mover{submit: func(_ context.Context, _ shard.ID, requests []shard.Request) []shard.Result {
		status := shard.SlotStatus{State: shard.SlotFrozen, Generation: 7, Revision: 2}
		if put = requests[0].System.Move; put.Step == shard.MovePut {
			status = shard.SlotStatus{State: shard.SlotImporting, Generation: 7, Pages: 1, Ended: true}
		}
		return []shard.Result{{Decision: shard.Decision{
			System: &shard.SystemAnswer{Moved: &shard.MoveAnswer{Status: status}}}}}
	}}
	d := &moveDrive{mover: v, Move: placement.Move{Move: shard.Move{From: 0, To: 1, Generation: 7}},
		from: &shard.SlotStatus{State: shard.SlotFrozen, Generation: 7, Revision: 1}, to: &shard.SlotStatus{}}
	if _, err := d.take(t.Context(), moverStep{step: shard.MoveRead}); err != nil || put.Step != shard.MovePut ||
		put.Frozen.Revision != 2 || !d.to.Ended {
		t.Errorf("%+v, error %v", put, err)
	}
}

// TestAMoveIsNumberedInTheTableThatListsIt: in a later one, the slot may have moved there and back, and the same move
// be listed again. With the generation of before, it would neither begin nor end.
func TestAMoveIsNumberedInTheTableThatListsIt(t *testing.T) {
	table := placement.NewTable("c", []placement.Node{{ID: "n1"}}, 2, 1)
	m := placement.Move{Move: shard.Move{Slot: 600, From: 1, To: 0}}
	table.Moves = []placement.Move{m}
	d := &moveDrive{Move: m, seen: table, from: &shard.SlotStatus{Generation: 4}}
	if told := d.numbered(table); told == nil || told.Moves[0].Generation != 5 {
		t.Errorf("%+v", told)
	}
	if told := d.numbered(table.Clone()); told != nil {
		t.Errorf("in a later table: %+v", told.Moves)
	}
	m.Generation = 5
	back := shard.SlotStatus{State: shard.SlotOwned, Generation: 6}
	if next := nextStep(m, &back, &shard.SlotStatus{State: shard.SlotMoved, Generation: 6}); next != (moverStep{}) {
		t.Errorf("by the generation of before: %+v", next)
	}
}

// TestAMoveIsFollowedInTheChangeThatEndsIt: by the next one with its generation, unless another node has changed the
// table meanwhile.
func TestAMoveIsFollowedInTheChangeThatEndsIt(t *testing.T) {
	table := placement.NewTable("c", []placement.Node{{ID: "n1"}}, 2, 1)
	m := placement.Move{Move: shard.Move{Slot: 600, From: 1, To: 0, Generation: 3}}
	table.Moves = []placement.Move{m}
	d := &moveDrive{Move: m}
	then := successor{seen: table, move: shard.Move{Slot: 601, From: 1, To: 0, Generation: 5}}
	step := moverStep{told: true, over: true, owner: 0}
	if told := d.told(table, step, then); len(told.Moves) != 1 || told.Moves[0].Move != then.move ||
		told.Slots[600] != 0 {
		t.Errorf("in the same table: %+v", told.Moves)
	}
	for what, told := range map[string]*placement.Table{"in another table": d.told(table.Clone(), step, then),
		"without one": d.told(table, step, successor{seen: table})} {
		if len(told.Moves) != 0 || told.Slots[600] != 0 {
			t.Errorf("%s: %+v", what, told.Moves)
		}
	}
}

// TestASlotIsNotFrozenWhileTimesDiffer: it could not be taken before they agree, and no shard would answer for it. By
// the time that it could be, they may differ by more than when it was frozen, as messages take time.
func TestASlotIsNotFrozenWhileTimesDiffer(t *testing.T) {
	times := [2]limit.Time{} // of shards 0 and 1
	froze := false
	billing := func(context.Context) (*policy.Set, []notify.Sink, error) { return nil, nil, nil }
	v := &mover{billing: billing, submit: func(_ context.Context, id shard.ID, requests []shard.Request) []shard.Result {
		state := [2]shard.SlotState{shard.SlotPreparing, shard.SlotImporting}[id]
		froze = froze || requests[0].System.Move.Step == shard.MoveFreeze
		return []shard.Result{{Decision: shard.Decision{DecidedAt: times[id],
			System: &shard.SystemAnswer{Moved: &shard.MoveAnswer{
				Status: shard.SlotStatus{State: state, Generation: 7}, Waits: "nothing else"}}}}}
	}}
	for _, c := range []struct {
		from, to limit.Time
		freezes  bool
	}{{5_000_000, 4_699_999, false}, {4_699_999, 5_000_000, false}, {5_000_000, 4_700_000, true},
		{5_000_000, 5_300_000, true}} {
		times, froze = [2]limit.Time{c.from, c.to}, false
		d := &moveDrive{mover: v, Move: placement.Move{Move: shard.Move{From: 0, To: 1, Generation: 7}}}
		if waits, err := d.run(t.Context()); err != nil || waits == "" || froze != c.freezes {
			t.Errorf("%+v: frozen %v, waits for %q, error %v", c, froze, waits, err)
		}
	}
}

// TestASlotIsNotFrozenWhileStripeMayHaveForgotten: the shard that gets it sends again what one of them had not sent
// yet, or had sent without an answer, under the same ids, which Stripe knows for a day. It may try that for 20 hours.
func TestASlotIsNotFrozenWhileStripeMayHaveForgotten(t *testing.T) {
	policies, err := policy.Parse("", []byte("policies: {p: {notify: [stripe], meter: {name: m, calendar: {unit: hour}}, "+
		"limits: [{name: a, quota: 9, calendar: {unit: hour}}]}}"))
	if err != nil {
		t.Fatal(err)
	}
	const hour = limit.Time(3600 * 1e6)
	const now = 10_000 * hour
	frozen := func(kind string, slots *slot.Map, pushes [2][]shard.Put) bool {
		froze := false
		submit := func(_ context.Context, id shard.ID, requests []shard.Request) []shard.Result {
			froze = froze || requests[0].System.Move.Step == shard.MoveFreeze
			state := [2]shard.SlotState{shard.SlotPreparing, shard.SlotImporting}[id]
			status := shard.SlotStatus{State: state, Generation: 7, Pushes: pushes[id]}
			return []shard.Result{{Decision: shard.Decision{DecidedAt: now,
				System: &shard.SystemAnswer{Moved: &shard.MoveAnswer{Status: status, Waits: "nothing else"}}}}}
		}
		sinks := []notify.Sink{{Name: "stripe", Kind: kind, Created: int64(now - 40*hour)}}
		v := &mover{submit: submit, billing: func(context.Context) (*policy.Set, []notify.Sink, error) {
			return policies, sinks, nil
		}}
		d := &moveDrive{mover: v, Move: placement.Move{Move: shard.Move{From: 0, To: 1, Generation: 7}},
			seen: &placement.Table{Slots: slots}}
		waits, err := d.run(t.Context())
		if err != nil || froze != (waits == "nothing else") || !froze && !strings.Contains(waits, "sink stripe") {
			t.Errorf("waits for %q, error %v", waits, err)
		}
		return froze
	}
	noted := func(at shard.PushPosition) []shard.Put {
		text, err := at.Encode()
		if err != nil {
			t.Fatal(err)
		}
		value := append([]byte{1, 1}, text...) // of format 1, and the first version
		return []shard.Put{{Key: "p\x06stripe" + finalPushes, Record: shard.Record{Value: value, ForgetAt: now + hour}}}
	}
	sent := func(before limit.Time) []shard.Put { return noted(shard.PushPosition{Done: now - before}) }
	sending := func(before limit.Time) []shard.Put {
		return noted(shard.PushPosition{Done: now - before - hour, Through: now - before, Tried: now - before})
	}
	both, fresh := slot.Even(2), slot.Even(1)
	for _, c := range []struct {
		what    string
		kind    string
		slots   *slot.Map
		pushes  [2][]shard.Put
		freezes bool
	}{
		{"the one sent a little less", notify.Stripe, both, [2][]shard.Put{sent(2 * hour), sent(0)}, true},
		{"the one sent less long ago", notify.Stripe, both, [2][]shard.Put{sent(4 * hour), sent(0)}, false},
		{"the other sent less long ago", notify.Stripe, both, [2][]shard.Put{sent(0), sent(4 * hour)}, false},
		{"both began to send long ago", notify.Stripe, both, [2][]shard.Put{sending(4 * hour), sending(4 * hour)}, false},
		{"both have just begun to send", notify.Stripe, both, [2][]shard.Put{sending(hour), sending(hour)}, true},
		{"Stripe has taken all since", notify.Stripe, both, [2][]shard.Put{sent(0), sent(0)}, true},
		{"nothing fell between", notify.Stripe, both, [2][]shard.Put{sent(21 * hour), sent(21*hour - 1)}, true},
		{"the one sent nothing", notify.Stripe, both, [2][]shard.Put{nil, sent(0)}, false},
		{"the other sent nothing", notify.Stripe, both, [2][]shard.Put{sent(0), nil}, false},
		{"the other has nothing to send", notify.Stripe, fresh, [2][]shard.Put{sent(0), nil}, true},
		{"the sink forgets nothing", notify.CloudEvents, both, [2][]shard.Put{sent(21 * hour), sent(0)}, true},
	} {
		if froze := frozen(c.kind, c.slots, c.pushes); froze != c.freezes {
			t.Errorf("%s: frozen %v", c.what, froze)
		}
	}
}

// TestASlotThatCannotBeTakenGoesBack: as the time of its new shard is too far ahead, which began after the freeze. The
// former shard answers for it again, the status says why, and it is tried again, but not at once.
func TestASlotThatCannotBeTakenGoesBack(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		config := testConfig(t)
		config.Shards = 1
		n := start(t, config)
		defer stop(t, n)
		const first = slot.ID(slot.Count / 2) // the slot that goes first
		var ahead atomic.Bool
		var frozen atomic.Int32
		submit := n.reconciler.mover.submit
		n.reconciler.mover.submit = func(ctx context.Context, id shard.ID, requests []shard.Request) []shard.Result {
			switch terms := requests[0].System.Move; {
			case terms.Slot != first:
			case terms.Step == shard.MoveFreeze:
				frozen.Add(1)
			case terms.Step == shard.MoveTake && ahead.Load():
				requests[0].NotAfter -= 10_000_000
			}
			return submit(ctx, id, requests)
		}
		ahead.Store(true)
		if err := n.admin.SetShards(t.Context(), 2, nil); err != nil {
			t.Fatal(err)
		}
		await.Until(t, "the slot is frozen", func() bool { return frozen.Load() > 0 })
		check := shard.Request{Op: shard.Check, Namespace: shard.DefaultNamespace,
			Entries: []shard.Entry{{Policy: "plenty", Key: keyIn(first), Cost: 1}}}
		within, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if d := n.Decide(within, []shard.Request{check})[0]; d.Err != nil || !d.Decision.Allowed {
			t.Fatalf("%+v", d)
		}
		waits := ""
		await.Until(t, "the status says why", func() bool {
			s, err := n.admin.Status(t.Context())
			for _, m := range s.GetSlotMoves() {
				if slot.ID(m.Slot) == first && strings.Contains(m.Waits, "given back") {
					waits = m.Waits
				}
			}
			return err == nil && strings.Contains(waits, timesApart)
		}, &waits)
		time.Sleep(20 * time.Second)
		if f, others := frozen.Load(), n.view.slots().Owned(1); f != 1 || others < 100 {
			t.Errorf("frozen %d times, while %d other slots moved", f, others)
		}
		ahead.Store(false)
		await.Until(t, "the slot has moved", func() bool { return n.view.slots()[first] == 1 })
		if d := n.Decide(t.Context(), []shard.Request{check})[0]; d.Err != nil || d.Decision.Limits[0].Used != 2 {
			t.Errorf("%+v", d)
		}
	})
}

// keyIn returns a key of a slot.
func keyIn(at slot.ID) string {
	for i := 0; ; i++ {
		if key := fmt.Sprint("key ", i); slot.Of(shard.DefaultNamespace, key) == at {
			return key
		}
	}
}

// TestSlotsWithHoldsStopNoOthers: slots that wait for holds with keys of other slots to end are passed by the others,
// and follow when the holds have ended.
func TestSlotsWithHoldsStopNoOthers(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := newTrio(t, 1)
		const first, held = slot.Count / 2, 4 // the slots that go first
		var holds []shard.Request
		for at := slot.ID(first); at < first+held; at += 2 {
			r := shard.Request{Op: shard.Reserve, Namespace: shard.DefaultNamespace,
				Hold: &shard.HoldTerms{TTL: 3600e6}}
			for _, key := range []string{keyIn(at), keyIn(at + 1)} {
				r.Entries = append(r.Entries, shard.Entry{Policy: "plenty", Key: key, Cost: 1})
			}
			d := c.nodes[0].Decide(t.Context(), []shard.Request{r})[0]
			if d.Err != nil || !d.Decision.Allowed {
				t.Fatalf("%+v", d)
			}
			holds = append(holds, shard.Request{Op: shard.Settle, Namespace: r.Namespace, Entries: r.Entries,
				Settlement: &shard.Settlement{
					Action: shard.ActionCancel, Target: shard.Target{Hold: true, Position: d.Decision.Position,
						Index: d.Decision.Index, DecidedAt: d.Decision.DecidedAt}}})
		}
		c.want(2)
		waiting := func(s *stintv1.StatusResponse) (n int) {
			for _, m := range s.SlotMoves {
				if slot.ID(m.Slot) < first+held && m.Waits != "" {
					n++
				}
			}
			return n
		}
		c.await("others go", func(s *stintv1.StatusResponse) bool {
			return waiting(s) == held && s.SlotsToMove < slot.Count/2-2*held
		})
		for i, r := range c.nodes[1].Decide(t.Context(), holds) {
			if r.Err != nil {
				t.Errorf("hold %d: %v", i, r.Err)
			}
		}
		await.Until(t, "those of the holds follow", func() bool {
			slots := c.nodes[0].view.slots()
			return slots[first] == 1 && slots[first+1] == 1 && slots[first+2] == 1 && slots[first+3] == 1
		})
	})
}

// TestSlotsMoveUnderLoad: up to three shards and down to two, no request fails, and every unit is counted once. Most
// moves take one change of the table.
func TestSlotsMoveUnderLoad(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := newTrio(t, 1)
		crowd := newCrowdEvery(t, c, 40*time.Millisecond, 0, 1, 2)
		if testing.Short() { // some slots, there and back
			c.want(3)
			await.Until(t, "some slots have moved", func() bool {
				return c.nodes[0].view.slots().Owned(0) < slot.Count-50
			})
			c.want(1)
			c.evenOver(1)
			crowd.goesHome(0)
			return
		}
		before := c.nodes[0].view.table.now().version
		for _, shards := range []uint32{3, 2} {
			began := time.Now()
			c.want(shards)
			c.evenOver(shards)
			t.Logf("%d shards after %v", shards, time.Since(began))
		}
		crowd.goesHome(0)
		for series, want := range map[string]int{"stint_shards_wanted": 2, `stint_slots{shard="1"}`: 512,
			`stint_slots{shard="2"}`: 0, "stint_slots_to_move": 0, "stint_slots_moving": 0} {
			if values := c.scraped(series); !slices.Equal(values, []int{want, want, want}) {
				t.Errorf("%s is %v, want %d on each node", series, values, want)
			}
		}
		moved := 0
		for _, ended := range c.scraped("stint_slots_moved_total") {
			moved += ended
		}
		if want := 341 + 341 + 341; moved != want {
			t.Errorf("%d slots moved, want %d", moved, want)
		}
		changes := int(c.nodes[0].view.table.now().version - before)
		if t.Logf("%d changes of the table for %d moves", changes, moved); changes > 2*moved {
			t.Errorf("%d changes of the table are too many for %d moves", changes, moved)
		}
	})
}
