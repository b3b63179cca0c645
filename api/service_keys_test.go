package api

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

// Every change of the audit log is on one page, whatever the length of the pages, also those that one entry has made.
func TestTheAuditLogHasPages(t *testing.T) {
	w := newWorld(t)
	w.shards = 12 // more than are asked at once
	w.decider.decide = func(r shard.Request) shard.Result {
		id := r.Shard
		var kept []shard.AuditRecord
		for n := range 10 { // newest first; three in an entry, and shards at the same instants
			at := 1000 - limit.Time(n/3)
			kept = append(kept, shard.AuditRecord{At: at, Namespace: shard.DefaultNamespace, Policy: "per-ip",
				Key: fmt.Sprint(id, " ", n), Deed: "reset",
				Position: shard.Position{Shard: id, Epoch: 5, Seq: uint64(at)}})
		}
		return shard.Result{Decision: shard.Decision{System: &shard.SystemAnswer{Audit: kept}}}
	}
	client := stintv1connect.NewObserveServiceClient(withToken(""), w.url)
	for _, count := range []uint32{1, 2, 7, 119, 120, 1000} {
		seen, cursor := map[string]bool{}, ""
		for pages := 0; ; pages++ {
			answer, err := client.Audit(t.Context(),
				connect.NewRequest(&stintv1.AuditRequest{Policy: "per-ip", Count: count, Cursor: cursor}))
			if err != nil || pages > 120 {
				t.Fatalf("page %d of %d: %v", pages, count, err)
			}
			for _, r := range answer.Msg.Records {
				if seen[r.Key] {
					t.Fatalf("pages of %d: %s is there twice", count, r.Key)
				}
				seen[r.Key] = true
			}
			if cursor = answer.Msg.NextCursor; cursor == "" {
				break
			}
		}
		if len(seen) != 120 {
			t.Errorf("pages of %d: %d changes of 120", count, len(seen))
		}
	}
	for _, cursor := range []string{"x", "1.2.3.4", "1.2.3.4.0", "1.2.3.4.5 ", "+1.2.3.4.5"} {
		if code, _, body := w.post("ObserveService/Audit", `{"cursor":"`+cursor+`"}`); code != 400 ||
			!strings.Contains(body, "next_cursor") {
			t.Errorf("cursor %q: %d %s", cursor, code, body)
		}
	}
}

// listingWorld has keys on three shards. A shard answers with one key at a time.
func listingWorld(t *testing.T, k *tokens) *world {
	w := newGuardedWorld(t, k.guard)
	w.cluster.list = func(id shard.ID, q shard.Listing) (l shard.Listed) {
		all := []shard.ListedKey{{Policy: "per-ip", Key: fmt.Sprint("user:", id)},
			{Policy: "per-ip", Key: fmt.Sprint("org:", id)}, {Policy: "login", Key: fmt.Sprint("user:", id),
				Override: &policy.Override{Tier: "gold", Expires: noon}}}
		one := all[q.From]
		if strings.HasPrefix(one.Key, q.Prefix) && (q.Policy == "" || q.Policy == one.Policy) &&
			(!q.Overrides || one.Override != nil) {
			l.Keys = all[q.From : q.From+1]
		}
		if l.Next = q.From + 1; l.Next == uint64(len(all)) {
			l.Next = 0
		}
		return l
	}
	return w
}

// listAll follows the cursors, and returns policies and keys in alphabetical order.
func listAll(
	t *testing.T, client stintv1connect.ObserveServiceClient, m *stintv1.ListKeysRequest,
) (keys []string, err error) {
	t.Helper()
	for range 20 {
		answer, err := client.ListKeys(context.Background(), connect.NewRequest(m))
		if err != nil {
			return nil, err
		}
		for _, k := range answer.Msg.Keys {
			keys = append(keys, k.Policy+" "+k.Key)
		}
		if m.Cursor = answer.Msg.NextCursor; m.Cursor == "" {
			slices.Sort(keys)
			return keys, nil
		}
	}
	t.Fatal("the pages do not end")
	return nil, nil
}

// Keys are listed by their leases, with their holders.
func TestLeasesAreListed(t *testing.T) {
	k := newTokens()
	k.add(t, "root", "ops=admin")
	w := newGuardedWorld(t, k.guard)
	w.cluster.list = func(_ shard.ID, q shard.Listing) (l shard.Listed) {
		if q.Leases {
			l.Keys = []shard.ListedKey{{Policy: "per-ip", Key: "k",
				Leases: []shard.HeldLease{{Holder: "n1/x", Units: 5, Ends: noon}}}}
		}
		return l
	}
	client := stintv1connect.NewObserveServiceClient(withToken(k.text["root"]), w.url)
	answer, err := client.ListKeys(t.Context(), connect.NewRequest(&stintv1.ListKeysRequest{Leases: true}))
	if err != nil || len(answer.Msg.Keys) == 0 {
		t.Fatalf("%v, %v", answer, err)
	}
	l := answer.Msg.Keys[0].Leases
	if len(l) != 1 || l[0].Holder != "n1/x" || l[0].Units != 5 || l[0].EndsAt.AsTime().UnixMicro() != int64(noon) {
		t.Errorf("%v", l)
	}
}

// A node has replicas of some shards only: it answers with what it has read, and another one is asked for the rest.
func TestANodeListsTheKeysThatItHas(t *testing.T) {
	k := newTokens()
	k.add(t, "root", "ops=admin")
	w := listingWorld(t, k)
	lacks := shard.ID(1)
	w.cluster.listErr = func(id shard.ID) error {
		if id == lacks {
			return &shard.Error{Code: shard.Unavailable, Message: "no replica"}
		}
		return nil
	}
	client := stintv1connect.NewObserveServiceClient(withToken(k.text["root"]), w.url)
	m := &stintv1.ListKeysRequest{Overrides: true}
	answer, err := client.ListKeys(t.Context(), connect.NewRequest(m))
	if err != nil || len(answer.Msg.Keys) != 1 || answer.Msg.NextCursor != "1.0.all." {
		t.Fatalf("%v, %v", answer, err)
	}
	m.Cursor = answer.Msg.NextCursor
	if _, err := client.ListKeys(t.Context(), connect.NewRequest(m)); connect.CodeOf(err) != connect.CodeUnavailable {
		t.Errorf("from there on: %v", err)
	}
	lacks = 0 // another node
	if answer, err = client.ListKeys(t.Context(), connect.NewRequest(m)); err != nil || len(answer.Msg.Keys) != 2 ||
		answer.Msg.NextCursor != "" {
		t.Errorf("%v, %v", answer, err)
	}
}

// A slot that was on no shard when this was read makes the list incomplete, on whatever page it is missed.
func TestListKeysMissesNoSlot(t *testing.T) {
	k := newTokens()
	k.add(t, "root", "ops=admin")
	w := listingWorld(t, k)
	list, moved := w.cluster.list, []slot.ID(nil)
	w.cluster.list = func(id shard.ID, q shard.Listing) shard.Listed {
		l := list(id, q)
		if l.Slots = slotsOf(id); id == 2 && q.From > 0 {
			l.Slots = slotsOf(id, moved...)
		}
		return l
	}
	client := stintv1connect.NewObserveServiceClient(withToken(k.text["root"]), w.url)
	for _, count := range []uint32{1, 4, 100} {
		moved = nil
		if keys, err := listAll(t, client, &stintv1.ListKeysRequest{Count: count}); err != nil || len(keys) != 9 {
			t.Errorf("nothing moves: %q, %v", keys, err)
		}
		moved = []slot.ID{slot.Count - 1}
		if keys, err := listAll(t, client,
			&stintv1.ListKeysRequest{Count: count}); connect.CodeOf(err) != connect.CodeUnavailable {
			t.Errorf("a slot moves: %q, %v", keys, err)
		}
	}
}

func TestKeysArePagedAcrossShards(t *testing.T) {
	k := newTokens()
	k.add(t, "root", "ops=admin")
	w := listingWorld(t, k)
	client := stintv1connect.NewObserveServiceClient(withToken(k.text["root"]), w.url)
	for _, count := range []uint32{1, 2, 100} {
		keys, err := listAll(t, client, &stintv1.ListKeysRequest{Count: count})
		if want := "login user:0|login user:1|login user:2|per-ip org:0|per-ip org:1|per-ip org:2|per-ip " +
			"user:0|per-ip user:1|per-ip user:2"; err != nil ||
			strings.Join(keys, "|") != want {
			t.Errorf("pages of %d: %q, %v", count, keys, err)
		}
	}
	answer, err := client.ListKeys(t.Context(),
		connect.NewRequest(&stintv1.ListKeysRequest{Overrides: true, Policy: "login", Prefix: "user:"}))
	if err != nil || len(answer.Msg.Keys) != 3 || answer.Msg.Keys[0].Override.Tier != "gold" ||
		answer.Msg.Keys[0].Override.ExpiresAt == nil {
		t.Errorf("%v, %v", answer, err)
	}
	for _, m := range []*stintv1.ListKeysRequest{{Cursor: "x"}, {Cursor: "1"}, {Cursor: "1.zz.."}, {Cursor: "1.0"},
		{Cursor: "1.0.x."}, {Cursor: "-1.0.."}, {Count: keysCountMax + 1}, {Policy: "Bad Name"}, {Prefix: "\n"}} {
		if _, err := client.ListKeys(t.Context(), connect.NewRequest(m)); connect.CodeOf(err) !=
			connect.CodeInvalidArgument {
			t.Errorf("%v: %v", m, err)
		}
	}
}

// A token sees the keys of its grants, has to ask for those, and sees no others.
func TestATokenListsItsOwnKeysOnly(t *testing.T) {
	k := newTokens()
	k.add(t, "narrow", "policy=per-ip key=user:*,org:1 ops=observe-keys")
	k.add(t, "other", "ns=shop ops=observe-keys")
	k.add(t, "blind", "ops=observe,check,read")
	w := listingWorld(t, k)
	for _, c := range []struct {
		token string
		ask   *stintv1.ListKeysRequest
		want  string // "": refused
	}{
		{"narrow", &stintv1.ListKeysRequest{}, ""},
		{"narrow", &stintv1.ListKeysRequest{Prefix: "user:"}, ""},
		{"narrow", &stintv1.ListKeysRequest{Policy: "per-ip"}, ""},
		{"narrow", &stintv1.ListKeysRequest{Policy: "login", Prefix: "user:"}, ""},
		{"narrow", &stintv1.ListKeysRequest{Policy: "per-ip", Prefix: "u"}, ""},
		{"narrow", &stintv1.ListKeysRequest{Policy: "per-ip", Prefix: "org:"}, ""},
		{"narrow", &stintv1.ListKeysRequest{Policy: "per-ip", Prefix: "user:"},
			"per-ip user:0|per-ip user:1|per-ip user:2"},
		{"narrow", &stintv1.ListKeysRequest{Policy: "per-ip", Prefix: "org:1"}, "per-ip org:1"},
		{"narrow", &stintv1.ListKeysRequest{Policy: "per-ip", Prefix: "user:1", Namespace: "shop"}, "per-ip user:1"},
		{"other", &stintv1.ListKeysRequest{}, ""},
		{"other", &stintv1.ListKeysRequest{Namespace: "shop", Policy: "login"},
			"login user:0|login user:1|login user:2"},
		{"blind", &stintv1.ListKeysRequest{}, ""},
	} {
		keys, err := listAll(t, stintv1connect.NewObserveServiceClient(withToken(k.text[c.token]), w.url), c.ask)
		if c.want == "" && connect.CodeOf(err) != connect.CodePermissionDenied ||
			c.want != "" && (err != nil || strings.Join(keys, "|") != c.want) {
			t.Errorf("%s asks %v: %q, %v", c.token, c.ask, keys, err)
		}
	}
	// Also where the shard would tell more than was asked for.
	list := w.cluster.list
	w.cluster.list = func(id shard.ID, q shard.Listing) shard.Listed { return list(id, shard.Listing{From: q.From}) }
	keys, err := listAll(t, stintv1connect.NewObserveServiceClient(withToken(k.text["narrow"]), w.url),
		&stintv1.ListKeysRequest{Policy: "per-ip", Prefix: "user:"})
	if err != nil || strings.Join(keys, "|") != "per-ip org:1|per-ip user:0|per-ip user:1|per-ip user:2" {
		t.Errorf("%q, %v", keys, err)
	}
}

// Hashes are of no use in a list of keys.
func TestHashedKeysAreNotListed(t *testing.T) {
	w := newHashingWorld(t)
	if code, _, body := w.post("ObserveService/ListKeys", `{"namespace":"shop"}`); code != 400 ||
		!strings.Contains(body, "hashes its keys") {
		t.Errorf("%d %s", code, body)
	}
	if len(w.cluster.listings) > 0 {
		t.Errorf("asked %q", w.cluster.listings)
	}
}
