package node

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/notify"
	"github.com/stint-io/stint/internal/observe/top"
	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/internal/testing/testcert"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard"
)

const thresholdPolicy = `policies:
  plan:
    notify: [billing]
    limits:
      - {name: month, quota: 10, calendar: {unit: month}, thresholds: [50%]}
`

// told is a receiver of events that fails in every way, and then takes each of them.
type told struct {
	*httptest.Server
	t      *testing.T
	secret []byte

	mu     sync.Mutex
	tries  map[string]int    // by id
	keys   map[string]string // by id: taken
	redone int
	fail   func(w http.ResponseWriter, r *http.Request, try int, id string) bool // reports whether it has answered
}

// newTold makes a receiver with a good certificate, except for every fifth connection.
func newTold(t *testing.T, world *SinkWorld) *told {
	t.Helper()
	r := &told{t: t, tries: map[string]int{}, keys: map[string]string{}}
	r.Server = newServer(t, http.HandlerFunc(r.serve))
	r.Config.ErrorLog = log.New(io.Discard, "", 0)
	good := testcert.New(t)
	wrong := testcert.New(t)
	certificate := func(a *testcert.Authority) tls.Certificate {
		f := a.Write(t.TempDir(), func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)} })
		c, err := tls.LoadX509KeyPair(f.Cert, f.Key)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	certificates := []tls.Certificate{certificate(good), certificate(wrong)}
	var mu sync.Mutex
	connections := 0
	r.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		mu.Lock()
		defer mu.Unlock()
		if connections++; connections%5 == 2 {
			return &tls.Config{Certificates: certificates[1:]}, nil
		}
		return &tls.Config{Certificates: certificates[:1]}, nil
	}}
	r.StartTLS()
	t.Cleanup(r.Close)
	world.Roots = good.Pool()
	world.Pace, world.Timeout = notify.Pace{Backoff: 20 * time.Millisecond, Pause: time.Millisecond},
		300*time.Millisecond
	return r
}

func (r *told) serve(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	id := q.Header.Get("webhook-id")
	mac := hmac.New(sha256.New, r.secret)
	fmt.Fprintf(mac, "%s.%s.%s", id, q.Header.Get("webhook-timestamp"), body)
	if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); err != nil ||
		!slices.Contains(strings.Fields(q.Header.Get("webhook-signature")), want) {
		r.t.Errorf("%s: the signature is wrong: %v", q.URL, err)
	}
	r.mu.Lock()
	r.tries[id]++
	try := r.tries[id]
	r.mu.Unlock()
	if r.fail != nil && r.fail(w, q, try, id) {
		return
	}
	var e struct {
		Type, ID string
		Data     struct {
			Policy, Key, Limit, Threshold string
			Units, Used, Quota            uint64
		}
	}
	if err := json.Unmarshal(body, &e); err != nil || e.Type != "threshold.reached" || e.ID != id ||
		e.Data.Policy != "plan" || e.Data.Limit != "month" || e.Data.Threshold != "50%" || e.Data.Units != 5 ||
		e.Data.Used != 5 || e.Data.Quota != 10 {
		r.t.Errorf("%v: %s", err, body)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if before, taken := r.keys[id]; taken {
		r.redone++
		if before != e.Data.Key {
			r.t.Errorf("%s is about %s and %s", id, before, e.Data.Key)
		}
	}
	r.keys[id] = e.Data.Key
}

// counted is how many events count for each key.
func (r *told) counted() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := map[string]int{}
	for _, key := range r.keys {
		all[key]++
	}
	return all
}

// failsInEveryWay fails the first tries of an event, each in another way.
func failsInEveryWay(w http.ResponseWriter, r *http.Request, try int, id string) bool {
	if try > 2 {
		return false
	}
	switch (int(id[len(id)-1]) + try) % 7 {
	case 0:
		w.WriteHeader(500)
	case 1:
		w.Header().Set("Retry-After", "0")
		w.WriteHeader(429)
	case 2:
		http.Redirect(w, r, "/elsewhere", http.StatusPermanentRedirect)
	case 3:
		panic(http.ErrAbortHandler)
	case 4:
		<-r.Context().Done() // hangs
	case 5:
		w.WriteHeader(500)
		w.(http.Flusher).Flush()
		<-r.Context().Done() // a body that never ends
	default:
		return false
	}
	return true
}

func withThresholds(t *testing.T, c *Config) {
	t.Helper()
	c.PoliciesFile = filepath.Join(t.TempDir(), "policies.yaml")
	if err := os.WriteFile(c.PoliciesFile, []byte(thresholdPolicy), 0o600); err != nil {
		t.Fatal(err)
	}
	c.SinkAllow = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
}

// sink makes the sink of the policies.
func (r *told) sink(n *Node) {
	r.t.Helper()
	r.sinkOf(n, notify.Threshold)
}

func (r *told) sinkOf(n *Node, kind string) {
	r.t.Helper()
	text, err := n.sinkAdmin.Create(r.t.Context(),
		notify.Sink{Name: "billing", Kind: notify.Webhook, URL: r.URL + "/hook", Events: []string{kind}}, "jo")
	if err != nil {
		r.t.Fatal(err)
	}
	if r.secret, err = base64.StdEncoding.DecodeString(strings.TrimPrefix(text, "whsec_")); err != nil {
		r.t.Fatal(err)
	}
}

// waiting is how many events wait, and how many are dead letters, by what the owners say.
func waiting(t *testing.T, n *Node) (waiting, dead uint64) {
	t.Helper()
	shards := n.view.shards()
	for id := range shard.ID(shards) {
		r := n.Decide(t.Context(), []shard.Request{shard.EventsRequest(id, shard.EventsQuery{})})[0]
		if r.Err != nil {
			return 1, 0 // not known yet
		}
		page, err := shard.EventsOf(&r.Decision)
		if err != nil {
			t.Fatal(err)
		}
		waiting, dead = waiting+page.Waiting, dead+page.Dead
	}
	return waiting, dead
}

// Every event arrives, whatever the receiver does and whichever node stops, and counts once by its id.
func TestEventsArriveWhileTheReceiverFailsAndOwnersChange(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := trioToBe(t)
		var world SinkWorld
		r := newTold(t, &world)
		r.fail = failsInEveryWay
		for i := range c.configs {
			withThresholds(t, &c.configs[i])
			c.configs[i].World.Sinks = world
			c.start(i)
		}
		c.ready(0, 1, 2)
		r.sink(c.nodes[0])
		const keys = 40
		next := 0
		fire := func(node, most int) {
			for ; next < most; next++ {
				for range 6 {
					if d := c.ask(node, shard.Check, "plan", fmt.Sprint("key ", next)); d.Err != nil {
						t.Fatal(d.Err)
					}
				}
			}
		}
		for i := range 3 { // each node is an owner and stops, while events wait
			fire((i+1)%3, (i+1)*keys/4)
			c.stop(i)
			c.start(i)
			c.ready(i)
		}
		fire(0, keys)
		await.Until(t, "no event waits", func() bool { n, _ := waiting(t, c.nodes[0]); return n == 0 })
		counted := r.counted()
		if _, dead := waiting(t, c.nodes[0]); dead != 0 || len(counted) != keys {
			t.Errorf("%d keys of %d have events, and there are %d dead letters", len(counted), keys, dead)
		}
		for key, n := range counted {
			if n != 1 {
				t.Errorf("%s has %d ids", key, n)
			}
		}
		t.Logf("%d events were sent again after they were taken", r.redone)
	})
}

func TestASinkThatWantsNothingIsDisabledUntilItIsEnabled(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		config := testConfig(t)
		withThresholds(t, &config)
		r := newTold(t, &config.World.Sinks)
		var mu sync.Mutex
		gone := true
		r.fail = func(w http.ResponseWriter, _ *http.Request, _ int, _ string) bool {
			mu.Lock()
			defer mu.Unlock()
			if gone {
				w.WriteHeader(http.StatusGone)
			}
			return gone
		}
		n := start(t, config)
		defer stop(t, n)
		r.sink(n)
		for range 5 {
			ask(n, shard.Check, "plan", "acme")
		}
		disabled := func() bool {
			all, err := n.sinkAdmin.Statuses(t.Context())
			return err == nil && len(all) == 1 && all[0].Disabled != nil && strings.Contains(all[0].Disabled.Why, "410")
		}
		await.Until(t, "the sink is disabled", disabled)
		if n, dead := waiting(t, n); n != 1 || dead != 0 {
			t.Errorf("%d events wait, and %d are dead", n, dead)
		}
		mu.Lock()
		gone = false
		mu.Unlock()
		if err := n.sinkAdmin.SetEnabled(t.Context(), "billing", true, "jo"); err != nil {
			t.Fatal(err)
		}
		await.Until(t, "the event arrives", func() bool { return r.counted()["acme"] == 1 })
		history, err := n.admin.History(t.Context())
		var deeds []string
		for _, h := range history {
			deeds = append(deeds, h.Actor+" "+h.Deed+" "+h.Key)
			if strings.Contains(h.Note, "whsec_") {
				t.Errorf("the audit has a secret: %s", h.Note)
			}
		}
		slices.Sort(deeds)
		if want := []string{"jo sink create billing", "jo sink enable billing",
			"local sink disable billing"}; err != nil || !slices.Equal(deeds, want) {
			t.Errorf("%v: %q, want %q", err, deeds, want)
		}
	})
}

// The list of dead letters says why the last try of each has failed.
func TestADeadLetterSaysWhy(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		config := testConfig(t)
		withThresholds(t, &config)
		config.Dev, config.TestClock = true, true
		r := newTold(t, &config.World.Sinks)
		r.fail = func(w http.ResponseWriter, _ *http.Request, _ int, _ string) bool {
			w.WriteHeader(http.StatusTeapot)
			return true
		}
		n := start(t, config)
		defer stop(t, n)
		r.sink(n)
		for range 5 {
			ask(n, shard.Check, "plan", "acme")
		}
		await.Until(t, "the sink fails", func() bool {
			all, err := n.sinkAdmin.Statuses(t.Context())
			return err == nil && strings.Contains(all[0].Failing, "418")
		})
		if _, err := (&testClockAdmin{n.config.testClock, n.view, n.router}).Advance(t.Context(),
			notify.GiveUpAfter+time.Hour); err != nil {
			t.Fatal(err)
		}
		var letters []shard.Event
		await.Until(t, "the event is a dead letter", func() bool {
			for _, one := range n.replicas.all() {
				one.group.View(func(s *shard.State) {
					page, err := shard.ReadEvents(s, shard.EventsQuery{List: shard.EventsDead})
					if err != nil {
						t.Error(err)
					}
					letters = append(letters, page.Events...)
				})
			}
			return len(letters) > 0
		})
		// One of five connections has a wrong certificate: that is a reason, too.
		if why := letters[0].Why; letters[0].Key != "acme" || !strings.Contains(why, "418") &&
			!strings.Contains(why, "certificate") {
			t.Errorf("%+v", letters[0])
		}
	})
}

// All senders to sinks share one reading of them, and no change goes unnoticed.
func TestSinksAreReadOnceForAllWhoSend(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		config, journal := testConfig(t), newJournal(t)
		config.Logger = journal.of("n1")
		n := start(t, config)
		defer stop(t, n)
		a := n.sinkAdmin
		read := func(maxAge time.Duration) time.Time {
			at, err := a.readRecently(t.Context(), maxAge)
			if err != nil || *n.documents.bills.now().value == "" {
				t.Fatal(err)
			}
			return at
		}
		hook := notify.Sink{Name: "billing", Kind: notify.Webhook, URL: "https://example.com",
			Events: []string{notify.Usage}}
		if _, err := a.Create(t.Context(), hook, "jo"); err != nil {
			t.Fatal(err)
		}
		first := read(time.Hour)
		if again := read(time.Hour); !again.Equal(first) || len(*a.sinks.now().value) != 1 {
			t.Errorf("read again at %v: %+v", again, *a.sinks.now().value)
		}
		time.Sleep(time.Millisecond) // a reading takes no time here
		if read(0).Equal(first) {
			t.Error("older than wanted")
		}
		if err := a.SetEnabled(t.Context(), "billing", false, "jo"); err != nil {
			t.Fatal(err)
		}
		before := read(0)
		time.Sleep(time.Millisecond)
		if err := a.SetEnabled(t.Context(), "billing", true, "jo"); err != nil {
			t.Fatal(err)
		}
		if read(time.Hour).Equal(before) || (*a.sinks.now().value)[0].Disabled != nil {
			t.Errorf("a change is not seen: %+v", *a.sinks.now().value)
		}
		for _, done := range []string{"disabled", "enabled"} {
			if line := `"a sink was ` + done + `" on=n1 name=billing actor=jo`; journal.says("n1", line) != 1 {
				t.Errorf("the log lacks %s", line)
			}
		}
	})
}

// What two owners have seen of the same key is told once. Package top tests what is a spike.
func TestASpikeIsToldOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		config := testConfig(t)
		withThresholds(t, &config)
		r := newTold(t, &config.World.Sinks)
		seen := make(chan string, 10)
		r.fail = func(_ http.ResponseWriter, q *http.Request, _ int, _ string) bool {
			seen <- q.Header.Get("webhook-id")
			return true // 200
		}
		n := start(t, config)
		defer stop(t, n)
		r.sinkOf(n, notify.Spike)
		for range 2 {
			n.dispatcher.noteSpikes(t.Context(), []top.Spike{
				{Namespace: shard.DefaultNamespace, Policy: "plan", Key: "loop", End: time.Now().UnixMicro(),
					Denials: 150, Mean: 2},
				{Namespace: shard.DefaultNamespace, Policy: "plan", Key: "long ago",
					End: time.Now().Add(-time.Hour).UnixMicro(), Denials: 150},
			})
		}
		id := await.Receive(t, "the spike", seen)
		await.Until(t, "no event waits", func() bool { w, _ := waiting(t, n); return w == 0 })
		for len(seen) > 0 {
			if again := <-seen; again != id {
				t.Errorf("told again, as %s", again)
			}
		}
	})
}

// The node refuses to be made to ask itself, or a machine beside it.
func TestAnEventReachesNoPrivateAddressUnlessItIsAllowed(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		config := testConfig(t)
		withThresholds(t, &config)
		r := newTold(t, &config.World.Sinks)
		config.SinkAllow = nil
		n := start(t, config)
		defer stop(t, n)
		r.sink(n)
		for range 5 {
			ask(n, shard.Check, "plan", "acme")
		}
		await.Until(t, "the sink fails", func() bool {
			all, err := n.sinkAdmin.Statuses(t.Context())
			return err == nil && len(all) == 1 && strings.Contains(all[0].Failing, "--sink-allow")
		})
		if len(r.tries) != 0 {
			t.Errorf("it was asked: %v", r.tries)
		}
	})
}

func TestSinksAreNamedOnceAndKeepTheirSecrets(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		n := start(t, testConfig(t))
		defer stop(t, n)
		a, ctx := n.sinkAdmin, t.Context()
		hook := notify.Sink{Name: "billing", Kind: notify.Webhook, URL: "https://example.com",
			Events: []string{notify.Usage}}
		first, err := a.Create(ctx, hook, "jo")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.Create(ctx, hook, "jo"); !isConflict(err) {
			t.Errorf("a second sink of the name: %v", err)
		}
		second, err := a.Rotate(ctx, "billing", "", time.Hour, "jo")
		if err != nil || second == first {
			t.Errorf("rotated: %v", err)
		}
		all, err := a.Sinks(ctx)
		if err != nil || len(all) != 1 || len(all[0].Secrets) != 2 || all[0].Secrets[0].Text() != second ||
			all[0].Secrets[1].Text() != first {
			t.Errorf("%v: %v", err, all)
		}
		if _, err := a.Rotate(ctx, "billing", "sk_test", 0, "jo"); err == nil {
			t.Error("a webhook takes an API key")
		}
		for _, err := range []error{a.Delete(ctx, "other", "jo"), a.SetEnabled(ctx, "other", true, "jo")} {
			if err == nil || !strings.Contains(err.Error(), `"other"`) {
				t.Errorf("a sink that is not there: %v", err)
			}
		}
		if err := a.Delete(ctx, "billing", "jo"); err != nil {
			t.Fatal(err)
		}
		if all, err := a.Sinks(ctx); err != nil || len(all) != 0 {
			t.Errorf("%v: %v", err, all)
		}
	})
}

// A limit for life has no window: its event says neither when it began nor when it ends.
func TestAnEventOfALimitForLifeHasNoDates(t *testing.T) {
	m := eventMessage("evt_1", &shard.Event{Kind: shard.EventThreshold, At: 1e6, End: limit.Forever})
	if text := string(m.Body); strings.Contains(text, `"start"`) || strings.Contains(text, `"end"`) {
		t.Error(text)
	}
	if m := eventMessage("evt_1", &shard.Event{Kind: shard.EventThreshold, At: 1e6, Start: 60e6,
		End: 120e6}); !strings.Contains(string(m.Body),
		`"start":"1970-01-01T00:01:00Z","end":"1970-01-01T00:02:00Z"`) {
		t.Error(string(m.Body))
	}
}
