package node

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-io/stint/api"
	"github.com/stint-io/stint/internal/notify"
	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard"
)

const meteredPolicy = `policies:
  plan:
    notify: [invoices, money]
    limits: [{name: day, quota: 1000, calendar: {unit: day}}]
    meter: {name: calls, calendar: {unit: day}, grace: 15m}
`

// pushedBill is a bill as receivers read it.
type pushedBill struct {
	ID, Policy, Key, Start, End, State string
	Units, Credits, Revision           uint64 `json:",string"`
	Corrections                        int64  `json:",string"`
	Recovered                          bool
}

// invoices is a receiver of bills.
type invoices struct {
	*httptest.Server
	mu    sync.Mutex
	bills map[string]pushedBill // by id
	texts map[string]string     // as they came
	times map[string]int
	forms []map[string]string // of Stripe
	down  bool
	// answer is the status of an answer, by the form of Stripe; what has another one than 200 is not taken. nil: 200.
	answer func(form map[string]string) int
}

func newInvoices(t *testing.T) *invoices {
	t.Helper()
	v := &invoices{bills: map[string]pushedBill{}, texts: map[string]string{}, times: map[string]int{}}
	v.Server = newServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v.mu.Lock()
		defer v.mu.Unlock()
		if v.down {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		if r.URL.Path == "/v1/billing/meter_events" {
			r.ParseForm()
			form := map[string]string{"authorization": r.Header.Get("Authorization")}
			for name := range r.PostForm {
				form[name] = r.PostForm.Get(name)
			}
			if v.answers(w, form) {
				v.forms = append(v.forms, form)
			}
			return
		}
		if !v.answers(w, nil) {
			return
		}
		var e struct {
			Type string
			Data struct{ Records []json.RawMessage }
		}
		if err := json.NewDecoder(r.Body).Decode(&e); err != nil || e.Type != "usage.final" {
			t.Errorf("%v: %s", err, e.Type)
		}
		for _, text := range e.Data.Records {
			var bill pushedBill
			if err := json.Unmarshal(text, &bill); err != nil {
				t.Error(err)
			}
			v.bills[bill.ID], v.texts[bill.ID] = bill, string(text)
			v.times[bill.ID]++
		}
	}))
	v.Start()
	t.Cleanup(v.Close)
	return v
}

// answers answers, and reports whether what came is taken.
func (v *invoices) answers(w http.ResponseWriter, form map[string]string) bool {
	if v.answer == nil {
		return true
	}
	status := v.answer(form)
	w.WriteHeader(status)
	return status == http.StatusOK
}

func (v *invoices) setAnswer(answer func(form map[string]string) int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.answer = answer
}

func (v *invoices) setDown(down bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.down = down
}

func (v *invoices) count() (bills, forms int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.bills), len(v.forms)
}

// Bills are pushed when they are final, once, also after a restart, to a webhook and to Stripe.
func TestBillsArePushedWhenTheyAreFinal(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		v := newInvoices(t)
		t.Cleanup(func() { // when the node has stopped
			for id, times := range v.times {
				if times != 1 {
					t.Errorf("%s came %d times", id, times)
				}
			}
		})
		n, clock := meteredNode(t)
		sendBillsTo(t, n,
			notify.Sink{Name: "invoices", Kind: notify.Webhook, URL: v.URL + "/bills"},
			notify.Sink{Name: "money", Kind: notify.Stripe, URL: v.URL + "/v1/billing/meter_events",
				Prefix: "customer:", Secrets: []notify.Secret{{Key: []byte("sk_test_1")}}})
		const keys = 100
		for i := range keys {
			for range 1 + i%3 {
				if r := ask(n, shard.Check, "plan", fmt.Sprint("customer:cus_", i)); r.Err != nil {
					t.Fatal(r.Err)
				}
			}
		}
		ask(n, shard.Check, "plan", "a key that is no customer")
		if r := n.router.Decide(t.Context(), []shard.Request{{Op: shard.CorrectUsage, Namespace: shard.DefaultNamespace,
			Entries:    []shard.Entry{{Policy: "plan", Key: "customer:cus_7", Cost: 1}},
			System:     &shard.SystemTerms{Correction: &shard.Correction{}},
			Adjustment: &shard.Adjustment{Amount: 5, Note: "by hand"}}})[0]; r.Err != nil {
			t.Fatal(r.Err)
		}
		v.setDown(true)
		endDay(t, clock)
		await.Until(t, "the sinks fail", func() bool {
			all, err := n.sinkAdmin.Statuses(t.Context())
			return err == nil && len(all) == 2 && all[0].Failing != "" && all[1].Failing != ""
		})
		v.setDown(false)
		await.Until(t, "all bills are pushed", func() bool {
			bills, forms := v.count()
			return bills == keys+1 && forms == keys
		})
		v.mu.Lock()
		ledger, err := n.documents.ledger(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for id, bill := range v.bills {
			var i int
			fmt.Sscanf(bill.Key, "customer:cus_%d", &i)
			start, wrong := time.Parse(time.RFC3339, bill.Start)
			u := shard.Usage{Namespace: shard.DefaultNamespace, Policy: "plan", Meter: "calls", Key: bill.Key}
			u.Start = limit.Time(start.UnixMicro())
			corrections := int64(0)
			if bill.Key == "customer:cus_7" {
				corrections = 5
			}
			if bill.Corrections != corrections || bill.Units != uint64(1+i%3) || bill.State != "USAGE_STATE_FINAL" ||
				bill.Credits != 0 || wrong != nil || id != api.UsageID(ledger, &u) || v.times[id] != 1 {
				t.Errorf("%d times: %+v", v.times[id], bill)
			}
		}
		listed := listedBills(t, n)
		if len(listed) != keys+1 {
			t.Errorf("%d bills are listed", len(listed))
		}
		for id, text := range listed {
			if v.texts[id] != text {
				t.Errorf("a bill is pushed as %s, and listed as %s", v.texts[id], text)
			}
		}
		identifiers := map[string]bool{}
		for _, form := range v.forms {
			bill := v.bills[form["identifier"]]
			if identifiers[form["identifier"]] || form["event_name"] != "calls" ||
				"customer:"+form["payload[stripe_customer_id]"] != bill.Key ||
				form["payload[value]"] != fmt.Sprint(int64(bill.Units)+bill.Corrections) ||
				form["authorization"] != "Bearer sk_test_1" || !strings.HasSuffix(bill.End, "00:00Z") ||
				form["timestamp"] == "" {
				t.Errorf("%v of %+v", form, bill)
			}
			identifiers[form["identifier"]] = true
		}
		v.mu.Unlock()
		for range 3 {
			ask(n, shard.Check, "plan", "customer:late")
		}
		endDay(t, clock)
		await.Until(t, "the next day is pushed, and nothing of the day before", func() bool {
			bills, forms := v.count()
			return bills == keys+2 && forms == keys+1
		})
	})
}

// listedBills are the bills of a node as the API writes them, without white space, by id.
func listedBills(t *testing.T, n *Node) map[string]string {
	t.Helper()
	var page struct{ Records []json.RawMessage }
	if err := json.Unmarshal([]byte(callAPI(t, n, "ObserveService/ListUsage", `{}`)), &page); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, text := range page.Records {
		var bill pushedBill
		var line bytes.Buffer
		if err := cmp.Or(json.Unmarshal(text, &bill), json.Compact(&line, text)); err != nil {
			t.Fatal(err)
		}
		all[bill.ID] = line.String()
	}
	return all
}

// Bills that a sink is not sent are listed with it, each once, also by the next owner of their shards, until somebody
// enables it.
func TestSkippedBillsAreListedWithTheirSink(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		n, clock := meteredNode(t)
		sendBillsTo(t, n, notify.Sink{Name: "money", Kind: notify.Stripe, URL: "http://127.0.0.1:1",
			Prefix: "customer:", Secrets: []notify.Secret{{Key: []byte("sk_test_1")}}})
		const most = 30
		skip := func(keys int) {
			for i := range keys {
				ask(n, shard.Check, "plan", fmt.Sprint("no customer ", i))
			}
			endDay(t, clock)
		}
		listed := func() (bills uint64, newest []shard.SkippedBill) {
			all, err := n.sinkAdmin.Statuses(t.Context())
			if err != nil || len(all) != 1 {
				t.Fatal(err, all)
			}
			return all[0].Skipped.Bills, all[0].Skipped.Newest
		}
		skip(most)
		await.Until(t, "the skipped bills are listed", func() bool { bills, _ := listed(); return bills == most })
		_, newest := listed()
		known := listedBills(t, n)
		for _, bill := range newest {
			if known[bill.ID] == "" || !strings.Contains(bill.Why, "prefix") {
				t.Errorf("%+v is no bill", bill)
			}
		}
		if len(newest) != shard.SkippedNewest {
			t.Errorf("%d are named", len(newest))
		}
		owner := newOwner(n)
		owner.round(t.Context())
		if next := owner.skippedBills()["money"]; next.Bills != most || len(next.Newest) != shard.SkippedNewest {
			t.Errorf("the next owner knows %+v", next)
		}
		skip(1)
		await.Until(t, "those of the next day come to them", func() bool {
			bills, _ := listed()
			return bills == most+1
		})
		if err := n.sinkAdmin.SetEnabled(t.Context(), "money", true, "jo"); err != nil {
			t.Fatal(err)
		}
		if _, err := clock.Advance(t.Context(), pushSinksEvery); err != nil {
			t.Fatal(err)
		}
		await.Until(t, "who enables the sink has seen them", func() bool { bills, _ := listed(); return bills == 0 })
		skip(1)
		await.Until(t, "the list begins anew", func() bool { bills, _ := listed(); return bills == 1 })
	})
}

// A position has room in its record, whatever the reasons are.
func TestAPositionNamesAsManySkippedBillsAsFit(t *testing.T) {
	at := shard.PushPosition{Done: 7}
	left := leftOut{&shard.Usage{}, strings.Repeat("<", 150)}
	skipBills(&at, &notify.Sink{}, "ledger", 1, slices.Repeat([]leftOut{left}, 20))
	text, err := at.Encode()
	var read shard.PushPosition
	if wrong := json.Unmarshal(text, &read); err != nil || wrong != nil || len(text) > shard.PushPositionMost ||
		read.Skipped.Bills != 20 || len(read.Skipped.Newest) == 0 || len(at.Skipped.Newest) != shard.SkippedNewest {
		t.Errorf("%d bytes, %v, %v: %s", len(text), err, wrong, text)
	}
}
