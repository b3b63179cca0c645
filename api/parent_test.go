package api

import (
	"reflect"
	"slices"
	"testing"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

func TestParentsAreDecidedTogetherWithTheirChildren(t *testing.T) {
	e := func(policy, key string, cost uint64) shard.Entry {
		return shard.Entry{Policy: policy, Key: key, Cost: cost}
	}
	inline := e("product", "acme/x", 1)
	inline.Limits = []policy.Limit{{Name: "x"}}
	gold := e("product", "acme/x", 1)
	gold.Tier = "gold"
	for name, c := range map[string]struct{ entries, want []shard.Entry }{
		"no parent":             {[]shard.Entry{e("per-ip", "a/b", 1)}, nil},
		"an unknown policy":     {[]shard.Entry{e("nobody", "a/b", 1)}, nil},
		"a key without a slash": {[]shard.Entry{e("product", "acme", 1)}, nil},
		"nothing above a slash": {[]shard.Entry{e("product", "/acme", 1)}, nil},
		"inline limits":         {[]shard.Entry{inline}, nil},
		"one generation":        {[]shard.Entry{e("product", "acme/x", 3)}, []shard.Entry{e("vendor", "acme", 3)}},
		"two generations": {[]shard.Entry{e("product", "eu/acme/x", 3)},
			[]shard.Entry{e("vendor", "eu/acme", 3), e("world", "eu", 3)}},
		"an empty last part":      {[]shard.Entry{e("product", "acme/", 1)}, []shard.Entry{e("vendor", "acme", 1)}},
		"a tier is not handed up": {[]shard.Entry{gold}, []shard.Entry{e("vendor", "acme", 1)}},
		"children of one parent": {[]shard.Entry{e("product", "eu/acme/x", 3), e("per-ip", "k", 9),
			e("product", "eu/acme/y", 4)},
			[]shard.Entry{e("vendor", "eu/acme", 7), e("world", "eu", 7)}},
		"a parent that is named": {[]shard.Entry{e("vendor", "eu/acme", 1), e("product", "eu/acme/x", 3)},
			[]shard.Entry{e("world", "eu", 1)}},
		"a grandparent that is named": {[]shard.Entry{e("product", "eu/acme/x", 3), e("world", "eu", 2)},
			[]shard.Entry{e("vendor", "eu/acme", 3)}},
	} {
		got, err := withParents(familyPolicies(), c.entries)
		if want := slices.Concat(c.entries, c.want); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v (%v)", name, got, err)
		}
	}
}

// The client's entries are distinguished from the added ones, which identifies a copy of the request.
func TestTheEntriesOfAClientAreToldFromParents(t *testing.T) {
	entry := func(policy, key string) *stintv1.Entry { return &stintv1.Entry{Policy: policy, Key: key} }
	for own, entries := range map[int][]*stintv1.Entry{
		0: {entry("per-ip", "k"), entry("vendor", "acme")},
		1: {entry("product", "eu/acme/x")},
		2: {entry("product", "eu/acme/x"), entry("vendor", "eu/acme")},
	} {
		r, err := entriesRequest(familyPolicies(), shard.Check, "", entries)
		if err != nil || r.Own != own {
			t.Errorf("%v: %d of %d are the client's, want %d: %v", entries, r.Own, len(r.Entries), own, err)
		}
	}
}

// The caller knows only the entries that it has named: their actual costs are enough.
func TestActualCostsReachTheParents(t *testing.T) {
	entries, err := withParents(familyPolicies(), []shard.Entry{{Policy: "product", Key: "eu/acme/x", Cost: 5},
		{Policy: "product", Key: "eu/acme/y", Cost: 5}, {Policy: "per-ip", Key: "k", Cost: 1}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ actual, want []uint64 }{
		{nil, nil},
		{[]uint64{2, 0, 1}, []uint64{2, 0, 1, 2, 2}},
		{[]uint64{2, 3, 1, 4, 4}, []uint64{2, 3, 1, 4, 4}},
	} {
		if got, err := actualCosts(familyPolicies(), entries, c.actual); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, %v", c.actual, got, err)
		}
	}
	for _, wrong := range [][]uint64{{1}, {1, 1}, {1, 1, 1, 1, 1, 1}, {limit.MaxCost, limit.MaxCost, 1}} {
		if got, err := actualCosts(familyPolicies(), entries, wrong); err == nil {
			t.Errorf("%v: taken as %v", wrong, got)
		}
	}
}

// A parent that is removed while a hold is open is charged as before: the hold can still be settled.
func TestActualCostsReachParentsThatAreGone(t *testing.T) {
	e := func(policy, key string, cost uint64) shard.Entry {
		return shard.Entry{Policy: policy, Key: key, Cost: cost}
	}
	for _, own := range [][]shard.Entry{
		{e("product", "eu/acme/x", 5)},
		{e("product", "eu/acme/x", 5), e("product", "eu/acme/y", 6), e("per-ip", "k", 1), e("product", "us/acme/x", 7)},
		{e("vendor", "eu/acme", 2), e("product", "eu/acme/x", 3)},
		{e("product", "eu/acme/x", 3), e("world", "eu", 2)},
	} {
		entries, err := withParents(familyPolicies(), own)
		if err != nil {
			t.Fatal(err)
		}
		actual := []uint64{9, 0, 4, 1}[:len(own)]
		want, err := actualCosts(familyPolicies(), entries, actual)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := actualCosts(testPolicies(), entries, actual); err != nil || !slices.Equal(got, want) {
			t.Errorf("%+v: %v, %v; with their parents %v", own, got, err, want)
		}
	}
	unclear := []shard.Entry{e("product", "eu/acme", 3), e("other", "eu/x", 4), e("world", "eu", 3)}
	if got, err := actualCosts(testPolicies(), unclear, []uint64{1, 1}); err == nil {
		t.Errorf("nobody can tell who was below the parent: %v", got)
	}
}

func TestEveryKindOfRequestKnowsTheParents(t *testing.T) {
	w := newWorld(t)
	w.revision.Set = familyPolicies()
	const one = `{"entries":[{"policy":"vendor","key":"eu/acme"}]}`
	want := []shard.Entry{{Policy: "vendor", Key: "eu/acme", Cost: 1}, {Policy: "world", Key: "eu", Cost: 1}}
	for procedure, body := range map[string]string{"Check": one, "Get": one, "CheckBatch": `{"checks":[` + one + `]}`,
		"Reserve": `{"check":` + one + `}`} {
		w.post("LimitService/"+procedure, body)
		if got := w.last().Entries; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: asked %+v", procedure, got)
		}
	}
	id := w.decision("LimitService/Check", one).DecisionID
	w.decision("LimitService/Settle", `{"decisionId":"`+id+`","commit":{"actualCost":["0"]}}`)
	if got := w.last(); !reflect.DeepEqual(got.Entries, counted(want...)) ||
		!slices.Equal(got.Settlement.Actual, []uint64{0, 0}) {
		t.Errorf("settled %+v with %v", got.Entries, got.Settlement.Actual)
	}
}
