package api

import (
	"context"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
	"github.com/stint-io/stint/internal/observe/top"
)

// fakeTop is a TopReader with one answer.
type fakeTop struct {
	asked  top.Query
	answer top.Answer
}

func (f *fakeTop) Top(_ context.Context, q *top.Query) (top.Answer, []string, error) {
	f.asked = *q
	return f.answer, []string{"n3"}, nil
}

func (f *fakeTop) HideKey(namespace, key string) (string, bool) { return "hidden", true }

func twoTopPolicies() top.Answer {
	key := func(name string) top.Key {
		return top.Key{Key: name, Estimates: [3]top.Estimate{{Count: 9, Err: 1}, {Count: 5}, {Count: 40, Err: 4}}}
	}
	return top.Answer{Policies: []top.Policy{
		{Name: "login", Since: 1_000_000, Totals: [3]uint64{90, 50, 400}, Keys: []top.Key{key("user:1"), key("org:1")}},
		{Name: "web", Since: 2_000_000, Keys: []top.Key{key("user:1")}}}}
}

// A caller that may observe sees hashes, one that may see keys sees those of the grant, and no other caller sees
// anything.
func TestTopShowsKeysToThoseWhoMaySeeThem(t *testing.T) {
	k := newTokens()
	w := newGuardedWorld(t, k.guard)
	w.top.answer = twoTopPolicies()
	for name, c := range map[string]struct {
		grants []string
		m      *stintv1.TopRequest
		want   string // policies, then policy and key of each row; or the code of the error
	}{
		"admin": {[]string{"ops=admin"}, &stintv1.TopRequest{}, "login web: login/user:1 login/org:1 web/user:1"},
		"keys":  {[]string{"ops=observe-keys"}, &stintv1.TopRequest{}, "login web: login/user:1 login/org:1 web/user:1"},
		"observer": {
			[]string{"ops=observe"},
			&stintv1.TopRequest{}, "login web: login/#hidden login/#hidden web/#hidden"},
		"both": {[]string{"ops=observe", "policy=login key=user:* ops=observe-keys"}, &stintv1.TopRequest{},
			"login web: login/user:1 login/#hidden web/#hidden"},
		"one policy": {[]string{"policy=login ops=observe-keys"}, &stintv1.TopRequest{},
			"login: login/user:1 login/org:1"},
		"some keys": {[]string{"policy=login key=user:* ops=observe-keys"}, &stintv1.TopRequest{}, ": login/user:1"},
		"own namespace": {[]string{"ns=shop ops=observe-keys"}, &stintv1.TopRequest{Namespace: "shop"},
			"login web: login/user:1 login/org:1 web/user:1"},
		"another namespace": {[]string{"ns=shop ops=observe-keys"}, &stintv1.TopRequest{}, "permission_denied"},
		"neither":           {[]string{"ops=check,read,cluster"}, &stintv1.TopRequest{}, "permission_denied"},
	} {
		token := k.add(t, strings.ReplaceAll(name, " ", "-"), c.grants...)
		answer, err := stintv1connect.NewObserveServiceClient(withToken(token), w.url).
			Top(t.Context(), connect.NewRequest(c.m))
		got := ""
		if err != nil {
			got = connect.CodeOf(err).String()
		} else {
			var policies, keys []string
			for _, p := range answer.Msg.Policies {
				policies = append(policies, p.Policy)
			}
			for _, k := range answer.Msg.Keys {
				if k.Hashed {
					k.Key = "#" + k.Key
				}
				keys = append(keys, k.Policy+"/"+k.Key)
			}
			got = strings.Join(policies, " ") + ": " + strings.Join(keys, " ")
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// The traffic of all nodes is for callers that may observe the cluster.
func TestTopTellsTrafficToObservers(t *testing.T) {
	k := newTokens()
	w := newGuardedWorld(t, k.guard)
	w.top.answer = top.Answer{Traffic: []top.Traffic{{Start: 1_000_000_000, Admitted: 5, Denied: 2,
		Took: []uint64{0, 1}}, {Start: 1_000_000_010}}}
	for grant, seen := range map[string]int{"ops=observe": 2, "ops=observe-keys": 0} {
		token := k.add(t, strings.TrimPrefix(grant, "ops="), grant)
		answer, err := stintv1connect.NewObserveServiceClient(withToken(token), w.url).Top(t.Context(),
			connect.NewRequest(&stintv1.TopRequest{Traffic: true}))
		if err != nil {
			t.Fatal(err)
		}
		if w.top.asked.Traffic != (seen > 0) {
			t.Errorf("%s: asked for %+v", grant, w.top.asked)
		}
		if seen == 0 {
			continue
		}
		told := answer.Msg.Traffic
		if len(told) != 2 || told[0].Start.AsTime().Unix() != 1e9 || told[0].Admitted != 5 || told[0].Denied != 2 ||
			told[0].P99.AsDuration() != 100*time.Microsecond || told[1].P99 != nil {
			t.Errorf("%s: told %v", grant, told)
		}
	}
}

func TestTopTellsCountsAndErrors(t *testing.T) {
	w := newWorld(t)
	w.top.answer = twoTopPolicies()
	answer, err := stintv1connect.NewObserveServiceClient(withToken(""), w.url).Top(t.Context(),
		connect.NewRequest(&stintv1.TopRequest{
			Namespace: "shop", Policies: []string{"login"}, Order: stintv1.TopOrder_TOP_ORDER_UNITS, Count: 3,
			Window: durationpb.New(2 * time.Minute)}))
	if err != nil {
		t.Fatal(err)
	}
	if q := w.top.asked; q.Namespace != "shop" || len(q.Policies) != 1 || q.Order != top.Units || q.Count != 3 ||
		q.Span != top.TenMinutes {
		t.Errorf("asked for %+v", q)
	}
	m := answer.Msg
	if k := m.Keys[0]; k.Decisions != 9 || k.DecisionsError != 1 || k.Denials != 5 || k.DenialsError != 0 ||
		k.Units != 40 || k.UnitsError != 4 || k.Hashed {
		t.Errorf("the first key is %v", k)
	}
	if p := m.Policies[0]; p.Since.AsTime().Unix() != 1 || p.Decisions != 90 || p.Denials != 50 || p.Units != 400 {
		t.Errorf("the first policy is %v", p)
	}
	if len(m.MissingNodes) != 1 || m.MissingNodes[0] != "n3" {
		t.Errorf("missing: %v", m.MissingNodes)
	}
	for window, want := range map[time.Duration]top.Span{time.Second: top.Minute, time.Minute: top.Minute,
		10 * time.Minute: top.TenMinutes, 10*time.Minute + 1: top.Hour, time.Hour: top.Hour} {
		if q, err := topWanted(&stintv1.TopRequest{Window: durationpb.New(window)}); err != nil || q.Span != want {
			t.Errorf("%v is span %d: %v", window, q.Span, err)
		}
	}
}
