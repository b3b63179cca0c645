package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

// listed is the answer of ListUsage as JSON has it.
type listed struct {
	Records []struct {
		ID, Policy, Meter, Key, Start, End, State, Units, Credits, Corrections, Revision string
		Recovered                                                                        bool
	}
	NextPageToken, CompleteThrough string
	Unreadable                     []struct{ Policy, Key string }
}

func (w *world) listUsage(body string) (l listed) {
	w.t.Helper()
	status, _, text := w.post("ObserveService/ListUsage", body)
	if err := json.Unmarshal([]byte(text), &l); err != nil || status != 200 {
		w.t.Fatalf("%d %s: %v", status, text, err)
	}
	return l
}

// pagesOf answers ReadUsage on three shards: each has two pages, of one key each, and is a second behind the shard
// before it.
func pagesOf(seconds limit.Time) func(shard.Request) shard.Result {
	return func(r shard.Request) shard.Result {
		id := r.Shard
		page := shard.UsagePage{Through: (seconds - limit.Time(id)) * 1e6,
			Next: shard.UsagePlace{Place: 1 << 40, After: "k\xff"}}
		if *r.System.Usage != (shard.UsageQuery{}) {
			page.Next = shard.UsagePlace{}
		}
		page.Periods = []shard.Usage{{Namespace: r.Namespace, Policy: "plan", Meter: "calls",
			Key: fmt.Sprintf("key%d%t", id, page.Next.Place == 0), Start: 60e6, End: 120e6, Final: 180e6, Units: 7,
			Credits: 2, Corrections: -3, Revision: 9, Recovered: id == 1}}
		return shard.Result{Decision: shard.Decision{System: &shard.SystemAnswer{Usage: &page}}}
	}
}

// A listing names the keys that it cannot read, and has all others.
func TestListUsageNamesWhatCannotBeRead(t *testing.T) {
	w := newWorld(t)
	pages := pagesOf(121)
	w.decider.decide = func(r shard.Request) shard.Result {
		result := pages(r)
		page, err := shard.UsageOf(r.Namespace, &result.Decision)
		if err != nil {
			t.Fatal(err)
		}
		if page.Next == (shard.UsagePlace{}) {
			page.Unreadable = []shard.Usage{{Policy: "plan", Key: "bad"}}
		}
		return shard.Result{Decision: shard.Decision{System: &shard.SystemAnswer{Usage: &page}}}
	}
	l := w.listUsage(`{}`)
	if len(l.Records) != 6 || len(l.Unreadable) != 3 || l.Unreadable[0].Key != "bad" {
		t.Errorf("%+v", l)
	}
}

// slotsOf are the slots that a shard of three has when nothing has moved, without those that left.
func slotsOf(id shard.ID, left ...slot.ID) *slot.Set {
	set, even := new(slot.Set), slot.Even(3)
	for at := range even {
		if shard.ID(even[at]) == id && !slices.Contains(left, slot.ID(at)) {
			set.Add(slot.ID(at))
		}
	}
	return set
}

// A slot moves from a shard that is still to be read to one that was read before: the listing has not met it, and says
// so. A key of such a slot has no bill here either.
func TestListUsageMissesNoSlot(t *testing.T) {
	w := newWorld(t)
	pages := pagesOf(121)
	var moved []slot.ID
	w.decider.decide = func(r shard.Request) shard.Result {
		result := pages(r)
		result.Decision.System.Slots = slotsOf(r.Shard)
		if q := r.System.Usage; r.Shard == 2 && (q.From != (shard.UsagePlace{}) || q.Key != "") {
			result.Decision.System.Slots = slotsOf(r.Shard, moved...)
		}
		return result
	}
	if l := w.listUsage(`{}`); len(l.Records) != 6 {
		t.Errorf("nothing moves: %+v", l)
	}
	begun := w.listUsage(`{"pageSize":5}`)
	key := "ann"
	for i := 0; shard.Of(slot.Even(3), "default", key) != 2; i++ {
		key = fmt.Sprint("ann", i)
	}
	moved = append(moved, slot.Of("default", key))
	for _, body := range []string{`{}`, fmt.Sprintf(`{"pageToken":%q}`, begun.NextPageToken),
		fmt.Sprintf(`{"key":%q}`, key)} {
		if status, _, text := w.post("ObserveService/ListUsage", body); status != 503 ||
			!strings.Contains(text, "slots are moving") {
			t.Errorf("%s: %d %s", body, status, text)
		}
	}
}

func TestListUsageGoesThroughAllShards(t *testing.T) {
	w := newWorld(t)
	for seconds, state := range map[limit.Time]string{121: "OPEN", 122: "CLOSED", 182: "FINAL"} {
		w.decider.decide = pagesOf(seconds)
		met, through := map[string]string{}, ""
		for token := ""; ; {
			l := w.listUsage(fmt.Sprintf(`{"pageSize":2,"pageToken":%q}`, token))
			for _, r := range l.Records {
				if met[r.ID] != "" || !strings.HasPrefix(r.ID, "use_") || r.Units != "7" || r.Credits != "2" ||
					r.Corrections != "-3" || r.Revision != "9" {
					t.Errorf("%+v", r)
				}
				met[r.ID] = r.Key
				if r.Key == "key2true" && r.State != "USAGE_STATE_"+state {
					t.Errorf("at %d it is %s", seconds-2, r.State)
				}
			}
			through = l.CompleteThrough
			if token = l.NextPageToken; token == "" {
				break
			}
		}
		want := []string{"key0false", "key0true", "key1false", "key1true", "key2false", "key2true"}
		if got := slices.Sorted(maps.Values(met)); !slices.Equal(got, want) {
			t.Errorf("listed are %q", got)
		}
		if want := timestampOf((seconds - 2) * 1e6).AsTime().Format("2006-01-02T15:04:05Z"); through != want {
			t.Errorf("complete through %s, and the slowest shard is at %s", through, want)
		}
	}
	one := w.listUsage(`{"key":"ann"}`)
	if len(one.Records) != 1 || one.NextPageToken != "" {
		t.Errorf("of one key: %+v", one)
	}
}

// TestAnIDOfUsageIsForEver: receivers know a period by it, so these never change.
func TestAnIDOfUsageIsForEver(t *testing.T) {
	u := shard.Usage{Namespace: "default", Policy: "plan", Meter: "calls", Key: "ann",
		Start: 1_767_571_200_000_000, Units: 5}
	const want = "use_de640371ad1350aa2160cb2f4374b26a"
	if got := UsageID("ledger", &u); got != want {
		t.Errorf("%s, and it was %s", got, want)
	}
	same := u
	same.Units, same.End, same.Revision, same.Recovered = 6, 1, 2, true
	if UsageID("ledger", &same) != want {
		t.Error("another count has another id")
	}
	ids := map[string]bool{want: true, UsageID("other", &u): true}
	for _, change := range []func(*shard.Usage){
		func(u *shard.Usage) { u.Namespace = "other" }, func(u *shard.Usage) { u.Policy = "other" },
		func(u *shard.Usage) { u.Meter = "other" }, func(u *shard.Usage) { u.Key = "other" },
		func(u *shard.Usage) { u.Start++ }, func(u *shard.Usage) { u.Policy, u.Meter = "planc", "alls" },
	} {
		other := u
		change(&other)
		ids[UsageID("ledger", &other)] = true
	}
	if len(ids) != 8 {
		t.Errorf("%d ids of 8 periods", len(ids))
	}
}

func TestAWrongListUsageIsRefused(t *testing.T) {
	w := newWorld(t)
	for body, want := range map[string]string{
		`{"pageToken":"1-9-0-1-"}`:    "page_token: is none",
		`{"pageToken":"1-0-0-1 x"}`:   "page_token: is none",
		`{"pageToken":"1-0-0-1-0"}`:   "page_token: is none",
		`{"period":"2026-13"}`:        "period: must be",
		`{"period":"october"}`:        "period: must be",
		`{"policy":"a b"}`:            "policy: is no name",
		`{"key":"a\tb"}`:              "key: has the control character",
		`{"pageSize":10001}`:          "page_size: is 10001",
		`{"namespace":"no such one"}`: "namespace: ",
	} {
		if status, _, text := w.post("ObserveService/ListUsage", body); status != 400 || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s", body, status, text)
		}
	}
}

// TestUsageNeedsAGrantOfWhatIsListed: bills are for callers that may see the usage of that namespace.
func TestUsageNeedsAGrantOfWhatIsListed(t *testing.T) {
	k := newTokens()
	k.add(t, "finance", "ns=shop ops=usage")
	k.add(t, "checker", "ns=shop ops=check,settle,read,observe-keys")
	w := newGuardedWorld(t, k.guard)
	for _, c := range []struct {
		token, namespace string
		allowed          bool
	}{{"finance", "shop", true}, {"finance", "office", false}, {"checker", "shop", false}} {
		_, err := stintv1connect.NewObserveServiceClient(withToken(k.text[c.token]), w.url).ListUsage(t.Context(),
			connect.NewRequest(&stintv1.ListUsageRequest{Namespace: c.namespace}))
		if refused := connect.CodeOf(err) == connect.CodePermissionDenied; err != nil && !refused ||
			refused == c.allowed {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// A period that began in an earlier time zone of its meter is not shown in the present one.
func TestABillHasTheZoneInWhichItsPeriodBegan(t *testing.T) {
	policies, err := policy.Parse("policies.yaml", []byte(`policies:
  exports:
    limits: [{name: all, unlimited: {}}]
    meter: {name: rows, calendar: {unit: month, time_zone: America/New_York}}
`))
	if err != nil {
		t.Fatal(err)
	}
	for start, want := range map[string]string{"2026-03-01T05:00:00Z": "America/New_York", "2026-03-01T00:00:00Z": ""} {
		at, err := time.Parse(time.RFC3339, start)
		if err != nil {
			t.Fatal(err)
		}
		u := &shard.Usage{Policy: "exports", Meter: "rows", Start: limit.Time(at.UnixMicro())}
		if m := usageMessage("ledger", u, "", u.Start, policies); m.TimeZone != want {
			t.Errorf("a period since %s is told in the zone %q", start, m.TimeZone)
		}
	}
}
