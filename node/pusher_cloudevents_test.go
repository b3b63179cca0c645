package node

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/notify"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// usageEvent is a CloudEvent as a receiver reads it.
type usageEvent struct {
	SpecVersion, ID, Source, Type, Subject, Time string
	Data                                         struct {
		Value  json.Number
		Record pushedBill
	}
}

// openMeter answers as OpenMeter does: 204 once it has all events of a batch, 400 if it can't read one of them, and
// then it has none.
type openMeter struct {
	*httptest.Server
	t *testing.T

	mu       sync.Mutex
	token    string
	events   map[string]usageEvent // by source and id: it counts each once
	again    int                   // events that it had
	requests int
	answer   int // 0: as it does; 503: it has the events nevertheless; others: it has not
}

func newOpenMeter(t *testing.T) *openMeter {
	t.Helper()
	m := &openMeter{t: t, token: "om_test_1", events: map[string]usageEvent{}}
	m.Server = newServer(t, http.HandlerFunc(m.serve))
	m.Start()
	t.Cleanup(m.Close)
	return m
}

func (m *openMeter) serve(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.requests++
	bearer := ""
	if m.token != "" {
		bearer = "Bearer " + m.token
	}
	if r.Method != "POST" || r.URL.Path != "/api/v1/events" ||
		r.Header.Get("Content-Type") != "application/cloudevents-batch+json" ||
		r.Header.Get("Authorization") != bearer || r.Header.Get("Webhook-Signature") != "" {
		m.t.Errorf("%s %s with %v", r.Method, r.URL, r.Header)
	}
	var all []usageEvent
	if err := json.NewDecoder(r.Body).Decode(&all); err != nil || len(all) == 0 {
		m.t.Errorf("%d events: %v", len(all), err)
	}
	status := m.answer
	if status != 0 && status != http.StatusServiceUnavailable {
		w.WriteHeader(status)
		return
	}
	for _, e := range all {
		if _, err := time.Parse(time.RFC3339, e.Time); err != nil || e.SpecVersion != "1.0" || e.ID == "" ||
			e.Source == "" || e.Type == "" || e.Subject == "" {
			m.t.Errorf("%v: no CloudEvent: %+v", err, e)
		}
		if strings.HasPrefix(e.Subject, "refused") {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
	}
	for _, e := range all {
		name := e.Source + " " + e.ID
		if _, known := m.events[name]; known {
			m.again++
			continue
		}
		m.events[name] = e
	}
	w.WriteHeader(max(status, http.StatusNoContent))
}

func (m *openMeter) setAnswer(answer int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.answer = answer
}

// count is how many events it has, how many it got again, and in how many requests.
func (m *openMeter) count() (events, again, requests int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.events), m.again, m.requests
}

func (m *openMeter) sink() notify.Sink {
	return notify.Sink{Name: "invoices", Kind: notify.CloudEvents, URL: m.URL + "/api/v1/events", Prefix: "customer:",
		Secrets: []notify.Secret{{Key: []byte(m.token)}}}
}

// Each bill is an event that counts once, also if OpenMeter is down, or has the events of a batch that it answers with
// 503. What it refuses keeps none of the others.
func TestOpenMeterCountsEachBillOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		m := newOpenMeter(t)
		n, clock := meteredNode(t)
		sendNoBillsTo(n, "invoices")
		sendBillsTo(t, n, m.sink())
		const keys = 300
		units := map[string]int{}
		for i := range keys {
			key := fmt.Sprint("customer:", i)
			units[key] = 1 + i%3
			for range units[key] {
				if r := ask(n, shard.Check, "plan", key); r.Err != nil {
					t.Fatal(r.Err)
				}
			}
		}
		for _, key := range []string{"customer:refused", "customer:refused too", "no customer"} {
			ask(n, shard.Check, "plan", key)
		}
		endDay(t, clock)
		var log bytes.Buffer
		owner := func() *pusher {
			p := newOwner(n)
			p.logger = slog.New(slog.NewTextHandler(&log, nil))
			return p
		}
		m.setAnswer(http.StatusInternalServerError)
		owner().round(t.Context())
		if events, _, _ := m.count(); events != 0 || strings.Contains(log.String(), "enter it by hand") {
			t.Errorf("while it is down: %d events; %s", events, log.String())
		}
		m.setAnswer(http.StatusServiceUnavailable) // and it has them
		owner().round(t.Context())
		m.setAnswer(0)
		owner().round(t.Context())
		events, again, before := m.count()
		if events != keys || again == 0 {
			t.Errorf("%d events of %d bills; %d came again after they were answered with 503", events, keys, again)
		}
		m.mu.Lock()
		for name, e := range m.events {
			end, err := time.Parse(time.RFC3339, e.Data.Record.End)
			at, wrong := time.Parse(time.RFC3339, e.Time)
			if e.Data.Value.String() != fmt.Sprint(units[e.Data.Record.Key]) ||
				"customer:"+e.Subject != e.Data.Record.Key || e.Type != "calls" || e.Data.Record.Policy != "plan" ||
				err != nil || wrong != nil || end.Sub(at) != time.Second || !strings.HasPrefix(name, "stint use_") {
				t.Errorf("%s: %+v", name, e)
			}
		}
		m.mu.Unlock()
		if left := strings.Count(log.String(), "enter it by hand"); left != 3 {
			t.Errorf("%d bills are told as left out, want 3: %s", left, log.String())
		}
		owner().round(t.Context())
		if _, _, requests := m.count(); requests != before {
			t.Error("all is pushed, and it goes on")
		}
	})
}

// A receiver of CloudEvents that answers 410 gets no more of them.
func TestAReceiverOfCloudEventsThatWantsNothingIsDisabled(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		m := newOpenMeter(t)
		m.setAnswer(http.StatusGone)
		n, clock := meteredNode(t)
		sendNoBillsTo(n, "invoices")
		sendBillsTo(t, n, m.sink())
		ask(n, shard.Check, "plan", "customer:acme")
		endDay(t, clock)
		newOwner(n).round(t.Context())
		newOwner(n).round(t.Context())
		all, err := n.sinkAdmin.Sinks(t.Context())
		if _, _, requests := m.count(); err != nil || all[0].Disabled == nil ||
			!strings.Contains(all[0].Disabled.Why, "410") || requests != 1 {
			t.Errorf("after %d requests: %v: %+v", requests, err, all)
		}
	})
}

// Money back is an event of less than 0, nothing is none, and what is too long for one message goes in several.
func TestCloudEventsSayWhatABillComesTo(t *testing.T) {
	m := newOpenMeter(t)
	poster := notify.NewPoster(notify.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}})
	p := &pusher{sinkSender: sinkSender{ledger: "ledger", poster: poster}, set: &policy.Set{}}
	defer p.poster.Close()
	var bills []shard.Usage
	add := func(key string, units, credits uint64, recovered bool) {
		u := shard.Usage{Meter: "calls", Key: "customer:" + key}
		u.Units, u.Credits, u.Recovered, u.End = units, credits, recovered, limit.Time(86400e6)
		bills = append(bills, u)
	}
	add("less", 2, 7, false)
	add("none", 3, 3, false)
	add("recovered", 3, 0, true)
	add("corrected", 3, 4, false)
	bills[len(bills)-1].Corrections = 10
	add("most", 1<<62, 0, false)
	const long = 60
	for i := range long {
		add(fmt.Sprintf("%01000d", i), 1, 0, false)
	}
	s := m.sink()
	o, left := p.sendCloudEvents(t.Context(), &s, bills)
	m.mu.Lock()
	values := map[string]string{}
	for _, e := range m.events {
		values[e.Subject] = e.Data.Value.String()
	}
	if o.End != notify.Delivered || len(left) != 1 || left[0].Key != "customer:recovered" || len(values) != 3+long ||
		m.again != 0 {
		t.Errorf("%+v; left out: %v; %d events, %d again", o, left, len(values), m.again)
	}
	if values["less"] != "-5" || values["corrected"] != "9" || values["most"] != "4611686018427387904" {
		t.Errorf("%s, %s and %s", values["less"], values["corrected"], values["most"])
	}
	m.token, s.Secrets = "", nil
	m.mu.Unlock()
	o, _ = p.sendCloudEvents(t.Context(), &s, bills[:1])
	m.mu.Lock()
	defer m.mu.Unlock()
	if o.End != notify.Delivered || m.again != 1 {
		t.Errorf("without a token: %+v", o)
	}
}
