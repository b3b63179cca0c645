package api

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/notify"
	"github.com/stint-io/stint/shard"
)

// fakeSinks notes what it was asked to do.
type fakeSinks struct {
	all  []SinkStatus
	done []string
	made notify.Sink
	err  error
}

var _ SinkAdmin = (*fakeSinks)(nil)

func (f *fakeSinks) Create(_ context.Context, s notify.Sink, who string) (string, error) {
	f.done, f.made = append(f.done, "create "+s.Name+" by "+who), s
	return "whsec_shown", f.err
}

func (f *fakeSinks) Statuses(context.Context) ([]SinkStatus, error) { return f.all, f.err }

func (f *fakeSinks) Rotate(_ context.Context, name, apiKey string, overlap time.Duration, who string) (string, error) {
	f.done = append(f.done, "rotate "+name+" "+apiKey+overlap.String()+" by "+who)
	return "whsec_next", f.err
}

func (f *fakeSinks) SetEnabled(_ context.Context, name string, enabled bool, who string) error {
	verb := map[bool]string{true: "enable ", false: "disable "}[enabled]
	f.done = append(f.done, verb+name+" by "+who)
	return f.err
}

func (f *fakeSinks) Delete(_ context.Context, name, who string) error {
	f.done = append(f.done, "delete "+name+" by "+who)
	return f.err
}

func TestSinksAreMadeListedAndChanged(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct{ call, body, answer, done string }{
		{"Create", `{"name":"billing","kind":"webhook","url":"https://example.com/x","events":["threshold",` +
			`"spike","spike"]}`,
			`{"secret":"whsec_shown"}`, "create billing by 127.0.0.1"},
		{"Rotate", `{"name":"billing","overlap":"3600s"}`, `{"secret":"whsec_next"}`,
			"rotate billing 1h0m0s by 127.0.0.1"},
		{"Enable", `{"name":"billing"}`, `{}`, "enable billing by 127.0.0.1"},
		{"Disable", `{"name":"billing"}`, `{}`, "disable billing by 127.0.0.1"},
		{"Delete", `{"name":"billing"}`, `{}`, "delete billing by 127.0.0.1"},
	} {
		w.sinks.done = nil
		code, _, answer := w.post("SinkService/"+c.call, c.body)
		if code != 200 || strings.ReplaceAll(answer, " ", "") != c.answer || strings.Join(w.sinks.done, ",") != c.done {
			t.Errorf("%s: %d %s, done %q", c.call, code, answer, w.sinks.done)
		}
	}
	if strings.Join(w.sinks.made.Events, ",") != "spike,threshold" {
		t.Errorf("events: %v", w.sinks.made.Events)
	}
	for field, body := range map[string]string{
		"name":    `{"name":"a b","kind":"webhook","url":"https://example.com","events":["spike"]}`,
		"kind":    `{"name":"a","kind":"mail","url":"https://example.com","events":["spike"]}`,
		"url":     `{"name":"a","kind":"webhook","url":"example.com","events":["spike"]}`,
		"events":  `{"name":"a","kind":"webhook","url":"https://example.com"}`,
		"api_key": `{"name":"a","kind":"webhook","url":"https://example.com","events":["spike"],"apiKey":"sk_x"}`,
	} {
		if code, _, answer := w.post("SinkService/Create", body); code != 400 || !strings.Contains(answer, field) {
			t.Errorf("%s: %d %s", field, code, answer)
		}
	}
	if code, _, answer := w.post("SinkService/Create", `{"name":"s","kind":"stripe","events":["usage"],`+
		`"apiKey":"sk_x"}`); code != 200 ||
		w.sinks.made.URL != stripeURL || string(w.sinks.made.Secrets[0].Key) != "sk_x" {
		t.Errorf("stripe: %d %s, %v", code, answer, w.sinks.made.URL)
	}
	if code, _, _ := w.post("SinkService/Rotate", `{"name":"billing","overlap":"-1s"}`); code != 400 {
		t.Errorf("an overlap below 0: %d", code)
	}
}

func TestAListOfSinksHasNoSecrets(t *testing.T) {
	w := newWorld(t)
	secret := notify.Secret{Key: []byte("a secret of 24 bytes ...")}
	skipped := shard.SkippedBills{Bills: 2, Newest: []shard.SkippedBill{{ID: "use_1", Why: "money"}}}
	w.sinks.all = []SinkStatus{{Failing: "it answered 500", Skipped: skipped,
		Sink: notify.Sink{Name: "billing", Kind: notify.Webhook, URL: "https://example.com",
			Events: []string{"spike"}, Secrets: []notify.Secret{secret, {Key: secret.Key, Ends: 1_700_000_000_000_000}},
			Created: 1_600_000_000_000_000, Creator: "jo",
			Disabled: &notify.Disabled{At: 1_600_000_001_000_000, Why: "by jo"}}}}
	code, _, answer := w.post("SinkService/List", `{}`)
	want := `{"sinks":[{"name":"billing","kind":"webhook","url":"https://example.com","events":["spike"],"prefix":"",` +
		`"createdAt":"2020-09-13T12:26:40Z",` +
		`"creator":"jo","formerUntil":"2023-11-14T22:13:20Z","disabledAt":"2020-09-13T12:26:41Z",` +
		`"disabledWhy":"byjo","failing":"itanswered500","skippedBills":"2",` +
		`"skippedNewest":[{"id":"use_1","why":"money"}]}]}`
	if got := strings.ReplaceAll(answer, " ", ""); code != 200 || got != want {
		t.Errorf("%d %s", code, got)
	}
}

func TestSinksWantTheirOwnGrant(t *testing.T) {
	k := newTokens()
	k.add(t, "all but sinks", "ops=cluster,policies,observe,backup,tokens", "ops=check,read,adjust,observe-keys,usage")
	k.add(t, "sinks", "ops=sinks")
	w := newGuardedWorld(t, k.guard)
	w.shards = 0 // "none" would be a guess
	for name, want := range map[string]int{"all but sinks": 403, "sinks": 200} {
		client := &http.Client{Transport: bearer(k.text[name])}
		for _, call := range []string{"List", "Delete", "Rotate", "Enable", "Disable", "ListEvents", "ReplayEvents"} {
			answer, err := client.Post(w.url+"/stint.v1.SinkService/"+call, "application/json", strings.NewReader(`{}`))
			if err != nil {
				t.Fatal(err)
			}
			answer.Body.Close()
			expected := want
			if want == 200 && strings.HasSuffix(call, "Events") {
				expected = 503
			}
			if answer.StatusCode != expected {
				t.Errorf("%s: %s: %d, want %d", name, call, answer.StatusCode, expected)
			}
		}
	}
}

const eventPolicies = `policies:
  plan:
    notify: [billing]
    limits: [{name: month, quota: 2, calendar: {unit: month}, thresholds: [50%]}]
`

// newEventWorld makes a world of one shard with three events.
func newEventWorld(t *testing.T, w *world) *oneShard {
	t.Helper()
	s := newEnvoyWorldOf(t, w, eventPolicies)
	w.shards = 1
	for i := range 3 {
		check := shard.Request{Op: shard.Check, Namespace: shard.DefaultNamespace,
			Entries: []shard.Entry{{Policy: "plan", Key: fmt.Sprint("key ", i), Cost: 1}}}
		if r := s.Decide(t.Context(), []shard.Request{check})[0]; r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	return s
}

func TestEventsAreListedAndReplayed(t *testing.T) {
	w := newWorld(t)
	s := newEventWorld(t, w)
	w.sinks.all = []SinkStatus{{Failing: "it answered 500", Sink: notify.Sink{Name: "billing"}}}
	_, _, answer := w.post("SinkService/ListEvents", `{"sink":"billing"}`)
	for _, want := range []string{`"id":"evt_`, `"state":"waiting"`, `"sink":"billing"`, `"kind":"threshold"`,
		`"key":"key 2"`, `"why":"it answered 500"`, `"limit":"month"`} {
		if !strings.Contains(strings.ReplaceAll(answer, `": "`, `":"`), want) {
			t.Errorf("%s is missing: %s", want, answer)
		}
	}
	if n := strings.Count(answer, `"evt_`); n != 3 {
		t.Errorf("%d events: %s", n, answer)
	}
	if _, _, answer := w.post("SinkService/ListEvents", `{"count":2}`); strings.Count(answer, `"evt_`) != 2 ||
		!strings.Contains(answer, "more") {
		t.Errorf("two of them: %s", answer)
	}
	if _, _, answer := w.post("SinkService/ListEvents", `{"sink":"other"}`); strings.Contains(answer, "evt_") {
		t.Errorf("of another sink: %s", answer)
	}
	for _, body := range []string{`{"count":-1}`, `{"count":1001}`, `{"state":"lost"}`} {
		if code, _, answer := w.post("SinkService/ListEvents", body); code != 400 {
			t.Errorf("%s: %d %s", body, code, answer)
		}
	}
	page, err := shard.ReadEvents(s.state, shard.EventsQuery{})
	if err != nil {
		t.Fatal(err)
	}
	var places []shard.EventPlace
	for _, e := range page.Events {
		places = append(places, e.Place())
	}
	s.Decide(t.Context(), []shard.Request{shard.GiveUpRequest(0, "billing", places, "it answered 404")})
	if _, _, answer = w.post("SinkService/ListEvents", `{"state":"dead"}`); strings.Count(answer, `"evt_`) != 3 ||
		strings.Contains(answer, "500") || strings.Count(answer, `"it answered 404"`) != 3 {
		t.Errorf("dead letters: %s", answer)
	}
	id := answer[strings.Index(answer, `evt_`):][:len("evt_")+32]
	if code, _, answer := w.post("SinkService/ReplayEvents", `{"id":"`+id+`"}`); code != 200 ||
		!strings.Contains(answer, "1") {
		t.Errorf("one: %d %s", code, answer)
	}
	if code, _, answer := w.post("SinkService/ReplayEvents", `{"id":"`+id+`"}`); code != 400 ||
		!strings.Contains(answer, "no dead letter") {
		t.Errorf("one that is no dead letter: %d %s", code, answer)
	}
	if code, _, answer := w.post("SinkService/ReplayEvents", `{}`); code != 200 || !strings.Contains(answer, "2") {
		t.Errorf("the others: %d %s", code, answer)
	}
	if _, _, answer := w.post("SinkService/ListEvents", `{"state":"waiting"}`); strings.Count(answer, `"evt_`) != 3 {
		t.Errorf("afterwards: %s", answer)
	}
}
