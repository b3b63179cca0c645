package shard

import (
	"testing"

	"github.com/stint-io/stint/policy"
)

// hashingSet is a set of policies in which the keys of a namespace are hashed, at a version.
func hashingSet(t *testing.T, of *policy.Set, namespaces string, version uint64) *policy.Set {
	t.Helper()
	set, err := policy.ParseRules("rules", []byte(namespaces), of)
	if err != nil {
		t.Fatal(err)
	}
	return set.At(version)
}

// A node that does not know yet whether keys are hashed counts nothing: its units would be spent on keys that no other
// request uses.
func TestAKeyOfTheOtherFormIsNotCounted(t *testing.T) {
	w := newWorld(t, onePolicy(windowLimit))
	plain := w.policies.At(4)
	hashed := hashingSet(t, plain, "namespaces: {"+DefaultNamespace+": {keys: hashed}, office: {keys: plain}}", 4)
	tally := Entry{Key: "k", Cost: 1, Limits: TallyLimits}
	requests := map[string]Request{"tally": {Op: Tally, Entries: []Entry{tally},
		Tally: &TallyTerms{Verb: TallyAdd, Amount: 1}},
		"read of a tally": {Op: ReadTally, Entries: []Entry{tally}},
		"reservation": {Op: Reserve, Entries: []Entry{{Policy: "p", Key: "k", Cost: 1}},
			Hold: &HoldTerms{TTL: minute}}}
	for name, op := range map[string]Op{"check": Check, "look": Peek, "read": Get, "count": Count, "part": Partial} {
		requests[name] = Request{Op: op, Entries: []Entry{{Policy: "p", Key: "k", Cost: 1}}}
	}
	for name, op := range map[string]Op{"reset": Reset, "set": SetUsed, "add": AddUsed, "block": Block,
		"unblock": Unblock, "override": PutOverride, "no override": DeleteOverride, "correction": CorrectUsage} {
		requests[name] = Request{Op: op, Entries: []Entry{{Policy: "p", Key: "k", Cost: 1}},
			System: &SystemTerms{Correction: &Correction{Meter: "", Period: ""}},
			Adjustment: &Adjustment{Amount: 1, Note: "n", Until: w.state.Time() + 1e12,
				Override: &policy.Override{Tier: "free"}}}
	}
	for name, r := range requests {
		for _, c := range []struct {
			policies  *policy.Set
			hashed    bool
			revision  uint64
			namespace string
			refused   bool
		}{
			{hashed, true, 4, DefaultNamespace, false}, {hashed, true, 3, DefaultNamespace, false},
			{hashed, true, 0, DefaultNamespace, false},
			{hashed, false, 4, DefaultNamespace, true}, {hashed, false, 3, DefaultNamespace, true},
			{hashed, false, 0, DefaultNamespace, true},
			{hashed, false, 5, DefaultNamespace, false}, // by policies that the shard does not know yet
			{hashed, false, 3, "office", false}, {hashed, true, 3, "office", true},
			{plain, true, 3, DefaultNamespace, true}, {plain, true, 5, DefaultNamespace, false},
			{plain, false, 3, DefaultNamespace, false},
		} {
			w.policies = c.policies
			r.Hashed, r.Revision, r.Namespace = c.hashed, c.revision, c.namespace
			results, puts := w.batch(w.state.Time()+1, r)
			err := results[0].Err
			if refused := err != nil && err.Code == Outdated; refused != c.refused {
				t.Errorf("%s, hashed %v by version %d in %s: %v", name, c.hashed, c.revision, c.namespace, err)
			}
			if c.refused && (len(puts) > 0 || err.MaybeApplied()) {
				t.Errorf("%s: %v, and wrote %v", name, err, puts)
			}
		}
	}
}

// Units counted under a key of one form are settled there after the form has changed.
func TestASettlementKeepsTheFormOfItsKeys(t *testing.T) {
	w := newWorld(t, onePolicy(windowLimit))
	r := checkOf("p", "k", 1)
	d := w.decided(r)
	w.policies = hashingSet(t, w.policies, "namespaces: {"+DefaultNamespace+": {keys: hashed}}", 9)
	settle := Request{Op: Settle, Namespace: DefaultNamespace, Entries: r.Entries,
		Settlement: &Settlement{Action: ActionCancel,
			Target: Target{Position: d.Position, Index: d.Index, DecidedAt: d.DecidedAt}}}
	settle.Entries[0].Counted = []LimitPrint{printOf(d.Limits[0].Limit)}
	if results, _ := w.batch(w.state.Time()+1, settle); results[0].Err != nil {
		t.Error(results[0].Err)
	}
}
